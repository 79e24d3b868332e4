"""What a conversation uses when it is given no policy."""

from __future__ import annotations

from simulacra.policies.base import Policy
from simulacra.policies.composite import CompositePolicy
from simulacra.policies.retry import RetryPolicy


def default_policy() -> Policy:
    """Three attempts, waiting up to one and then up to two seconds between them."""
    return CompositePolicy(RetryPolicy(max_attempts=3, initial_backoff_ms=1000, backoff_factor=2))
