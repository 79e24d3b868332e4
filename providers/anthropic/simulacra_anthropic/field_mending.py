"""Putting the fields beside the messages right; a request that keeps the rules comes back as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulacra.rules import Path, Wire
from simulacra.rules.reading import JsonMap, is_blank, map_of, text_of
from simulacra_anthropic.field_rules import MAX_MARKS, lacks_thinking, marks_in
from simulacra_anthropic.many_images import with_small_images
from simulacra_anthropic.message_rules import PlacedBlock, blocks_in
from simulacra_anthropic.repairs import THINKING


def mend_fields(wire: Wire) -> Wire:
    """The request with everything but its messages' words put right; the same object when there was nothing to do."""
    wire = _with_system(wire)
    blocks = list(blocks_in(wire))

    if (fewer := with_small_images(wire, blocks)) is not wire:
        wire, blocks = fewer, list(blocks_in(fewer))

    if not wire.get("tools"):
        wire = _with_called_tools(wire, blocks)

    if lacks_thinking(wire) is not None:
        wire = {key: value for key, value in wire.items() if key != "thinking"}

    return with_few_marks(wire, list(marks_in(wire, blocks)))


def _with_system(wire: Wire) -> Wire:
    if "system" not in wire:
        return wire

    system = wire["system"]
    kept = (
        [block for block in system if not is_blank(map_of(block).get("text"))] if isinstance(system, list) else system
    )

    if not kept or (isinstance(kept, str) and is_blank(kept)):
        return {key: value for key, value in wire.items() if key != "system"}

    return wire if kept == system else {**wire, "system": kept}


def _with_called_tools(wire: Wire, blocks: Sequence[PlacedBlock]) -> Wire:
    """Calls of history never go out without tools; without calls there is nothing to choose (ANT-3)."""
    names: dict[str, None] = {}

    for _, _, _, block in blocks:
        if block.get("type") == "tool_use" and text_of(block.get("name")):
            names[block["name"]] = None

    if names:
        tools = [{"name": name, "input_schema": {"type": "object"}} for name in names]
        return {**wire, "tools": tools, "tool_choice": {"type": "none"}}

    dropped = {key for key in ("tools", "tool_choice") if key in wire}

    return {key: value for key, value in wire.items() if key not in dropped} if dropped else wire


def with_few_marks(wire: Wire, marks: Sequence[tuple[Path, Any]]) -> Wire:
    """Marks where they may stand, and no more than there may be: those of the first messages go (W-ANT-5).

    Args:
        wire: The request.
        marks: What `marks_in` finds in it.
    """
    paths = [path for path, _ in marks]
    surplus = len(paths) - MAX_MARKS
    placed = [path for path in paths if path[0] == "messages"]
    leaving = set(placed[: max(0, surplus)])
    leaving |= {path for path in placed if _at(wire, path).get("type") in THINKING}

    if not leaving:
        return wire

    turns = list(wire["messages"])

    for _, at, _, place, _ in leaving:
        blocks = list(turns[at]["content"])  # type: ignore[index] # paths of marks are made of places
        blocks[place] = {key: value for key, value in blocks[place].items() if key != "cache_control"}  # type: ignore[index] # as above
        turns[at] = {**turns[at], "content": blocks}  # type: ignore[index] # as above

    return {**wire, "messages": turns}


def _at(wire: Wire, path: Any) -> JsonMap:
    _, at, _, place, _ = path

    return map_of(wire["messages"][at]["content"][place])
