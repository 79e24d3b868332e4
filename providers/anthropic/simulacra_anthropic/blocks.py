"""Content blocks while they stream: their events, and the block as the API would show it whole.

The whole block is needed twice: a paused reply goes back unchanged, and listeners are shown the whole answer.
"""

from __future__ import annotations

import json
from typing import Any

from simulacra.streaming import (
    ContentExtended,
    ContentStop,
    RawBlock,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ThinkingStart,
    ToolArgumentsDelta,
    ToolCallStart,
)

BLOCK_FIELDS = "anthropic"
"""Under this key of `extended` a block keeps the API's fields that the engine has no word for; they go back with it."""


class Block:
    """A block that the engine has no word for; subclasses know better.

    Args:
        label: Index of the block in the message.
        start: The block as it opened.
    """

    known: frozenset[str] = frozenset({"type"})
    """Fields that the engine keeps elsewhere."""

    def __init__(self, label: int, start: dict[str, Any]) -> None:
        self.label = label
        self.start = start
        self.pieces: list[str] = []

    def open(self) -> list[StreamEvent]:
        """The events of the block's start."""
        return []

    def add(self, delta: dict[str, Any]) -> list[StreamEvent]:
        """The events of a delta."""
        if delta.get("type") == "input_json_delta":
            self.pieces.append(delta["partial_json"])
        else:
            self.start = _merged(self.start, delta)

        return []

    def close(self) -> list[StreamEvent]:
        """The events of the block's end."""
        return [RawBlock(self.label, json.dumps(self.whole(), ensure_ascii=False))]

    def whole(self) -> dict[str, Any]:
        """The block as far as it has come."""
        return {**self.start, "input": _read_input(self.pieces)} if any(self.pieces) else self.start

    def _extras(self) -> list[StreamEvent]:
        fields = {key: value for key, value in self.start.items() if key not in self.known and value is not None}

        return [ContentExtended(self.label, {BLOCK_FIELDS: fields})] if fields else []


class TextBlock(Block):
    """Text, with the citations it rests on."""

    known = frozenset({"type", "text", "citations"})

    def __init__(self, label: int, start: dict[str, Any]) -> None:
        super().__init__(label, start)
        self._citations = list(start.get("citations") or ())

    def open(self) -> list[StreamEvent]:
        return self.add({"type": "text_delta", "text": self.start.get("text") or ""})

    def add(self, delta: dict[str, Any]) -> list[StreamEvent]:
        if delta.get("type") == "citations_delta":
            self._citations.append(delta["citation"])
            return []

        text = delta.get("text")

        if not text:
            return []

        self.pieces.append(text)

        return [TextDelta(self.label, text)]

    def close(self) -> list[StreamEvent]:
        cited = [ContentExtended(self.label, {"citations": self._citations})] if self._citations else []

        return [*cited, *self._extras(), ContentStop(self.label)]

    def whole(self) -> dict[str, Any]:
        cited = {"citations": self._citations} if self._citations else {}

        return {**self.start, "text": "".join(self.pieces), **cited}


class ThinkingBlock(Block):
    """Reasoning and the signature without which it cannot go back."""

    known = frozenset({"type", "thinking", "signature"})

    def __init__(self, label: int, start: dict[str, Any]) -> None:
        super().__init__(label, start)
        self._signature = start.get("signature") or ""

    def open(self) -> list[StreamEvent]:
        return [
            ThinkingStart(self.label),
            *self.add({"type": "thinking_delta", "thinking": self.start.get("thinking") or ""}),
        ]

    def add(self, delta: dict[str, Any]) -> list[StreamEvent]:
        if delta.get("type") == "signature_delta":
            self._signature += delta["signature"]
            return []

        text = delta.get("thinking")

        if not text:
            return []

        self.pieces.append(text)

        return [ThinkingDelta(self.label, text)]

    def close(self) -> list[StreamEvent]:
        signed = [ContentExtended(self.label, {"signature": self._signature})] if self._signature else []

        return [*signed, *self._extras(), ContentStop(self.label)]

    def whole(self) -> dict[str, Any]:
        return {**self.start, "thinking": "".join(self.pieces), "signature": self._signature}


class RedactedBlock(Block):
    """Reasoning that only the vendor can read; its data goes back byte for byte (W-ANT-1)."""

    known = frozenset({"type", "data"})

    def open(self) -> list[StreamEvent]:
        return [ThinkingStart(self.label, redacted=True)]

    def close(self) -> list[StreamEvent]:
        data = ContentExtended(self.label, {"data": self.start["data"]})

        return [data, *self._extras(), ContentStop(self.label)]


class ToolBlock(Block):
    """A call of one of the engine's tools."""

    known = frozenset({"type", "id", "name", "input"})

    def open(self) -> list[StreamEvent]:
        return [ToolCallStart(self.label, self.start["id"], self.start["name"])]

    def add(self, delta: dict[str, Any]) -> list[StreamEvent]:
        text = delta.get("partial_json")

        if not text:
            return []

        self.pieces.append(text)

        return [ToolArgumentsDelta(self.label, text)]

    def close(self) -> list[StreamEvent]:
        given = self.start.get("input")
        whole = [ToolArgumentsDelta(self.label, json.dumps(given))] if given and not self.pieces else []

        return [*whole, *self._extras(), ContentStop(self.label)]


_KINDS: dict[str, type[Block]] = {
    "text": TextBlock,
    "thinking": ThinkingBlock,
    "redacted_thinking": RedactedBlock,
    "tool_use": ToolBlock,
}


def open_block(label: int, start: dict[str, Any]) -> Block:
    """The block that opens.

    Args:
        label: Index of the block in the message.
        start: The block as it opened.
    """
    return _KINDS.get(start["type"], Block)(label, start)


def _read_input(pieces: list[str]) -> Any:
    """The input of a call; the text itself where it was cut off and is no JSON."""
    text = "".join(pieces)

    try:
        return json.loads(text)
    except ValueError:
        return text


def _merged(block: dict[str, Any], delta: dict[str, Any]) -> dict[str, Any]:
    """A block with a delta of a kind that the engine has no word for: texts and lists grow, anything else is set."""
    merged = dict(block)

    for key, value in delta.items():
        before = merged.get(key)

        if key == "type":
            continue

        if (isinstance(before, str) and isinstance(value, str)) or (
            isinstance(before, list) and isinstance(value, list)
        ):
            merged[key] = before + value  # type: ignore[operator] # both are of one kind
        else:
            merged[key] = value

    return merged
