"""Rules about tool calls and the messages that answer them.

Source: OpenAI's guide to function calling and API reference; refusals of its API that users have reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import jiter

from simulacra.rules import Found, Path, Rule, Wire
from simulacra.rules.reading import JsonMap, map_of
from simulacra_openai.message_drafts import MAX_ID
from simulacra_openai.presets import Preset
from simulacra_openai.wire_reading import calls_in, calls_of, messages_of, places_of

FUNCTION_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
CALL_FIELDS = frozenset({"id", "type", "function", "custom"})


def call_rules(preset: Preset, mend: Callable[[Wire], Wire]) -> tuple[Rule, ...]:
    """The rules of a service.

    Args:
        preset: How it differs from OpenAI.
        mend: Puts messages right.
    """
    fields = Rule(
        name="call-fields-known",
        demand=f"a tool call has no other fields than {', '.join(sorted(CALL_FIELDS))}",
        fix="Fields of other services are left out",
        find=_strange_fields,
        repair=mend,
        code="unknown_parameter",
    )

    return (*_answers(mend), *_ids(mend), *_functions(mend), *((fields,) if preset.is_closed else ()))


@lru_cache(maxsize=1024)
def is_object_text(text: str) -> bool:
    """Whether a text is the JSON of an object. Remembered, since a history sends the same arguments again and again."""
    try:
        return isinstance(jiter.from_json(text.encode(), allow_inf_nan=False), dict)
    except ValueError:
        return False


def _answers(mend: Callable[[Wire], Wire]) -> tuple[Rule, ...]:
    return (
        Rule(
            name="tool-messages-follow-their-calls",
            demand="a message of role tool answers a call of the assistant message that it stands behind,"
            " with nothing but further answers in between",
            fix="It moves behind its call; an answer to no call is left out",
            find=_orphans,
            repair=mend,
        ),
        Rule(
            name="calls-are-answered",
            demand="an assistant message with tool calls is followed by a tool message for each of them",
            fix="A call without an answer gets one that says so",
            find=_unanswered,
            repair=mend,
        ),
        Rule(
            name="calls-are-answered-once",
            demand="no two tool messages behind one assistant message have the same tool_call_id",
            fix="The second one is left out",
            find=_answered_twice,
            repair=mend,
        ),
        Rule(  # OAI-4; the templates of some models match answers by place
            name="answers-in-the-order-of-calls",
            demand="tool messages come in the order of their calls",
            fix="They are sorted",
            find=_out_of_order,
            repair=mend,
        ),
    )


def _ids(mend: Callable[[Wire], Wire]) -> tuple[Rule, ...]:
    return (
        Rule(  # OA-R5
            name="call-ids-fit",
            demand=f"the id of a tool call is a text of 1 to {MAX_ID} characters",
            fix="Another one is made of it, the same for the call and its answer and in each request",
            find=_misfit_ids,
            repair=mend,
            code="string_above_max_length",
        ),
        Rule(  # TL-R4
            name="call-ids-differ",
            demand="the ids of an assistant message's tool calls differ",
            fix="The later ones get an id made of it and their place",
            find=_equal_ids,
            repair=mend,
        ),
    )


def _functions(mend: Callable[[Wire], Wire]) -> tuple[Rule, ...]:
    return (
        Rule(
            name="calls-not-empty",
            demand="tool_calls is an array of an assistant message, with at least one call, or absent",
            fix="It is left out",
            find=_no_calls,
            repair=mend,
            code="empty_array",
        ),
        Rule(
            name="calls-have-a-type",
            demand="a tool call is an object of type function with a function, or of type custom",
            fix="The type of a function's call is set; what is no call is left out",
            find=_shapeless,
            repair=mend,
            code="missing_required_parameter",
        ),
        Rule(
            name="call-names-fit",
            demand="the name of a called function matches [a-zA-Z0-9_-] and has 1 to 64 characters",
            fix="An underscore stands for every other character, and the rest is cut off",
            find=_strange_names,
            repair=mend,
            code="invalid_value",
        ),
        Rule(  # TL-09; servers that read the arguments fail on anything else
            name="arguments-are-an-object",
            demand="the arguments of a call are the JSON text of an object",
            fix="They are replaced by {}",
            find=_strange_arguments,
            repair=mend,
            code="invalid_type",
        ),
    )


class _Exchange(NamedTuple):
    """An assistant message's calls and the tool messages that stand directly behind it."""

    at: int
    ids: list[Any]
    answers: list[tuple[int, Any]]


