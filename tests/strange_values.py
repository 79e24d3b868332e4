"""Values that are hard to write as JSON."""

from __future__ import annotations

from typing import Any


def circle():
    inner: dict[str, Any] = {}
    inner["again"] = [inner]
    return {"top": inner}


def tower(levels):
    value: Any = 0

    for _ in range(levels):
        value = [value]

    return value
