"""Bytes of an event stream in, JSON events out, wherever the network cut them.

Only CR, LF and CRLF end a line (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream);
every other character, U+2028 included, is content. The usual event, one `data:` line ended by LF, perhaps with its name
in a line before, takes a short path.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from jiter import from_json

from simulacra.errors import ProtocolError

ServerEvent: TypeAlias = tuple[str, bytes]
"""The event's name, empty when it has none, and its data."""

_ECHO = 200
_BOM = b"\xef\xbb\xbf"


class EventSplitter:
    """Cuts the bytes of one stream into events."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._after_cr = False
        self._begun = False

    def feed(self, data: bytes) -> list[ServerEvent]:
        """The events that these bytes complete; comments and events without data are none."""
        if self._after_cr or b"\r" in data:
            data = self._plain_line_ends(data)

        if self._begun and not self._rest and data.endswith(b"\n\n") and (usual := _usual_event(data[:-2])):
            return [usual]

        if self._rest:
            self._rest.append(data)

            if b"\n" not in data:  # without a line end nothing is complete: do not join yet
                return []

            data = b"".join(self._rest)
            self._rest.clear()

        if not self._begun:
            if _BOM.startswith(data):
                self._rest.append(data)
                return []

            self._begun = True
            data = data.removeprefix(_BOM)

        *blocks, rest = data.split(b"\n\n")

        if rest:
            self._rest.append(rest)

        events: list[ServerEvent] = []

        for block in blocks:
            event = _usual_event(block) or _read_block(block)

            if event is not None:
                events.append(event)

        return events

    def flush(self) -> list[ServerEvent]:
        """What stands at the end of the stream without the empty line that would end it."""
        event = _read_block(b"".join(self._rest).removeprefix(_BOM))
        self._rest.clear()

        return [] if event is None else [event]

    def _plain_line_ends(self, data: bytes) -> bytes:
        """Make every line end LF. A CR ends its line at once; an LF that follows it, also in the next read, is its own."""
        if not data:
            return data

        if self._after_cr:
            data = data.removeprefix(b"\n")

        self._after_cr = data.endswith(b"\r")

        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _usual_event(block: bytes) -> ServerEvent | None:
    """The event that one `data:` line makes, or an `event:` line and one `data:` line; `None` for any other block."""
    name, start = "", 6

    if block.startswith(b"event: "):
        end = block.find(b"\n")
        name, start = block[7:end].decode("utf-8", "replace"), end + 7

    if not block.startswith(b"data: ", start - 6) or block.find(b"\n", start) >= 0:
        return None

    return name, block[start:]


def _read_block(block: bytes) -> ServerEvent | None:
    """The event that lines between two empty ones make, or `None` when they carry no data."""
    name = ""
    data: list[bytes] = []

    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")

        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ").decode("utf-8", "replace")

    return (name, b"\n".join(data)) if data else None


def read_event(name: str, data: bytes) -> dict[str, Any] | None:
    """The JSON object of an event, or `None` for `[DONE]`.

    An event called `error` is given the shape of a chunk that carries an error; JSON that is no object is an empty one.

    Raises:
        ProtocolError: The data is no JSON.
    """
    try:
        value = from_json(data)
    except ValueError as error:
        if data.strip() == b"[DONE]":
            return None

        value = _read_leniently(data, error)

    if not isinstance(value, dict):
        return {}

    return {"error": value} if name == "error" and not value.get("error") else value


def _read_leniently(data: bytes, error: ValueError) -> Any:
    """Half a surrogate pair, which the fast parser refuses, is a piece of a character: the fold puts it together."""
    try:
        return json.loads(data)
    except ValueError:
        start = data[:_ECHO].decode("utf-8", "replace")
        raise ProtocolError(f"an event of the stream is no JSON ({error}): {start}") from error
