"""The transformer that changes nothing."""

from __future__ import annotations

from simulacra.transformers.base import ContextTransformer


class NoopContextTransformer(ContextTransformer):
    """Sends history as it is stored and stores replies as they come."""
