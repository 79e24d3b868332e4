"""Writing requests whose list of messages grows: what was written for the last one is used again."""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_
from typing import Any

from simulacra.wire.strict_json import strict_json

KEPT_BYTES = 4 * 1024 * 1024
"""So much is kept of a request; one with media may be far larger, and writing text again costs little."""


class GrowingJson:
    """Writes bodies of requests as JSON, as `strict_json` does, the growing list last.

    Messages are told apart as objects, since `1` equals `True`: nobody may change one that was written.

    Args:
        field: The list that grows, in the body.
    """

    def __init__(self, field: str) -> None:
        self._field = field
        self._kept: tuple[list[Any], bytes] = ([], b"")
        self._last: list[Any] = []

    def __call__(self, body: Mapping[str, Any]) -> bytes:
        """A body as compact JSON in UTF-8; raises as `strict_json`."""
        items = body.get(self._field)

        if type(items) is not list:
            return strict_json(body)

        known, written = self._kept if _begin_alike(items, self._kept[0]) else ([], b"")
        rest = items[len(known) :]
        again = _count_alike(rest, self._last[len(known) :])
        parts = [written, _items(rest[:again])]
        new = _items(rest[again:])
        self._last = items[:]

        if again and sum(map(len, parts)) <= KEPT_BYTES:
            self._kept = items[: len(known) + again], _joined(parts)

        head = strict_json({**{key: value for key, value in body.items() if key != self._field}, self._field: []})

        return b"".join((head[:-2], _joined([*parts, new]), b"]}"))


def _begin_alike(items: list[Any], known: list[Any]) -> bool:
    return len(items) >= len(known) and all(map(is_, items, known))


def _count_alike(items: list[Any], others: list[Any]) -> int:
    """How many of them are the same objects, from the first on."""
    if _begin_alike(items, others):
        return len(others)

    return next((place for place, same in enumerate(map(is_, items, others)) if not same), len(items))


def _items(values: list[Any]) -> bytes:
    return strict_json(values)[1:-1]


def _joined(parts: list[bytes]) -> bytes:
    return b",".join(part for part in parts if part)
