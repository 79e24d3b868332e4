"""Checkpoints: how a summary of a conversation is asked for."""

from simulacra.checkpoints.base import CheckpointConfig, SummarizationContext, SummarizationStrategy
from simulacra.checkpoints.default import DefaultSummarizationStrategy
from simulacra.checkpoints.transcript import write_transcript

__all__ = [
    "CheckpointConfig",
    "DefaultSummarizationStrategy",
    "SummarizationContext",
    "SummarizationStrategy",
    "write_transcript",
]
