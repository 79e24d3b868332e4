"""Policies: what surrounds the opening of a stream."""

from simulacra.policies.base import Policy, PolicyResult, RequestAttempt

__all__ = ["Policy", "PolicyResult", "RequestAttempt"]
