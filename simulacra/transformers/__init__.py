"""Context transformers: what shapes the messages of a request."""

from simulacra.transformers.base import ContextTransformer, Explanation, TransformContext

__all__ = ["ContextTransformer", "Explanation", "TransformContext"]
