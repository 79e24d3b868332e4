"""What is too large keeps its head and its tail; between them stands how much there was (CP-R6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

MIN_BYTES = 256  # less would not hold the marker
_SMALLEST_PIECE = 128
_MARKER_BYTES = 64


def json_size(value: Any) -> int:
    """Bytes of a JSON value as compact UTF-8 JSON."""
    return len(to_json(value))


def shares(sizes: Sequence[int], budget: int) -> list[int]:
    """Divide a budget: what is small gets what it needs, the rest is divided evenly among what is large.

    Args:
        sizes: Bytes wanted, each.
        budget: Bytes there are.
    """
    given = [0] * len(sizes)
    left = budget

    for done, index in enumerate(sorted(range(len(sizes)), key=lambda position: sizes[position])):
        given[index] = min(sizes[index], left // (len(sizes) - done))
        left -= given[index]

    return given


def shorten_text(text: str, budget: int) -> str:
    """The text, or its head and tail, so that it takes at most `budget` bytes as JSON.

    Args:
        text: The text.
        budget: Bytes, quotes included; at least the marker's.
    """
    if json_size(text) <= budget:
        return text

    data = text.encode()
    keep = budget - _MARKER_BYTES

    while keep > 0:
        half = keep // 2
        head, tail = data[:half].decode(errors="ignore"), data[len(data) - half :].decode(errors="ignore")
        left_out = len(data) - len(head.encode()) - len(tail.encode())
        short = f"{head}\n[... {left_out} of {len(data)} bytes left out ...]\n{tail}"
        size = json_size(short)

        if size <= budget:
            return short

        keep = min(keep - 1, keep * budget // size)  # what JSON escapes takes up to six times its bytes

    return f"[... {len(data)} bytes left out ...]"


def shorten_result(result: Mapping[str, Any], budget: int) -> dict[str, Any]:
    """A tool result in at most `budget` bytes of JSON; small members stay as they are.

    Args:
        result: The result, `result` and, for a failure, `message` included.
        budget: Bytes; at least `MIN_BYTES`.
    """
    if json_size(result) <= budget:
        return dict(result)

    members = {name: value for name, value in result.items() if name != "result"}
    frames = [json_size({name: ""}) - 2 for name in members]
    sizes = [frame + json_size(value) for frame, value in zip(frames, members.values(), strict=True)]
    portions = shares(sizes, budget - json_size({"result": result["result"]}))
    rooms = [portion - frame for portion, frame in zip(portions, frames, strict=True)]

    if any(
        portion < size and room < _SMALLEST_PIECE for portion, size, room in zip(portions, sizes, rooms, strict=True)
    ):
        return _as_one_text(result, budget)

    short = {name: _shorten_member(value, room) for (name, value), room in zip(members.items(), rooms, strict=True)}

    return {"result": result["result"], **short}


def _shorten_member(value: Any, budget: int) -> Any:
    if json_size(value) <= budget:
        return value

    return shorten_text(value if isinstance(value, str) else to_json(value).decode(), budget)


def _as_one_text(result: Mapping[str, Any], budget: int) -> dict[str, Any]:
    """Too many members to keep each: the whole is told as one text."""
    name = "output" if result["result"] else "message"
    frame = json_size({"result": result["result"], name: ""}) - 2

    return {"result": result["result"], name: shorten_text(to_json(result).decode(), budget - frame)}
