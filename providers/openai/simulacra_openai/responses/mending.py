"""Putting requests right: what the repairable rules demand. A request that keeps them comes back as it is."""

from __future__ import annotations

import hashlib
from typing import Any

from simulacra.cleaning import clean_json
from simulacra.messages import MediaContent
from simulacra.rules import Wire
from simulacra.rules.reading import JsonMap, is_blank, is_writable, map_of, objects_in, text_of
from simulacra.wire import placeholder_text
from simulacra_openai.call_rules import FUNCTION_NAME, is_object_text
from simulacra_openai.exchanges import NO_RESULT
from simulacra_openai.responses.marks import FOREIGN
from simulacra_openai.responses.reading import MEDIA, PREFIXES, item_id_fits, kind_of, media_fault, part_types

MAX_ID = 64
"""Longest id that the Responses API accepts (OA-R5)."""
MIN_LIMIT = 16


def mend_input(wire: Wire) -> Wire:
    """The request with its input put right; the same object when there was nothing to do."""
    items = wire.get("input")

    if not isinstance(items, list):
        return wire

    is_stored = wire.get("store") is not False
    kept = [put for item in items if (put := _mended(item)) is not None]
    mended = _with_unique_ids(_with_reasoning_in_place(_paired(kept), is_stored=is_stored))

    if len(mended) == len(items) and all(new is old for new, old in zip(mended, items, strict=True)):
        return wire

    return wire if mended == items else {**wire, "input": mended}


def mend_fields(wire: Wire) -> Wire:
    """The request with its other fields put right; the same object when there was nothing to do."""
    dropped = {key for key in ("tools",) if wire.get(key, ...) in ([], None)}

    if not wire.get("tools"):
        dropped |= {"tool_choice", "parallel_tool_calls"}

    if "instructions" in wire and is_blank(wire["instructions"]):
        dropped.add("instructions")

    if not dropped.isdisjoint(wire):
        wire = {key: value for key, value in wire.items() if key not in dropped}

    limit = wire.get("max_output_tokens")

    if isinstance(limit, int) and not isinstance(limit, bool) and 0 < limit < MIN_LIMIT:
        wire = {**wire, "max_output_tokens": MIN_LIMIT}

    return wire


def wire_id(call_id: str, occurrence: int = 0) -> str:
    """The id to send: the same one where it fits, else one made of it, always the same (OA-R5).

    Args:
        call_id: The id of the call.
        occurrence: How many earlier calls have this id.
    """
    if occurrence == 0 and 0 < len(call_id) <= MAX_ID:
        return call_id

    digest = hashlib.sha256(f"{occurrence}:{call_id}".encode("utf-8", "surrogatepass")).hexdigest()

    return f"call_{digest[:32]}"


def _mended(given: Any) -> JsonMap | None:
    """An item put right on its own; `None` for one that says nothing."""
    if not isinstance(given, dict):
        return None

    item: JsonMap = given

    if not is_writable(item):
        item = clean_json(item)

    match kind_of(item):
        case "message":
            return _message(item)
        case "function_call":
            return _call(item)
        case "function_call_output":
            return _output(item)
        case "reasoning":
            return item if item_id_fits(item) else None
        case "" | "foreign":
            return None
        case _:
            return item


def _message(item: JsonMap) -> JsonMap | None:
    role, content = item.get("role"), item.get("content")

    if not item_id_fits(item):
        item = {key: value for key, value in item.items() if key != "id"}

    if not isinstance(content, list):
        return None if is_blank(content) else item

    parts = [mended for part in content if (mended := _part(part, role)) is not None]

    if not parts:
        return None

    if len(parts) == len(content) and all(new is old for new, old in zip(parts, content, strict=True)):
        return item

    return {**item, "content": parts}


def _part(part: Any, role: Any) -> JsonMap | None:
    kind = map_of(part).get("type")

    if not isinstance(kind, str):
        return None

    given: JsonMap = part
    allowed = part_types(role)

    if kind == FOREIGN:
        shown = role != "assistant" and not is_blank(given.get("text"))
        return {"type": "input_text", "text": given["text"]} if shown else None

    if kind in ("input_text", "output_text") and kind not in allowed:
        kind = "output_text" if role == "assistant" else "input_text"
        given = {"type": kind, "text": given.get("text")}

    if kind not in allowed:
        return None

    if kind in ("input_text", "output_text"):
        return None if is_blank(given.get("text")) else given

    return _placeholder(given, fault) if (fault := media_fault(given)) else given


def _placeholder(part: JsonMap, reason: str) -> JsonMap:
    named = MediaContent(
        kind=MEDIA[part["type"]], media_type="of unknown type", data=b"", name=text_of(part.get("filename")) or None
    )

    return {"type": "input_text", "text": placeholder_text(named, reason)}


