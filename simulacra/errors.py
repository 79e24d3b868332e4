"""Everything the engine raises, in one tree.

* SimulacraError
  x InvalidStateError (also RuntimeError)
  x ConfigurationError (also ValueError)
  x ToolError
    + ToolRetry
  x SessionError
    + ConflictError
    + DurabilityError
  x LimitExceededError
    + BudgetExceededError
  x OperationCancelledError
  x ProviderError
    + AuthenticationError
    + PermissionDeniedError
    + BadRequestError
      - ContextWindowError
    + NotFoundError
    + RateLimitError
    + QuotaExceededError
    + OverloadedError
    + ServerError
    + ConnectionFailedError
    + TimeoutExceededError
    + StreamInterruptedError
    + ContentFilteredError
    + ProtocolError

Usage mistakes (`InvalidStateError`, `ConfigurationError`) are raised before any side effect. A `ProviderError`
says whether repeating the request makes sense (`retryable`) and carries what was already delivered (`partial`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from simulacra.messages import AssistantMessage


class SimulacraError(Exception):
    """Base of everything the engine raises on purpose."""


class InvalidStateError(SimulacraError, RuntimeError):
    """A call that the object's present state does not allow.

    Args:
        operation: What was called, for example `"prompt"`.
        state: The present state.
        allowed: The states in which the call is legal.
        remedy: How to go on, as a sentence.
    """

    def __init__(self, operation: str, *, state: str, allowed: Sequence[str] = (), remedy: str = "") -> None:
        where = f"invalid state: {operation} is not possible while {state}"
        legal = f" (allowed: {', '.join(allowed)})" if allowed else ""
        super().__init__(f"{where}{legal}" + (f". {remedy}" if remedy else ""))
        self.operation = operation
        self.state = state
        self.allowed = tuple(allowed)
        self.remedy = remedy


class ConfigurationError(SimulacraError, ValueError):
    """An argument or option that cannot be right; nothing was changed."""


class ToolError(SimulacraError):
    """A tool that could not do what it was asked to do."""


class ToolRetry(ToolError):  # noqa: N818 -- an instruction to the model, named as one
    """Raised by a tool to ask the model for another try; the text tells it what to change."""


class SessionError(SimulacraError):
    """A stored conversation that could not be read or written."""


class ConflictError(SessionError):
    """Another writer appended first; this view of the journal is old.

    Args:
        expected: The last `seq` this writer knew.
        actual: The last `seq` the store has.
    """

    def __init__(self, *, expected: int, actual: int) -> None:
        super().__init__(
            f"journal conflict: expected head {expected}, but the store is at {actual}. Load the session again."
        )
        self.expected = expected
        self.actual = actual


class DurabilityError(SessionError):
    """A record that the store did not acknowledge."""


class LimitExceededError(SimulacraError):
    """A request that no waiting would let through.

    Args:
        message: Names the limit and the request, with both numbers.
        partial: What was delivered before the limit was passed, if anything.
    """

    def __init__(self, message: str, *, partial: AssistantMessage | None = None) -> None:
        super().__init__(message)
        self.partial = partial


class BudgetExceededError(LimitExceededError):
    """A budget of money or tokens is used up."""


class OperationCancelledError(SimulacraError):
    """The work was cancelled through its token.

    Args:
        token: The token that was cancelled, when there is one.
    """

    def __init__(self, token: object | None = None) -> None:
        super().__init__("The operation was cancelled")
        self.token = token


class ProviderError(SimulacraError):
    """A model request that failed.

    Args:
        message: What happened, where, and how to go on.
        provider: The provider's kind; the turn fills it in when the provider did not.
        model: The model asked for; the turn fills it in when the provider did not.
        status: HTTP status, when there was a response.
        code: The vendor's own error code or type.
        request_id: The vendor's id of the request.
        retryable: Overrides the class's default.
        retry_after: Seconds the vendor asks to wait before the next attempt.
        partial: What was delivered before the failure.
    """

    default_retryable: ClassVar[bool] = False

    def __init__(  # noqa: PLR0913 -- keyword facts of one failure
        self,
        message: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        partial: AssistantMessage | None = None,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retryable = self.default_retryable if retryable is None else retryable
        self.retry_after = retry_after
        self.partial = partial

    def __str__(self) -> str:
        place = "/".join(part for part in (self.provider, self.model) if part)
        text = super().__str__()

        return f"{place}: {text}" if place else text


class AuthenticationError(ProviderError):
    """The key is missing or wrong (401)."""


class PermissionDeniedError(ProviderError):
    """The key is right but may not do this (403)."""


class BadRequestError(ProviderError):
    """The vendor refused the request as it stands (400, 409, 413, 422)."""


class ContextWindowError(BadRequestError):
    """The prompt does not fit into the model's context window."""


class NotFoundError(ProviderError):
    """No such model or address (404)."""


class RateLimitError(ProviderError):
    """Too many requests (429); `retry_after` is the vendor's hint in seconds."""

    default_retryable = True


class QuotaExceededError(ProviderError):
    """Quota or credit is used up; waiting does not help."""


class OverloadedError(ProviderError):
    """The vendor is overloaded (503, 529)."""

    default_retryable = True


class ServerError(ProviderError):
    """The vendor failed (other 5xx)."""

    default_retryable = True


class ConnectionFailedError(ProviderError):
    """No response: the server could not be reached or hung up."""

    default_retryable = True


class TimeoutExceededError(ProviderError):
    """A time limit passed: to the first event, between events, or in total."""

    default_retryable = True


class StreamInterruptedError(ProviderError):
    """The stream ended without its closing event."""

    default_retryable = True


class ContentFilteredError(ProviderError):
    """The vendor blocked the prompt before any reply."""


class ProtocolError(ProviderError):
    """The vendor's answer is not what its wire format promises."""

    default_retryable = True
