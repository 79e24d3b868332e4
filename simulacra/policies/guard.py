"""One attempt under a token, as every policy makes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from simulacra.cancellation import CancellationToken, cancellable
from simulacra.clock import time_limit
from simulacra.errors import OperationCancelledError

_CLOSE_SECONDS = 0.05  # half of what a cancelled turn has to settle in


async def attempt(token: CancellationToken, fn: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    """Run `fn(*args)` unless, and until, the token is cancelled.

    A stream that `fn` opened in spite of the cancel is closed, and a failure that the cancel brought about is told
    as the cancellation it is.

    Args:
        token: What ends the attempt.
        fn: What is tried.
        args: Its arguments.

    Returns:
        What `fn` returned.

    Raises:
        OperationCancelledError: The token was cancelled before or while `fn` ran.
    """
    try:
        value = await cancellable(token, fn, *args)
    except OperationCancelledError:
        raise
    except Exception as error:
        if token.is_cancellation_requested:
            raise OperationCancelledError(token) from error

        raise

    if token.is_cancellation_requested:
        await _close(value)
        raise OperationCancelledError(token)

    return value


async def _close(value: Any) -> None:
    close = getattr(value, "aclose", None)

    if close is not None:
        with time_limit(_CLOSE_SECONDS, shield=True):
            await close()
