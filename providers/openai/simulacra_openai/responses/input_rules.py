"""Rules about the items of a request's input.

Source: OpenAI's API reference (responses/create), its guides to reasoning and function calling, and refusals of its API
that users have reported (OA-10, OA-R5).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simulacra.rules import Found, Path, Rule, Wire
from simulacra.rules.reading import JsonMap, is_blank, is_unicode, map_of, objects_in, text_of, texts_in
from simulacra_openai.call_rules import FUNCTION_NAME, is_object_text
from simulacra_openai.responses.marks import FOREIGN
from simulacra_openai.responses.mending import MAX_ID, leads, mend_input, places_of
from simulacra_openai.responses.reading import item_id_fits, kind_of, media_fault, part_types

_ROLES = ("user", "assistant", "system", "developer")


def input_rules() -> tuple[Rule, ...]:
    """The rules, in the order in which they are looked at."""
    return (*_shapes(), *_parts(), *_calls(), *_call_shapes(), *_reasoning())


def _rule(name: str, demand: str, fix: str, find: Any, code: str | None = None) -> Rule:
    return Rule(name=name, demand=demand, fix=fix, find=find, repair=mend_input, code=code)


def _shapes() -> tuple[Rule, ...]:
    return (
        Rule(
            name="input-given",
            demand="input is a text, or an array with at least one item",
            fix="Say something",
            find=lambda wire: [] if wire.get("input") else [Found(("input",))],
            code="missing_required_parameter",
        ),
        Rule(
            name="roles-known",
            demand=f"a message's role is {', '.join(_ROLES)}",
            fix="Give it the role it has",
            find=_strange_roles,
            code="invalid_value",
        ),
        _rule(
            "items-are-objects",
            "every item is an object with a type, or a message with a role",
            "It is left out",
            _no_items,
            "invalid_type",
        ),
        _rule(
            "items-of-this-api",
            "an item has a type that this API knows",
            "Items of other vendors are left out",
            _foreign,
            "invalid_value",
        ),
        _rule("text-is-unicode", "every text can be written as UTF-8", "U+FFFD stands for a lone surrogate", _broken),
    )


def _parts() -> tuple[Rule, ...]:
    return (
        _rule("content-given", "a message has content that says something", "It is left out", _contentless),
        _rule("texts-not-blank", "a text part says something", "It is left out", _blank),
        _rule(
            "parts-stand-with-their-role",
            "input parts are the user's, output_text and refusal the assistant's",
            "Texts get the type of their role, other parts are left out; media become a text that names them",
            _misplaced,
            "invalid_value",
        ),
        _rule(
            "media-fit",
            "an image has an address, image data or a file_id; a file a name and data, an address or a file_id",
            "A text that names it takes its place",
            _unfit,
            "invalid_value",
        ),
    )


def _calls() -> tuple[Rule, ...]:
    return (
        _rule(
            "outputs-follow-calls",
            "a function_call_output answers a function_call that stands before it",
            "It is left out",
            _orphans,
        ),
        _rule(
            "calls-are-answered",
            "a function_call has a function_call_output",
            "A call without one gets one that says so",
            _unanswered,
        ),
        _rule("calls-are-answered-once", "no two outputs answer one call", "The second one is left out", _twice),
        _rule(
            "outputs-before-messages",
            "outputs stand behind their calls, before the next message",
            "They move there",
            _late,
        ),
        _rule(
            "outputs-are-text-or-parts",
            "an output is a text, or an array of input parts",
            "What is neither is left out",
            _strange_outputs,
            "invalid_type",
        ),
    )


def _call_shapes() -> tuple[Rule, ...]:
    return (
        _rule(
            "call-ids-fit",
            f"a call_id has 1 to {MAX_ID} characters",
            "Another one is made of it, the same for call and output and in each request",
            _misfit_call_ids,
            "string_above_max_length",
        ),
        _rule(
            "call-ids-differ",
            "the call_ids of all calls differ",
            "The later ones get an id made of it and their place",
            _equal_call_ids,
        ),
        _rule(
            "call-names-fit",
            "the name of a called function matches [a-zA-Z0-9_-] and has 1 to 64 characters",
            "An underscore stands for every other character, and the rest is cut off",
            _strange_names,
            "invalid_value",
        ),
        _rule(
            "arguments-are-an-object",
            "the arguments of a call are the JSON text of an object",
            "They are replaced by {}",
            _strange_arguments,
            "invalid_type",
        ),
    )


def _reasoning() -> tuple[Rule, ...]:
    return (
        _rule(
            "item-ids-fit",
            "ids begin with msg for messages, fc for calls and rs for reasoning, and have at most 64 characters",
            "A message or call goes without it, reasoning is left out",
            _misfit_item_ids,
            "invalid_value",
        ),
        _rule("item-ids-differ", "the ids of all items differ", "The later one goes without it", _equal_item_ids),
        _rule(
            "reasoning-leads-an-item",
            "a reasoning item stands directly before the item that it led to",
            "It is left out, and the item's id with it",
            _lone_reasoning,
        ),
        _rule(
            "unstored-reasoning-is-encrypted",
            "with store false a reasoning item carries its encrypted_content",
            "It is left out, and the id of the item behind it",
            _plain_reasoning,
        ),
    )


def _items(wire: Wire) -> Iterator[tuple[int, JsonMap]]:
    return objects_in(wire.get("input"))


def _messages(wire: Wire) -> Iterator[tuple[int, JsonMap]]:
    return ((at, item) for at, item in _items(wire) if kind_of(item) == "message")


def _parts_in(wire: Wire) -> Iterator[tuple[Path, Any, JsonMap]]:
    """Every part with its path and the role it stands with; parts of outputs stand with the user."""
    for at, item in _items(wire):
        key = "output" if item.get("type") == "function_call_output" else "content"
        role = "user" if key == "output" else item.get("role")

        if key == "output" or kind_of(item) == "message":
            yield from ((("input", at, key, place), role, part) for place, part in objects_in(item.get(key)))


def _strange_roles(wire: Wire) -> Iterator[Found]:
    for at, item in _messages(wire):
        if item.get("role") not in _ROLES:
            yield Found(("input", at, "role"), repr(item.get("role")))


def _no_items(wire: Wire) -> Iterator[Found]:
    items = wire.get("input")

    for at, item in enumerate(items if isinstance(items, list) else ()):
        if not kind_of(map_of(item)):
            yield Found(("input", at))


def _foreign(wire: Wire) -> Iterator[Found]:
    for at, item in _items(wire):
        if item.get("type") == FOREIGN:
            yield Found(("input", at, "type"), text_of(item.get("block")))


def _broken(wire: Wire) -> Iterator[Found]:
    for at, item in _items(wire):
        yield from (Found(path) for path, text in texts_in(item, "input", at) if not is_unicode(text))


def _contentless(wire: Wire) -> Iterator[Found]:
    for at, item in _messages(wire):
        content = item.get("content")

        if content == [] or (not isinstance(content, list) and is_blank(content)):
            yield Found(("input", at, "content"))


def _blank(wire: Wire) -> Iterator[Found]:
    for path, _, part in _parts_in(wire):
        if part.get("type") in ("input_text", "output_text") and is_blank(part.get("text")):
            yield Found((*path, "text"))


def _misplaced(wire: Wire) -> Iterator[Found]:
    for path, role, part in _parts_in(wire):
        if part.get("type") not in part_types(role):
            yield Found((*path, "type"), text_of(part.get("block")) or repr(part.get("type")))


def _unfit(wire: Wire) -> Iterator[Found]:
    for path, _, part in _parts_in(wire):
        if fault := media_fault(part):
            yield Found(path, fault)


def _called(wire: Wire) -> dict[Any, int]:
    return {text_of(item.get("call_id")): at for at, item in reversed(places_of(wire, "function_call"))}


def _orphans(wire: Wire) -> Iterator[Found]:
    called = _called(wire)

    for at, item in places_of(wire, "function_call_output"):
        if called.get(text_of(item.get("call_id")), at) >= at:
            yield Found(("input", at), f"call_id {item.get('call_id')!r}")


def _unanswered(wire: Wire) -> Iterator[Found]:
    answered = {text_of(item.get("call_id")) for _, item in places_of(wire, "function_call_output")}

    for at, item in places_of(wire, "function_call"):
        if text_of(item.get("call_id")) not in answered:
            yield Found(("input", at), f"call_id {item.get('call_id')!r}")


def _twice(wire: Wire) -> Iterator[Found]:
    left = [item.get("call_id") for _, item in places_of(wire, "function_call")]
    called = _called(wire)

    for at, item in places_of(wire, "function_call_output"):
        if item.get("call_id") in left:
            left.remove(item.get("call_id"))
        elif text_of(item.get("call_id")) in called:
            yield Found(("input", at, "call_id"), repr(item.get("call_id")))


def _late(wire: Wire) -> Iterator[Found]:
    waiting: set[str] = set()
    late: set[str] = set()

    for at, item in _items(wire):
        name = text_of(item.get("call_id"))

        if item.get("type") == "function_call":
            waiting.add(name)
        elif kind_of(item) == "message":
            late |= waiting
            waiting = set()
        elif item.get("type") == "function_call_output":
            waiting.discard(name)

            if name in late:
                yield Found(("input", at))


def _strange_outputs(wire: Wire) -> Iterator[Found]:
    for at, item in places_of(wire, "function_call_output"):
        if not isinstance(item.get("output"), str | list) or item.get("output") == []:
            yield Found(("input", at, "output"))


def _misfit_call_ids(wire: Wire) -> Iterator[Found]:
    for kind in ("function_call", "function_call_output"):
        for at, item in places_of(wire, kind):
            if not 0 < len(text_of(item.get("call_id"))) <= MAX_ID:
                yield Found(("input", at, "call_id"), repr(item.get("call_id"))[:80])


def _equal_call_ids(wire: Wire) -> Iterator[Found]:
    seen: set[str] = set()

    for at, item in places_of(wire, "function_call"):
        if text_of(item.get("call_id")) in seen:
            yield Found(("input", at, "call_id"), repr(item.get("call_id")))

        seen.add(text_of(item.get("call_id")))


def _strange_names(wire: Wire) -> Iterator[Found]:
    for at, item in places_of(wire, "function_call"):
        if not FUNCTION_NAME.fullmatch(text_of(item.get("name"))):
            yield Found(("input", at, "name"), repr(item.get("name")))


def _strange_arguments(wire: Wire) -> Iterator[Found]:
    for at, item in places_of(wire, "function_call"):
        if not isinstance(item.get("arguments"), str) or not is_object_text(item["arguments"]):
            yield Found(("input", at, "arguments"))


def _misfit_item_ids(wire: Wire) -> Iterator[Found]:
    for at, item in _items(wire):
        if item.get("type") in ("message", "function_call", "reasoning") and not item_id_fits(item):
            yield Found(("input", at, "id"), repr(item.get("id")))


def _equal_item_ids(wire: Wire) -> Iterator[Found]:
    seen: set[str] = set()

    for at, item in _items(wire):
        name = text_of(item.get("id"))

        if name and name in seen:
            yield Found(("input", at, "id"), repr(name))

        seen.add(name)


def _lone_reasoning(wire: Wire) -> Iterator[Found]:
    items = wire.get("input")
    listed = items if isinstance(items, list) else []

    for at, item in places_of(wire, "reasoning"):
        if not leads(item, map_of(listed[at + 1]) if at + 1 < len(listed) else {}):
            yield Found(("input", at))


def _plain_reasoning(wire: Wire) -> Iterator[Found]:
    if wire.get("store") is False:
        for at, item in places_of(wire, "reasoning"):
            if not item.get("encrypted_content"):
                yield Found(("input", at, "encrypted_content"))
