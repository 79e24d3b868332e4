"""Cancellation tokens: one side cancels, the other side asks, waits or is told.

Beside these tokens the event loop's own cancellation works everywhere; a token is for code that holds no task.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import ParamSpec, Self, TypeVar

import anyio

from simulacra.clock import Timer, clock
from simulacra.errors import ConfigurationError, OperationCancelledError
from simulacra.scopes import cancel_scope

Handler = Callable[[], object]
P = ParamSpec("P")
T = TypeVar("T")
logger = logging.getLogger("simulacra.cancellation")


class CancellationToken:
    """What the cancelled side holds. Made by a `CancellationTokenSource`, or `empty()` for never."""

    __slots__ = ("_cancelled", "_handlers")

    def __init__(self) -> None:
        self._cancelled = False
        self._handlers: list[Handler] = []

    @classmethod
    def empty(cls) -> CancellationToken:
        """A token that is never cancelled."""
        return cls()

    @property
    def is_cancellation_requested(self) -> bool:
        return self._cancelled

    def once(self, event: str, handler: Handler) -> Callable[[], None]:
        """Run `handler` when cancelled; at once if that has happened already.

        Args:
            event: Always `"cancel"`.
            handler: Called without arguments, at most once.

        Returns:
            A function that takes the handler off again.

        Raises:
            ConfigurationError: The event is unknown.
        """
        _check_event(event)

        if self._cancelled:
            handler()
        else:
            self._handlers.append(handler)

        return lambda: self.off("cancel", handler)

    def off(self, event: str, handler: Handler) -> None:
        """Take a handler off; an unknown one is ignored."""
        _check_event(event)

        if handler in self._handlers:
            self._handlers.remove(handler)

    def throw_if_cancellation_requested(self) -> None:
        """Raise `OperationCancelledError` if the token is cancelled."""
        if self._cancelled:
            raise OperationCancelledError(self)

    async def await_cancellation(self) -> None:
        """Wait until the token is cancelled, then raise.

        Raises:
            OperationCancelledError: Always, once cancelled.
        """
        cancelled = anyio.Event()
        unsubscribe = self.once("cancel", cancelled.set)

        try:
            await cancelled.wait()
        finally:
            unsubscribe()

        raise OperationCancelledError(self)

    def _cancel(self) -> None:
        self._cancelled = True
        handlers, self._handlers = self._handlers, []

        for handler in handlers:
            try:
                handler()
            except Exception:  # a failing handler keeps the cancel from no other
                logger.exception("a cancellation handler failed")


class CancellationTokenSource:
    """What the cancelling side holds. As a context manager it is disposed at the end of the block."""

    def __init__(self) -> None:
        self.token = CancellationToken()
        self._timer: Timer | None = None
        self._links: list[Callable[[], None]] = []
        self._disposed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()

    @classmethod
    def linked(cls, *tokens: CancellationToken) -> CancellationTokenSource:
        """A source that is cancelled as soon as one of `tokens` is, or at once if one is already."""
        source = cls()

        for token in tokens:
            source._links.append(token.once("cancel", source.cancel))

        if source.is_cancelled:
            source._release()

        return source

    @property
    def is_cancelled(self) -> bool:
        return self.token.is_cancellation_requested

    def cancel(self) -> None:
        """Cancel the token; again, or after `dispose`, it does nothing."""
        if not self._disposed and not self.is_cancelled:
            self._release()
            self.token._cancel()  # noqa: SLF001 -- only a source may cancel its token

    def cancel_after(self, seconds: float) -> None:
        """Cancel by itself when `seconds` have passed; a later call replaces the time set by an earlier one."""
        if self._disposed or self.is_cancelled:
            return

        if self._timer is not None:
            self._timer.cancel()

        self._timer = clock().call_later(seconds, self.cancel)

    def once(self, event: str, handler: Handler) -> Callable[[], None]:
        """As `CancellationToken.once`."""
        return self.token.once(event, handler)

    def off(self, event: str, handler: Handler) -> None:
        """As `CancellationToken.off`."""
        self.token.off(event, handler)

    def dispose(self) -> None:
        """Drop handlers, links and timer; a later `cancel()` does nothing."""
        self._disposed = True
        self.token._handlers.clear()  # noqa: SLF001 -- the handlers are this source's
        self._release()

    def _release(self) -> None:
        """Leave nothing behind on other tokens or on the clock."""
        links, self._links = self._links, []

        for unlink in links:
            unlink()

        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def cancellable(token: CancellationToken, fn: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Await `fn(...)`, but end it as soon as the token is cancelled.

    Args:
        token: What may end the work; no handler stays on it.
        fn: An async function; its awaits are where it can be ended.
        args: Arguments of `fn`.
        kwargs: Keyword arguments of `fn`.

    Returns:
        What `fn` returned; also when the token was cancelled too late to end it.

    Raises:
        OperationCancelledError: The token was cancelled before, or ended the work.
    """
    token.throw_if_cancellation_requested()

    with cancel_scope() as scope:
        unsubscribe = token.once("cancel", scope.cancel)

        try:
            return await fn(*args, **kwargs)
        finally:
            unsubscribe()

    raise OperationCancelledError(token)


async def sleep(seconds: float, token: CancellationToken | None = None) -> None:
    """Wait, or raise as soon as the token is cancelled.

    Args:
        seconds: How long, on the engine's clock.
        token: What may end the wait.

    Raises:
        OperationCancelledError: The token is, or becomes, cancelled.
    """
    if token is None:
        await clock().sleep(seconds)
        return

    await cancellable(token, clock().sleep, seconds)
    token.throw_if_cancellation_requested()


def _check_event(event: str) -> None:
    if event != "cancel":
        raise ConfigurationError(f"unknown event {event!r}: a cancellation token announces 'cancel' only")
