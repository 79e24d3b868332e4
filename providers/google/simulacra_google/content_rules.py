"""Rules about the contents of a request.

Source: Google's API reference (models.generateContent), its guides to function calling, thinking and files, and refusals
of its API that users have reported (GM-01, GM-10, GM-R4).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simulacra.rules import Found, Rule, Wire
from simulacra.rules.reading import is_unicode, map_of, text_of, texts_in
from simulacra_google.marks import FOREIGN
from simulacra_google.media import media_fault
from simulacra_google.mending import exchanges, mend_contents
from simulacra_google.reading import (
    NAME,
    PART_KINDS,
    SIGNATURE,
    answers,
    contents_of,
    is_empty_text,
    parts_in,
    responses_of,
    unsigned_call,
    wants_signatures,
)

_ROLES = ("user", "model")
_OWNERS = {
    "functionCall": "model",
    "functionResponse": "user",
    "executableCode": "model",
    "codeExecutionResult": "model",
}


def content_rules() -> tuple[Rule, ...]:
    """The rules, in the order in which they are looked at."""
    return (*_shapes(), *_parts(), *_functions(), *_pairs())


def _rule(name: str, demand: str, fix: str, find: Any) -> Rule:
    return Rule(name=name, demand=demand, fix=fix, find=find, repair=mend_contents, code="INVALID_ARGUMENT")


def _shapes() -> tuple[Rule, ...]:
    return (
        Rule(
            name="contents-given",
            demand="contents is an array with at least one content",
            fix="Say something",
            find=lambda wire: [] if wire.get("contents") else [Found(("contents",))],
            code="INVALID_ARGUMENT",
        ),
        Rule(
            name="roles-known",
            demand="a content is an object whose role is user or model",
            fix="Give it the role it has",
            find=_strange_roles,
            code="INVALID_ARGUMENT",
        ),
        _rule(
            "first-content-by-the-user",
            "the first content is the user's",
            "One that says that the conversation goes on takes the first place",
            _begun_by_model,
        ),
        _rule(
            "roles-alternate", "contents of user and model alternate", "Neighbours of one role are joined", _neighbours
        ),
        _rule("parts-given", "a content has at least one part", "It is left out", _partless),
        _rule("text-is-unicode", "every text can be written as UTF-8", "U+FFFD stands for a lone surrogate", _broken),
    )


def _parts() -> tuple[Rule, ...]:
    return (
        _rule(
            "parts-are-something",
            "a part is an object with a text, data, a call or the like",
            "It is left out",
            _nothing,
        ),
        _rule(
            "parts-of-this-api",
            "a part is one that this API knows",
            "Media become a text that names them, parts and thoughts of other vendors are left out",
            _foreign,
        ),
        _rule("texts-not-blank", "a text without a signature says something", "It is left out", _blank),
        _rule(
            "parts-stand-with-their-role",
            "calls and code are the model's, responses the user's",
            "It is left out",
            _misplaced,
        ),
        _rule("thoughts-lead-to-something", "a content has more than thoughts", "It is left out", _thoughts_alone),
        _rule("signatures-are-base64", "a thoughtSignature is in base64", "It is left out", _strange_signatures),
        _rule("media-fit", "data has a type that Gemini takes, in base64; a file has a URI", "A text names it", _unfit),
    )


def _functions() -> tuple[Rule, ...]:
    return (
        _rule(
            "call-names-fit",
            "a function's name begins with a letter or underscore and has at most 128 of [a-zA-Z0-9_.:-]",
            "An underscore stands for every other character, and the rest is cut off",
            _strange_names,
        ),
        _rule("call-args-are-an-object", "the args of a call are an object", "They are replaced by {}", _strange_args),
        _rule(
            "responses-are-objects",
            "the response of a function is an object",
            "It goes under the key output",
            _strange_responses,
        ),
        _rule(
            "first-calls-signed",
            "from Gemini 3 on the first call of each content carries a signature",
            "A word that Google gives for calls of other origin stands for it",
            _unsigned,
        ),
    )


def _pairs() -> tuple[Rule, ...]:
    return (
        _rule(
            "calls-have-responses",
            "the content behind a call has a response for it",
            "A call without a response is left out",
            _unanswered,
        ),
        _rule(
            "responses-have-calls",
            "a response answers a call of the content before it",
            "A response without a call is left out",
            _unasked,
        ),
        _rule(
            "as-many-responses-as-calls",
            "a content has as many responses as the one before it has calls",
            "The surplus is left out",
            _uncounted,
        ),
        _rule("responses-in-call-order", "responses come in the order of their calls", "They are sorted", _unsorted),
        _rule("responses-first", "responses stand before everything else", "They move to the beginning", _late),
        _rule("responses-named-as-calls", "a response has the name of its call", "It gets that name", _misnamed),
    )


def _strange_roles(wire: Wire) -> Iterator[Found]:
    contents = wire.get("contents")

    for at, content in enumerate(contents if isinstance(contents, list) else ()):
        if map_of(content).get("role") not in _ROLES:
            yield Found(("contents", at, "role"), repr(map_of(content).get("role")))


def _begun_by_model(wire: Wire) -> Iterator[Found]:
    for at, content in contents_of(wire):
        if at == 0 and content.get("role") == "model":
            yield Found(("contents", 0, "role"))

        return


def _neighbours(wire: Wire) -> Iterator[Found]:
    previous = None

    for at, content in contents_of(wire):
        if content.get("role") == previous:
            yield Found(("contents", at), f"another content of {previous}")

        previous = content.get("role")


def _partless(wire: Wire) -> Iterator[Found]:
    for at, content in contents_of(wire):
        if not isinstance(content.get("parts"), list) or not content["parts"]:
            yield Found(("contents", at, "parts"))


def _broken(wire: Wire) -> Iterator[Found]:
    for at, content in contents_of(wire):
        yield from (Found(path) for path, text in texts_in(content, "contents", at) if not is_unicode(text))


def _nothing(wire: Wire) -> Iterator[Found]:
    for at, content in contents_of(wire):
        parts = content.get("parts")

        for place, part in enumerate(parts if isinstance(parts, list) else ()):
            if not map_of(part).keys() & {*PART_KINDS, FOREIGN}:
                yield Found(("contents", at, "parts", place))


def _foreign(wire: Wire) -> Iterator[Found]:
    for at, _, place, part in parts_in(wire):
        if FOREIGN in part:
            yield Found(("contents", at, "parts", place), text_of(part[FOREIGN]))


def _blank(wire: Wire) -> Iterator[Found]:
    for at, _, place, part in parts_in(wire):
        if FOREIGN not in part and is_empty_text(part):
            yield Found(("contents", at, "parts", place, "text"))


def _misplaced(wire: Wire) -> Iterator[Found]:
    for at, content, place, part in parts_in(wire):
        for key, owner in _OWNERS.items():
            if key in part and content.get("role") in _ROLES and content["role"] != owner:
                yield Found(("contents", at, "parts", place, key), f"with the {content['role']}")


def _thoughts_alone(wire: Wire) -> Iterator[Found]:
    for at, content in contents_of(wire):
        parts = content.get("parts")

        if isinstance(parts, list) and parts and all(map_of(part).get("thought") for part in parts):
            yield Found(("contents", at))


def _strange_signatures(wire: Wire) -> Iterator[Found]:
    for at, _, place, part in parts_in(wire):
        if "thoughtSignature" in part and not SIGNATURE.fullmatch(text_of(part["thoughtSignature"])):
            yield Found(("contents", at, "parts", place, "thoughtSignature"))


def _unfit(wire: Wire) -> Iterator[Found]:
    for at, _, place, part in parts_in(wire):
        if fault := media_fault(part):
            yield Found(("contents", at, "parts", place), fault)


def _strange_names(wire: Wire) -> Iterator[Found]:
    for at, _, place, part in parts_in(wire):
        for key in ("functionCall", "functionResponse"):
            if key in part and not NAME.fullmatch(text_of(map_of(part[key]).get("name"))):
                yield Found(("contents", at, "parts", place, key, "name"), repr(map_of(part[key]).get("name")))


def _strange_args(wire: Wire) -> Iterator[Found]:
    for at, _, place, part in parts_in(wire):
        if "functionCall" in part and not isinstance(map_of(part["functionCall"]).get("args", {}), dict):
            yield Found(("contents", at, "parts", place, "functionCall", "args"))


def _strange_responses(wire: Wire) -> Iterator[Found]:
    for at, _, place, part in parts_in(wire):
        if "functionResponse" in part and not isinstance(map_of(part["functionResponse"]).get("response", {}), dict):
            yield Found(("contents", at, "parts", place, "functionResponse", "response"))


def _unsigned(wire: Wire) -> Iterator[Found]:
    if not wants_signatures(wire):
        return

    for at, content in contents_of(wire):
        place = unsigned_call(content)

        if place is not None and content.get("role") == "model":
            yield Found(("contents", at, "parts", place, "thoughtSignature"))


def _unanswered(wire: Wire) -> Iterator[Found]:
    for at, calls, responses in exchanges(wire):
        left = [response for _, response in responses]

        for place, call in calls:
            found = next((response for response in left if answers(call, response)), None)
            left = [response for response in left if response is not found]

            if found is None:
                yield Found(("contents", at, "parts", place), repr(call.get("name")))


def _unasked(wire: Wire) -> Iterator[Found]:
    asked = {at + 1: [call for _, call in calls] for at, calls, _ in exchanges(wire)}

    for at, content in contents_of(wire):
        for place, response in responses_of(content):
            if not any(answers(call, response) for call in asked.get(at, ())):
                yield Found(("contents", at, "parts", place), repr(response.get("name")))


def _uncounted(wire: Wire) -> Iterator[Found]:
    for at, calls, responses in exchanges(wire):
        if len(responses) > len(calls):
            yield Found(("contents", at + 1), f"{len(responses)} responses to {len(calls)} calls")


def _unsorted(wire: Wire) -> Iterator[Found]:
    for at, calls, responses in exchanges(wire):
        named = [call.get("id") or call.get("name") for _, call in calls]
        told = [response.get("id") or response.get("name") for _, response in responses]

        if told != named and sorted(map(repr, told)) == sorted(map(repr, named)):
            yield Found(("contents", at + 1))


def _late(wire: Wire) -> Iterator[Found]:
    for at, content in contents_of(wire):
        places = [place for place, _ in responses_of(content)]

        if places and places != list(range(len(places))):
            yield Found(("contents", at, "parts", places[-1]))


def _misnamed(wire: Wire) -> Iterator[Found]:
    for at, calls, responses in exchanges(wire):
        for place, response in responses:
            call = next((call for _, call in calls if call.get("id") and call["id"] == response.get("id")), None)

            if call is not None and call.get("name") != response.get("name"):
                yield Found(
                    ("contents", at + 1, "parts", place, "functionResponse", "name"), repr(response.get("name"))
                )
