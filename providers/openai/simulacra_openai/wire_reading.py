"""Reading a chat completion's parameters, which may be any JSON: what is not as it should be is passed over."""

from __future__ import annotations

from collections.abc import Iterator

from simulacra.rules import Wire
from simulacra.rules.reading import JsonMap, map_of, objects_in


def messages_of(wire: Wire) -> Iterator[tuple[int, JsonMap]]:
    return objects_in(wire.get("messages"))


def places_of(wire: Wire) -> Iterator[tuple[int, JsonMap]]:
    """Every message with its place; an empty object stands for what is none."""
    messages = wire.get("messages")

    return ((at, map_of(message)) for at, message in enumerate(messages)) if isinstance(messages, list) else iter(())


def calls_of(message: JsonMap) -> Iterator[tuple[int, JsonMap]]:
    return objects_in(message.get("tool_calls"))


def parts_in(wire: Wire) -> Iterator[tuple[int, JsonMap, int, JsonMap]]:
    """Every part of every message: the message's place, the message, the part's place, the part."""
    for at, message in messages_of(wire):
        for place, part in objects_in(message.get("content")):
            yield at, message, place, part


def calls_in(wire: Wire) -> Iterator[tuple[int, int, JsonMap]]:
    """Every tool call: its message's place, its own, the call."""
    for at, message in messages_of(wire):
        for place, call in calls_of(message):
            yield at, place, call
