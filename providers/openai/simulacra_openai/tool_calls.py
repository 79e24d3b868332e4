"""Putting streamed tool calls together from their fragments, whatever a service does with indexes and ids (OA-R1, OA-R2)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from simulacra.clock import clock
from simulacra.streaming import ContentExtended, ContentStop, StreamEvent, ToolArgumentsDelta, ToolCallStart

CALL_EXTRAS = "openai_call"
"""Under this key of `extended` a call keeps the service's own fields, which go back with it."""

_KNOWN_KEYS = frozenset({"index", "id", "type", "function"})


@dataclass(slots=True)
class _Call:
    """One call as far as it has come. It has a `block`, its label in the stream, as soon as it has a name.

    `vendor_id` is the service's id, empty when there is none; `request_id` is the one that the result will name.
    """

    vendor_id: str = ""
    request_id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    extras: dict[str, Any] = field(default_factory=dict)
    block: int | None = None


class ToolCalls:
    """The calls of one reply.

    Args:
        new_block: Gives the label of the next block.
    """

    def __init__(self, new_block: Callable[[], int]) -> None:
        self._new_block = new_block
        self._calls: list[_Call] = []
        self._open: list[int] = []
        self._latest: dict[Any, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._seen: set[tuple[Any, str]] = set()

    def add(self, fragment: dict[str, Any]) -> list[StreamEvent]:
        """The events of one fragment: none until its call has a name."""
        function = fragment.get("function") or {}
        name = function.get("name") or ""
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)
        extras = {key: value for key, value in fragment.items() if key not in _KNOWN_KEYS and value is not None}
        call = self._call_of(fragment.get("index"), fragment.get("id") or "", name)

        if text:
            call.pieces.append(text)

        call.extras.update(extras)

        if call.block is None:
            return self._begin(call, name) if name else []

        events: list[StreamEvent] = [ToolArgumentsDelta(call.block, text)] if text else []

        return [*events, ContentExtended(call.block, {CALL_EXTRAS: call.extras})] if extras else events

    def go_on(self, fragment: dict[str, Any]) -> StreamEvent | None:
        """The event of a fragment that brings more arguments of a known call and nothing else; `None` for any other."""
        call = self._latest.get(fragment.get("index"))
        function = fragment.get("function")

        if call is None or call.block is None or not function or len(fragment) != 2 or len(function) != 1:
            return None

        text = function.get("arguments")

        if not text or not isinstance(text, str):
            return None

        call.pieces.append(text)

        return ToolArgumentsDelta(call.block, text)

    def close(self) -> list[StreamEvent]:
        """Stop every open call, in the order of their labels."""
        events: list[StreamEvent] = [ContentStop(block) for block in self._open]
        self._open.clear()

        return events

    def as_message(self) -> list[dict[str, Any]]:
        """The calls as a whole message shows them."""
        return [
            {
                "id": call.request_id,
                "type": "function",
                "function": {"name": call.name, "arguments": "".join(call.pieces)},
                **call.extras,
            }
            for call in self._calls
            if call.name
        ]

    def _begin(self, call: _Call, name: str) -> list[StreamEvent]:
        call.name = name
        call.request_id = call.vendor_id or f"call_{clock().new_id().replace('-', '')}"
        call.block = self._new_block()
        self._open.append(call.block)
        events: list[StreamEvent] = [ToolCallStart(call.block, call.request_id, name)]

        if call.pieces:
            events.append(ToolArgumentsDelta(call.block, "".join(call.pieces)))

        if call.extras:
            events.append(ContentExtended(call.block, {CALL_EXTRAS: call.extras}))

        return events

    def _call_of(self, index: Any, call_id: str, name: str) -> _Call:
        """The call a fragment belongs to, opened if need be."""
        call: _Call | None

        if index is not None:
            call = self._latest.get(index)
            is_new = bool(call_id) and (index, call_id) not in self._seen
            names_latest = call is not None and not name and not call.vendor_id

            if call is None or (is_new and not names_latest):
                call = self._opened()

            self._latest[index] = call
            self._seen.add((index, call_id))
        elif call_id:
            call = self._by_id.get(call_id) or self._opened()
        else:
            call = self._calls[-1] if self._calls else None

            if call is None or (name and _is_whole(call, name)):
                call = self._opened()

        if call_id:
            self._by_id[call_id] = call
            call.vendor_id = call.vendor_id or call_id

        return call

    def _opened(self) -> _Call:
        call = _Call()
        self._calls.append(call)

        return call


def _is_whole(call: _Call, name: str) -> bool:
    """Whether a fragment with neither id nor index, but with a name, begins another call than the latest."""
    if not call.name:
        return False

    if call.name != name:
        return True

    try:
        json.loads("".join(call.pieces))
    except ValueError:
        return False

    return True