def _exchanges(wire: Wire) -> Iterator[_Exchange]:
    """Every run of tool messages with what stands before it; `at` is -1 where that is no message with calls."""
    current = _Exchange(-1, [], [])

    for at, message in places_of(wire):
        if message.get("role") == "tool":
            current.answers.append((at, message.get("tool_call_id")))
            continue

        yield current
        ids = [call.get("id") for _, call in calls_of(message)] if message.get("role") == "assistant" else []
        current = _Exchange(at if ids else -1, ids, [])

    yield current


def _orphans(wire: Wire) -> Iterator[Found]:
    for exchange in _exchanges(wire):
        yield from (
            Found(("messages", at), f"tool_call_id {call_id!r}")
            for at, call_id in exchange.answers
            if call_id not in exchange.ids
        )


def _unanswered(wire: Wire) -> Iterator[Found]:
    for exchange in _exchanges(wire):
        answered = [call_id for _, call_id in exchange.answers]
        yield from (
            Found(("messages", exchange.at, "tool_calls", place), f"id {call_id!r}")
            for place, call_id in enumerate(exchange.ids)
            if call_id not in answered
        )


def _answered_twice(wire: Wire) -> Iterator[Found]:
    for exchange in _exchanges(wire):
        seen: list[Any] = []

        for at, call_id in exchange.answers:
            if call_id in seen and exchange.ids.count(call_id) <= seen.count(call_id):
                yield Found(("messages", at, "tool_call_id"), repr(call_id))

            seen.append(call_id)


def _out_of_order(wire: Wire) -> Iterator[Found]:
    for exchange in _exchanges(wire):
        known = [(at, exchange.ids.index(call_id)) for at, call_id in exchange.answers if call_id in exchange.ids]
        yield from (Found(("messages", at)) for (_, before), (at, place) in pairwise(known) if place < before)


def _misfit_ids(wire: Wire) -> Iterator[Found]:
    named: list[tuple[Path, Any]] = [
        (("messages", at, "tool_calls", place, "id"), call.get("id")) for at, place, call in calls_in(wire)
    ]
    named += [
        (("messages", at, "tool_call_id"), message.get("tool_call_id"))
        for at, message in messages_of(wire)
        if message.get("role") == "tool"
    ]

    for path, call_id in named:
        if not isinstance(call_id, str) or not 0 < len(call_id) <= MAX_ID:
            yield Found(path, f"{len(call_id)} characters" if isinstance(call_id, str) else repr(call_id))


def _equal_ids(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        seen: list[Any] = []

        for place, call in calls_of(message):
            if call.get("id") in seen:
                yield Found(("messages", at, "tool_calls", place, "id"), repr(call.get("id")))

            seen.append(call.get("id"))


def _no_calls(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        calls = message.get("tool_calls")
        is_owner = message.get("role") == "assistant"

        if calls is not None and (not isinstance(calls, list) or not calls or not is_owner):
            yield Found(("messages", at, "tool_calls"))


def _shapeless(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        calls = message.get("tool_calls")

        for place, call in enumerate(calls if isinstance(calls, list) else ()):
            if not has_shape(call):
                yield Found(("messages", at, "tool_calls", place))


def has_shape(call: Any) -> bool:
    """Whether a value is a tool call at all."""
    if not isinstance(call, dict):
        return False

    return isinstance(call.get("function"), dict) if call.get("type") == "function" else call.get("type") == "custom"


def _strange_names(wire: Wire) -> Iterator[Found]:
    for at, place, function in _called(wire):
        name = function.get("name")

        if not isinstance(name, str) or not FUNCTION_NAME.fullmatch(name):
            yield Found(("messages", at, "tool_calls", place, "function", "name"), repr(name))


def _strange_arguments(wire: Wire) -> Iterator[Found]:
    for at, place, function in _called(wire):
        arguments = function.get("arguments")

        if not isinstance(arguments, str) or not is_object_text(arguments):
            yield Found(("messages", at, "tool_calls", place, "function", "arguments"))


def _strange_fields(wire: Wire) -> Iterator[Found]:
    for at, place, call in calls_in(wire):
        yield from (Found(("messages", at, "tool_calls", place, field)) for field in sorted(call.keys() - CALL_FIELDS))


def _called(wire: Wire) -> Iterator[tuple[int, int, JsonMap]]:
    """Every called function: its message's place, its own, the function. Custom tools have none."""
    for at, place, call in calls_in(wire):
        if "function" in call and call.get("type") != "custom":
            yield at, place, map_of(call["function"])
