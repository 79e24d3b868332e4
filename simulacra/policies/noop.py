"""The policy that adds nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from simulacra.cancellation import CancellationToken
from simulacra.errors import OperationCancelledError
from simulacra.policies.base import Policy, PolicyResult
from simulacra.policies.guard import attempt


class NoopPolicy(Policy):
    """One attempt, as it comes."""

    async def execute(
        self, cancellation_token: CancellationToken, fn: Callable[..., Awaitable[Any]], *args: Any
    ) -> PolicyResult:
        metadata = {"policy": type(self).__name__}

        try:
            value = await attempt(cancellation_token, fn, *args)
        except OperationCancelledError:
            raise
        except Exception as error:  # noqa: BLE001 -- a failure is a result; the turn raises it
            return PolicyResult(result=False, error=error, metadata=metadata)

        return PolicyResult(result=True, value=value, metadata=metadata)
