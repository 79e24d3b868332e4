"""Rules about tool calls and the results that answer them.

Source: Anthropic's guide to tool use and API reference; refusals of its API that users have reported (AN-05, AN-12,
AN-R6, TL-R4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from simulacra.rules import Found, Path, Rule, Wire
from simulacra.rules.reading import JsonMap, objects_in, text_of
from simulacra_anthropic.message_rules import Mend, blocks_in, messages_of
from simulacra_anthropic.repairs import CALL_NAME, VALID_ID, lone_server_blocks


def call_rules(mend: Mend) -> tuple[Rule, ...]:
    """The rules.

    Args:
        mend: Puts the messages of a request right.
    """
    return (*_pairs(mend), *_order(mend), *_shape(mend))


def _pairs(mend: Mend) -> tuple[Rule, ...]:
    return (
        Rule(
            name="calls-have-results",
            demand="the message behind a call has a result for it",
            fix="A call without a result is left out",
            find=_unanswered,
            repair=mend,
        ),
        Rule(
            name="results-have-calls",
            demand="a result answers a call of the message before it",
            fix="A result without a call is left out",
            find=_unasked,
            repair=mend,
        ),
        Rule(
            name="calls-have-one-result",
            demand="a call has a single result",
            fix="The second one is left out",
            find=_answered_twice,
            repair=mend,
        ),
        Rule(
            name="server-calls-and-results-in-pairs",
            demand="a call of a server tool has its result further on, and a result its call before it",
            fix="What stands alone is left out, unless the service goes on with it",
            find=_lone_server_blocks,
            repair=mend,
        ),
    )


def _order(mend: Mend) -> tuple[Rule, ...]:
    return (
        Rule(  # AN-R6
            name="results-first",
            demand="results stand before everything else in a message",
            fix="They move to its beginning",
            find=_late_results,
            repair=mend,
        ),
        Rule(  # AN-05
            name="nothing-behind-calls",
            demand="only calls stand behind a call in a message",
            fix="What stands behind it becomes a message of its own, behind the results",
            find=_behind_calls,
            repair=mend,
        ),
    )


def _shape(mend: Mend) -> tuple[Rule, ...]:
    return (
        Rule(  # AN-12
            name="call-ids-fit",
            demand="the id of a call matches [a-zA-Z0-9_-]+",
            fix="Another one is made of it, the same for the call and its result and in each request",
            find=_misfit_ids,
            repair=mend,
        ),
        Rule(  # TL-R4
            name="call-ids-differ",
            demand="the ids of all calls differ",
            fix="The later ones get an id made of it and their place",
            find=_equal_ids,
            repair=mend,
        ),
        Rule(
            name="call-names-fit",
            demand="the name of a called tool matches [a-zA-Z0-9_-] and has 1 to 128 characters",
            fix="An underscore stands for every other character, and the rest is cut off",
            find=_strange_names,
            repair=mend,
        ),
        Rule(  # TL-09
            name="call-input-is-an-object",
            demand="the input of a call is an object",
            fix="It is replaced by {}",
            find=_strange_inputs,
            repair=mend,
        ),
    )


class _Exchange(NamedTuple):
    """The calls of a message, and the results in the one behind it."""

    calls: list[tuple[Path, Any]]
    results: list[tuple[Path, Any]]


def _exchanges(wire: Wire) -> Iterator[_Exchange]:
    messages = [message for _, message in messages_of(wire)]

    for at, message in enumerate([*messages, {}]):
        before = messages[at - 1] if at else {}
        yield _Exchange(_named(before, at - 1, "tool_use", "id"), _named(message, at, "tool_result", "tool_use_id"))


def _named(message: JsonMap, at: int, kind: str, key: str) -> list[tuple[Path, Any]]:
    return [
        (("messages", at, "content", place), block.get(key))
        for place, block in objects_in(message.get("content"))
        if block.get("type") == kind
    ]


def _unanswered(wire: Wire) -> Iterator[Found]:
    for exchange in _exchanges(wire):
        answered = [call_id for _, call_id in exchange.results]
        yield from (Found(path, f"id {call_id!r}") for path, call_id in exchange.calls if call_id not in answered)


def _unasked(wire: Wire) -> Iterator[Found]:
    for exchange in _exchanges(wire):
        asked = [call_id for _, call_id in exchange.calls]
        yield from (
            Found(path, f"tool_use_id {call_id!r}") for path, call_id in exchange.results if call_id not in asked
        )


def _answered_twice(wire: Wire) -> Iterator[Found]:
    for exchange in _exchanges(wire):
        asked = Counter(repr(call_id) for _, call_id in exchange.calls)

        for path, call_id in exchange.results:
            asked[repr(call_id)] -= 1

            if asked[repr(call_id)] < 0 and any(call_id == named for _, named in exchange.calls):
                yield Found(path, f"tool_use_id {call_id!r}")


def _lone_server_blocks(wire: Wire) -> Iterator[Found]:
    lone = sorted(lone_server_blocks([message for _, message in messages_of(wire)]))

    yield from (Found(("messages", at, "content", place)) for at, place in lone)


def _late_results(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        is_late = False

        for place, block in objects_in(message.get("content")):
            if block.get("type") != "tool_result":
                is_late = True
            elif is_late:
                yield Found(("messages", at, "content", place))


def _behind_calls(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        has_called = False

        for place, block in objects_in(message.get("content")):
            if block.get("type") == "tool_use":
                has_called = True
            elif has_called:
                yield Found(("messages", at, "content", place), text_of(block.get("type")))


def _misfit_ids(wire: Wire) -> Iterator[Found]:
    for at, _, place, block in blocks_in(wire):
        for kind, key in (("tool_use", "id"), ("tool_result", "tool_use_id")):
            if block.get("type") == kind and not VALID_ID.fullmatch(text_of(block.get(key))):
                yield Found(("messages", at, "content", place, key), repr(block.get(key)))


def _equal_ids(wire: Wire) -> Iterator[Found]:
    seen = set()

    for at, _, place, block in blocks_in(wire):
        if block.get("type") == "tool_use":
            if repr(block.get("id")) in seen:
                yield Found(("messages", at, "content", place, "id"), repr(block.get("id")))

            seen.add(repr(block.get("id")))


def _strange_names(wire: Wire) -> Iterator[Found]:
    for at, _, place, block in blocks_in(wire):
        if block.get("type") == "tool_use" and not CALL_NAME.fullmatch(text_of(block.get("name"))):
            yield Found(("messages", at, "content", place, "name"), repr(block.get("name")))


def _strange_inputs(wire: Wire) -> Iterator[Found]:
    for at, _, place, block in blocks_in(wire):
        if block.get("type") == "tool_use" and not isinstance(block.get("input"), dict):
            yield Found(("messages", at, "content", place, "input"))
