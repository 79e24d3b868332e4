"""A turn's stream for plain scripts: the same events, pumped over from the background event loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from simulacra.blocking import Pump
from simulacra.dialog.stream import TurnStream
from simulacra.emitter import Event
from simulacra.errors import InvalidStateError
from simulacra.events import ContentUpdate
from simulacra.messages import Response


class SyncTurnStream:
    """A context manager; iterate it for events. Leaving it early, Ctrl-C included, cancels and keeps what came.

    Args:
        stream: What to iterate on the background loop.
    """

    def __init__(self, stream: TurnStream) -> None:
        self._stream = stream
        self._pump: Pump[Event] | None = None

    def __enter__(self) -> Self:
        self._pump = Pump(self._stream, _untake)

        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pump is not None:
            self._pump.close()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self._pump is None:
            raise InvalidStateError("iterating a stream", state="not entered", remedy="Use it in `with`")

        return next(self._pump)

    def text_deltas(self) -> Iterator[str]:
        """The pieces of the reply's text, as they arrive."""
        for event in self:
            if type(event) is ContentUpdate and event.content.type == "text":
                yield event.delta

    def response(self) -> Response:
        """Iterate to the end, if that did not happen yet, and tell how it ended.

        Raises:
            ProviderError: The turn failed.
        """
        for _ in self:
            pass

        return self._stream.outcome()

    def cancel(self) -> None:
        """Cancel the turn; go on iterating for what was delivered, or just leave."""
        self._stream.cancel()


def _untake(events: Sequence[Event]) -> None:
    """What the script never got was not delivered."""
    for event in events:
        if type(event) is ContentUpdate:
            event.content.delivered -= 1
