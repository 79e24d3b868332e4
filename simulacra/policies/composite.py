"""Policies around policies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from simulacra.cancellation import CancellationToken
from simulacra.errors import OperationCancelledError, SimulacraError
from simulacra.policies.base import Policy, PolicyResult
from simulacra.policies.noop import NoopPolicy

if TYPE_CHECKING:
    from simulacra.conversation import Conversation

Opening = Callable[..., Awaitable[Any]]


class CompositePolicy(Policy):
    """Runs policies inside each other; each one sees the errors of those inside it as they are.

    Args:
        policies: The first is the outermost; none at all act as `NoopPolicy`.
    """

    def __init__(self, *policies: Policy) -> None:
        self.policies = policies
        self._order = [f"{type(policy).__name__}[{place}]" for place, policy in enumerate(policies)]

    def attach(self, conversation: Conversation) -> None:
        for policy in self.policies:
            policy.attach(conversation)

    async def execute(
        self, cancellation_token: CancellationToken, fn: Callable[..., Awaitable[Any]], *args: Any
    ) -> PolicyResult:
        records: dict[str, Mapping[str, Any]] = {}
        outermost = self.policies[0] if self.policies else NoopPolicy()

        for place in range(len(self.policies) - 1, 0, -1):
            fn = self._inside(place, cancellation_token, fn, records)

        cancellation_token.throw_if_cancellation_requested()

        try:
            outcome = await outermost.execute(cancellation_token, fn, *args)
        except OperationCancelledError:
            raise
        except Exception as error:  # noqa: BLE001 -- a policy that fails is a failed request
            return PolicyResult(result=False, error=error, metadata=self._metadata(records))

        if self.policies:
            records[self._order[0]] = outcome.metadata

        return PolicyResult(
            result=outcome.result, value=outcome.value, error=outcome.error, metadata=self._metadata(records)
        )

    def _inside(
        self, place: int, token: CancellationToken, fn: Opening, records: dict[str, Mapping[str, Any]]
    ) -> Opening:
        """The policy at `place` around `fn`, as a function that returns or raises for the policy outside it."""
        policy, name = self.policies[place], self._order[place]

        async def execute(*args: Any) -> Any:
            outcome = await policy.execute(token, fn, *args)
            records[name] = outcome.metadata

            if not outcome.result:
                raise outcome.error or SimulacraError(f"{name} failed and names no error")

            return outcome.value

        return execute

    def _metadata(self, records: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        return {
            "policy": type(self).__name__,
            "policies": {name: dict(records[name]) for name in self._order if name in records},
            "execution_order": list(self._order),
            "policy_count": len(self.policies),
        }
