"""JSON that every parser takes, written quickly."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import to_json

_STRICT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def strict_json(value: Any) -> bytes:
    """A value as compact JSON in UTF-8.

    Args:
        value: JSON values.

    Raises:
        ValueError: A number that JSON does not know, such as NaN, or a text that UTF-8 cannot hold.
        TypeError: A value that JSON does not know, beside such a number.
    """
    written = to_json(value)

    if b"NaN" in written or b"Infinity" in written:  # such a number, or a text that speaks of one
        return _STRICT.encode(value).encode()

    return written
