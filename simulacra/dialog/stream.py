"""The stream a consumer iterates: the events of a turn, and of the tool loop it belongs to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Self

from simulacra.dialog.run import Run
from simulacra.emitter import Event
from simulacra.errors import InvalidStateError
from simulacra.events import ContentUpdate
from simulacra.messages import Response


class TurnStream:
    """An async context manager; iterate it for events: all but `before_request` and `raw_*`, which listeners get.

    Errors of the turn raise from the iteration. Leaving early cancels the turn, keeps what was delivered and closes
    the connection; `response()` tells the outcome in every case.

    Args:
        admit: Waits for the floor; a `Response` comes back when another caller's work answers this input.
    """

    def __init__(self, admit: Callable[[], Awaitable[Run | Response]]) -> None:
        self._admit = admit
        self._run: Run | None = None
        self._events: AsyncGenerator[Event, None] | None = None
        self._response: Response | None = None
        self._error: Exception | None = None
        self._is_entered = False
        self._is_finished = False

    async def __aenter__(self) -> Self:
        if self._is_entered:
            raise InvalidStateError("entering a stream", state="entered before", remedy="Ask for a new one")

        self._is_entered = True
        admitted = await self._admit()

        if isinstance(admitted, Response):
            self._response = admitted
            self._is_finished = True
        else:
            self._run = admitted
            self._events = admitted.events()

        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_finished and self._run is not None:
            self._run.cancel()
            await self._drain()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        return await self._take(text_only=False)

    async def _take(self, *, text_only: bool) -> Event:
        if self._run is not None:
            self._run.text_only = text_only

        if self._events is None:
            if self._is_finished:
                raise StopAsyncIteration

            raise InvalidStateError("iterating a stream", state="not entered", remedy="Use it in `async with`")

        try:
            return await anext(self._events)
        except StopAsyncIteration:
            self._finish(None)
            raise
        except BaseException as error:
            self._finish(error)
            raise

    def text_deltas(self) -> AsyncIterator[str]:
        """The pieces of the reply's text, as they arrive."""
        return _TextDeltas(self._next_text)

    async def response(self) -> Response:
        """Iterate to the end, if that did not happen yet, and tell how it ended.

        Raises:
            ProviderError: The turn failed.
        """
        async for _ in self:
            pass

        return self.outcome()

    def outcome(self) -> Response:
        """How the finished turn ended; raises what it raised."""
        if self._error is not None:
            raise self._error

        if self._response is None:
            raise InvalidStateError("reading the response", state="unfinished", remedy="Iterate the stream first")

        return self._response

    def cancel(self) -> None:
        """Cancel the turn; go on iterating for what was delivered, or just leave."""
        if self._run is not None and not self._is_finished:
            self._run.cancel()

    async def _next_text(self) -> str:
        while True:
            event = await self._take(text_only=True)

            if type(event) is ContentUpdate and event.content.type == "text":
                return event.delta

    async def _drain(self) -> None:
        """Let the cancelled turn settle; what it raises was cancelled together with it."""
        try:
            async for _ in self:
                pass
        except Exception as error:  # noqa: BLE001 -- response() raises it
            self._error = error

    def _finish(self, error: BaseException | None) -> None:
        self._is_finished = True
        self._error = error if isinstance(error, Exception) else None  # a cancelled task has a cancelled response
        self._events = None

        if self._run is not None:
            self._response = self._run.response


class _TextDeltas(AsyncIterator[str]):
    """No generator: whoever leaves a loop over one early would have to close it."""

    def __init__(self, take: Callable[[], Awaitable[str]]) -> None:
        self._take = take

    def __anext__(self) -> Awaitable[str]:
        return self._take()
