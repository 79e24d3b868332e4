"""Trying again after failures that pass, with growing, random and bounded waits."""

from __future__ import annotations

import errno
import math
import random as randomness
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from types import UnionType
from typing import TYPE_CHECKING, Any

from simulacra.cancellation import CancellationToken, sleep
from simulacra.cleaning import clean_text
from simulacra.clock import clock
from simulacra.errors import ConfigurationError, OperationCancelledError, ProviderError
from simulacra.policies.base import Policy, PolicyResult
from simulacra.policies.guard import attempt

if TYPE_CHECKING:
    from tenacity import RetryCallState
    from tenacity.asyncio import AsyncRetrying

_RETRYABLE_STATUSES = frozenset({408, 409, 429})
_RETRYABLE_ERRNOS = frozenset(
    {
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.EPIPE,
        errno.ETIMEDOUT,
    }
)


def default_retryable(error: BaseException) -> bool:
    """Whether repeating the request may help.

    A `ProviderError` knows it; else an HTTP status decides, read from `status` or `status_code`; else what the error,
    or one it was raised from, says about the connection. Message texts never do.

    Args:
        error: What ended the attempt.
    """
    if isinstance(error, OperationCancelledError):
        return False

    if isinstance(error, ProviderError):
        return error.retryable

    for name in ("status", "status_code"):
        status = getattr(error, name, None)

        if isinstance(status, int) and not isinstance(status, bool):
            return status in _RETRYABLE_STATUSES or 500 <= status < 600

    return any(_is_connection_failure(cause) for cause in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from, down to the first cause."""
    seen: set[int] = set()
    current: BaseException | None = error

    while current is not None and id(current) not in seen:
        yield current
        seen.add(id(current))
        current = current.__cause__


def _is_connection_failure(error: BaseException) -> bool:
    if isinstance(error, ConnectionError | TimeoutError):
        return True

    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_AGAIN

    return isinstance(error, OSError) and error.errno in _RETRYABLE_ERRNOS


class RetryPolicy(Policy):
    """Repeats an attempt that failed before its first event.

    The wait before attempt n + 1 is the server's hint when there is one, exactly as long as it says; otherwise it is
    drawn from `[0, b]` with `b = min(max_backoff_ms, initial_backoff_ms * backoff_factor ** (n - 1))` ("full jitter",
    AWS Architecture Blog, Exponential Backoff And Jitter). A wait that would pass `max_total_ms` is not begun: the
    failure is returned at once.

    Args:
        max_attempts: How often to try, the first attempt included.
        initial_backoff_ms: Bound of the first wait, in milliseconds.
        backoff_factor: Growth of that bound from wait to wait.
        retryable: Whether an error is worth another attempt.
        max_backoff_ms: Bound of every wait that no server asked for, in milliseconds.
        max_total_ms: Bound of attempts and waits together, in milliseconds; `math.inf` for none.
        jitter: Whether waits are random; without it each is as long as its bound.
        random: Gives numbers in `[0, 1)`.

    Raises:
        ConfigurationError: A number is out of its range.
    """

    def __init__(  # noqa: PLR0913 -- keyword options of a constructor
        self,
        max_attempts: int,
        initial_backoff_ms: float,
        backoff_factor: float,
        retryable: Callable[[BaseException], bool] = default_retryable,
        *,
        max_backoff_ms: float = 30_000,
        max_total_ms: float = 120_000,
        jitter: bool = True,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        _require("max_attempts", max_attempts, int, at_least=1)
        _require("initial_backoff_ms", initial_backoff_ms, int | float, at_least=0)
        _require("backoff_factor", backoff_factor, int | float, at_least=1)
        _require("max_backoff_ms", max_backoff_ms, int | float, at_least=0)
        _require("max_total_ms", max_total_ms, int | float, at_least=0, below=None)
        self.max_attempts = max_attempts
        self.initial_backoff_ms = initial_backoff_ms
        self.backoff_factor = backoff_factor
        self.retryable = retryable
        self.max_backoff_ms = max_backoff_ms
        self.max_total_ms = max_total_ms
        self.jitter = jitter
        self.random = random

    async def execute(
        self, cancellation_token: CancellationToken, fn: Callable[..., Awaitable[Any]], *args: Any
    ) -> PolicyResult:
        run = _Run(self, cancellation_token)

        try:
            value: Any = await run.make(lambda: attempt(cancellation_token, fn, *args))
        except OperationCancelledError:
            raise
        except Exception as error:  # noqa: BLE001 -- a failure is a result; the turn raises it
            return PolicyResult(result=False, error=error, metadata=run.metadata())

        return PolicyResult(result=True, value=value, metadata=run.metadata())

    def backoff_ms(self, attempts: int) -> float:
        """Bound of the wait after so many attempts, in milliseconds."""
        try:
            growth = self.backoff_factor ** (attempts - 1)
        except OverflowError:
            growth = sys.float_info.max

        return min(self.initial_backoff_ms * growth, self.max_backoff_ms)


class _Run:
    """One execution: what tenacity asks at each step, answered on the engine's clock, and its record."""

    def __init__(self, policy: RetryPolicy, token: CancellationToken) -> None:
        self._policy = policy
        self._token = token
        self._started = clock().monotonic()
        self._attempts = 0
        self._wait_ms = 0.0
        self._last_backoff_ms: float | None = None
        self._last_error = ""

    async def make(self, make_attempt: Callable[[], Awaitable[Any]]) -> Any:
        """Attempts until one works or no other may follow. One that works at once pays nothing for what might come."""
        self._attempts = 1

        try:
            return await make_attempt()
        except Exception as error:  # noqa: BLE001 -- tenacity decides, as if it had made this attempt itself
            failures = [error]

        async def next_attempt() -> Any:
            if failures:
                raise failures.pop()

            return await make_attempt()

        return await self._retrying()(next_attempt)

    def _retrying(self) -> AsyncRetrying:
        from tenacity.asyncio import AsyncRetrying  # noqa: PLC0415 -- `import simulacra` is to stay cheap

        return AsyncRetrying(
            before=self._count,
            retry=self._is_retryable,
            wait=self._wait,
            stop=self._stops,
            sleep=self._sleep,
            reraise=True,
        )

    def metadata(self) -> dict[str, Any]:
        policy = self._policy
        record: dict[str, Any] = {
            "policy": type(policy).__name__,
            "attempts": self._attempts,
            "max_attempts": policy.max_attempts,
            "initial_backoff_ms": policy.initial_backoff_ms,
            "backoff_factor": policy.backoff_factor,
        }

        if self._last_error:
            record["last_error"] = self._last_error

        if self._last_backoff_ms is not None:
            record["last_backoff_ms"] = self._last_backoff_ms

        return record

    def _count(self, state: RetryCallState) -> None:
        self._attempts = state.attempt_number

    def _is_retryable(self, state: RetryCallState) -> bool:
        error = _error_of(state)

        if not isinstance(error, Exception):
            return False

        self._last_error = clean_text(f"{type(error).__name__}: {error}")

        return not isinstance(error, OperationCancelledError) and self._policy.retryable(error)

    def _wait(self, state: RetryCallState) -> float:
        hint = _wait_hint(_error_of(state))

        if hint is not None:
            self._wait_ms = hint * 1000

            return hint

        bound = self._policy.backoff_ms(state.attempt_number)
        self._wait_ms = bound * self._policy.random() if self._policy.jitter else bound

        return self._wait_ms / 1000

    def _stops(self, state: RetryCallState) -> bool:
        elapsed_ms = (clock().monotonic() - self._started) * 1000

        return (
            state.attempt_number >= self._policy.max_attempts or elapsed_ms + self._wait_ms > self._policy.max_total_ms
        )

    async def _sleep(self, seconds: float) -> None:
        self._last_backoff_ms = self._wait_ms
        await sleep(seconds, self._token)


def _error_of(state: RetryCallState) -> BaseException | None:
    return None if state.outcome is None else state.outcome.exception()


def _wait_hint(error: BaseException | None) -> float | None:
    """Seconds the server asked for, if it asked in a way that can be read."""
    hint = getattr(error, "retry_after", None)

    if isinstance(hint, int | float) and not isinstance(hint, bool) and 0 <= hint < math.inf:
        return hint

    return None


def _require(name: str, value: float, kind: type | UnionType, *, at_least: int, below: float | None = math.inf) -> None:
    fits = isinstance(value, kind) and not isinstance(value, bool) and value >= at_least  # NaN is never at least

    if not fits or (below is not None and value >= below):
        wanted = "a whole number" if kind is int else "a number"
        raise ConfigurationError(f"RetryPolicy: {name} must be {wanted} of at least {at_least}, not {value!r}")