def _call(item: JsonMap) -> JsonMap | None:
    if not isinstance(item.get("call_id"), str):
        return None

    if not item_id_fits(item):
        item = {key: value for key, value in item.items() if key != "id"}

    if not FUNCTION_NAME.fullmatch(text_of(item.get("name"))):
        letters = [letter if FUNCTION_NAME.fullmatch(letter) else "_" for letter in text_of(item.get("name"))]
        item = {**item, "name": "".join(letters)[:64] or "_"}

    if not isinstance(item.get("arguments"), str) or not is_object_text(item["arguments"]):
        item = {**item, "arguments": "{}"}

    return item


def _output(item: JsonMap) -> JsonMap | None:
    output = item.get("output")

    if not isinstance(item.get("call_id"), str):
        return None

    if isinstance(output, str):
        return item

    if not isinstance(output, list):
        return {**item, "output": ""}

    parts = [mended for part in output if (mended := _part(part, "user")) is not None]

    return item if parts == output else {**item, "output": parts or ""}


def _paired(items: list[JsonMap]) -> list[JsonMap]:
    """Items with an output for each call, and a call for each output, under ids that fit and differ (TL-R4).

    An output belongs to the nearest call before it that has its id and no output yet. The outputs of calls that were made
    together stand together, in the order of the calls, where the first of them stood, and before any other message.
    """
    waiting: dict[str, list[int]] = {}
    answers: dict[int, int] = {}

    for at, item in enumerate(items):
        if item.get("type") == "function_call":
            waiting.setdefault(item["call_id"], []).append(at)
        elif item.get("type") == "function_call_output" and waiting.get(item["call_id"]):
            answers[waiting[item["call_id"]].pop()] = at

    if not waiting and not any(item.get("type") == "function_call_output" for item in items):
        return items

    return _in_order(items, answers)


def _in_order(items: list[JsonMap], answers: dict[int, int]) -> list[JsonMap]:
    sent: list[JsonMap] = []
    owed: list[JsonMap] = []
    seen: dict[str, int] = {}

    for at, item in enumerate(items):
        kind = item.get("type")

        if kind == "function_call_output" or kind_of(item) == "message":
            sent += owed
            owed = []

        if kind == "function_call_output":
            continue

        if kind == "function_call":
            call_id = item["call_id"]
            called = wire_id(call_id, seen.get(call_id, 0))
            seen[call_id] = seen.get(call_id, 0) + 1
            answer = items[answers[at]] if at in answers else None
            sent.append(item if call_id == called else {**item, "call_id": called})
            owed.append(_answer(answer, called))
        else:
            sent.append(item)

    return [*sent, *owed]


def _answer(answer: JsonMap | None, call_id: str) -> JsonMap:
    if answer is None:
        return {"type": "function_call_output", "call_id": call_id, "output": NO_RESULT}

    return answer if answer["call_id"] == call_id else {**answer, "call_id": call_id}


def _with_reasoning_in_place(items: list[JsonMap], *, is_stored: bool) -> list[JsonMap]:
    """Reasoning directly before the item it led to, or not at all; an item that lost its own has no id (OA-10)."""
    sent: list[JsonMap] = []
    is_lost = False

    for at, item in enumerate(items):
        following = items[at + 1] if at + 1 < len(items) else {}

        if item.get("type") == "reasoning":
            is_kept = leads(item, following) and (is_stored or bool(item.get("encrypted_content")))
            is_lost = not is_kept

            if is_kept:
                sent.append(item)

            continue

        loses = is_lost and "id" in item and item.get("type") in PREFIXES
        sent.append({key: value for key, value in item.items() if key != "id"} if loses else item)
        is_lost = False

    return sent


def leads(reasoning: JsonMap, following: JsonMap) -> bool:
    """Whether an item is what a piece of reasoning has led to: one that the model made, not the user."""
    del reasoning

    if kind_of(following) == "message":
        return following.get("role") == "assistant"

    return bool(following) and following.get("type") not in ("function_call_output", FOREIGN, None)


def _with_unique_ids(items: list[JsonMap]) -> list[JsonMap]:
    """Items of which no two have the same id: the second loses it, or goes where it is nothing without it."""
    seen: set[str] = set()
    sent: list[JsonMap] = []

    for item in items:
        name = item.get("id")

        if not isinstance(name, str):
            sent.append(item)
        elif name not in seen:
            seen.add(name)
            sent.append(item)
        elif item.get("type") in ("message", "function_call"):
            sent.append({key: value for key, value in item.items() if key != "id"})

    return sent


def places_of(wire: Wire, kind: str) -> list[tuple[int, JsonMap]]:
    """The items of a kind, each with its place."""
    return [(at, item) for at, item in objects_in(wire.get("input")) if item.get("type") == kind]
