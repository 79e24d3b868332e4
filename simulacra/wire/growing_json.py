"""Writing requests whose list of messages grows: what was written for the last one is used again."""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_
from typing import Any

from simulacra.wire.strict_json import strict_json

UNSETTLED = 4
"""Of the newest messages some change from one request to the next: marks of the prompt cache move with them."""
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

    def __call__(self, body: Mapping[str, Any]) -> bytes:
        """A body as compact JSON in UTF-8; raises as `strict_json`."""
        items = body.get(self._field)

        if type(items) is not list:
            return strict_json(body)

        known, written = self._kept

        if len(items) < len(known) or not all(map(is_, items, known)):
            known, written = [], b""

        settled = max(len(known), len(items) - UNSETTLED)
        written = _joined(written, _items(items[len(known) : settled]))

        if settled > len(known) and len(written) <= KEPT_BYTES:
            self._kept = items[:settled], written

        head = strict_json({**{key: value for key, value in body.items() if key != self._field}, self._field: []})

        return b"".join((head[:-2], _joined(written, _items(items[settled:])), b"]}"))


def _items(values: list[Any]) -> bytes:
    return strict_json(values)[1:-1]


def _joined(before: bytes, after: bytes) -> bytes:
    return b",".join((before, after)) if before and after else before or after
