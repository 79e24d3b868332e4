"""Policies: what surrounds the opening of a stream."""

from simulacra.policies.base import Policy, PolicyResult, RequestAttempt
from simulacra.policies.composite import CompositePolicy
from simulacra.policies.default import default_policy
from simulacra.policies.noop import NoopPolicy
from simulacra.policies.retry import RetryPolicy, default_retryable

__all__ = [
    "CompositePolicy",
    "NoopPolicy",
    "Policy",
    "PolicyResult",
    "RequestAttempt",
    "RetryPolicy",
    "default_policy",
    "default_retryable",
]
