"""Context transformers: what shapes the messages of a request."""

from simulacra.transformers.base import ContextTransformer, Explanation, TransformContext
from simulacra.transformers.checkpoint import CheckpointContextTransformer, summary_message
from simulacra.transformers.composite import CompositeContextTransformer
from simulacra.transformers.noop import NoopContextTransformer
from simulacra.transformers.tool_orphans import ToolContextTransformer

__all__ = [
    "CheckpointContextTransformer",
    "CompositeContextTransformer",
    "ContextTransformer",
    "Explanation",
    "NoopContextTransformer",
    "ToolContextTransformer",
    "TransformContext",
    "summary_message",
]
