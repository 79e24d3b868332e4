"""The policy port: what surrounds the opening of a stream. Policies see attempts, never messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simulacra.cancellation import CancellationToken
from simulacra.provider import ModelProvider

if TYPE_CHECKING:
    from simulacra.conversation import Conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAttempt:
    """What is about to be tried. Passed on with another provider, its request is built anew for that one.

    Args:
        provider: Who answers.
        model: The model asked for.
        conversation_id: Whose request it is.
        estimate: Computes the tokens the request will probably read; costly, so only when a policy asks.
    """

    provider: ModelProvider
    model: str
    conversation_id: str
    estimate: Callable[[], int] = lambda: 0

    @property
    def estimated_tokens(self) -> int:
        return self.estimate()


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult:
    """How it went: `value` when `result` is true, `error` when not; `metadata` holds JSON values only."""

    result: bool
    value: Any = None
    error: Exception | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Policy(ABC):
    """Decides when, how often and with whom an attempt is made, up to its first event."""

    @abstractmethod
    async def execute(
        self, cancellation_token: CancellationToken, fn: Callable[..., Awaitable[Any]], *args: Any
    ) -> PolicyResult:
        """Run `fn(*args)` under this policy.

        Args:
            cancellation_token: Ends waiting and running at once.
            fn: The engine passes `open(attempt) -> OpenStream`.
            args: Arguments of `fn`.

        Returns:
            The outcome; failures of `fn` and of the policy come back as `result=False`.

        Raises:
            OperationCancelledError: The token was cancelled before, while waiting, or while running.
        """

    def attach(self, conversation: Conversation) -> None:  # noqa: B027 -- optional
        """Told of each conversation that uses it; again for the same one is harmless."""
