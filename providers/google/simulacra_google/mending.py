"""Putting requests right: what the repairable rules demand. A request that keeps them comes back as it is."""

from __future__ import annotations

from typing import Any

from simulacra.cleaning import clean_json
from simulacra.rules import Wire
from simulacra.rules.reading import JsonMap, is_blank, is_writable, map_of, objects_in, text_of
from simulacra_google.marks import FOREIGN
from simulacra_google.media import media_fault, placeholder_of
from simulacra_google.reading import (
    NAME,
    PART_KINDS,
    SIGNATURE,
    SKIPPED,
    answers,
    calls_of,
    contents_of,
    is_empty_text,
    responses_of,
    unsigned_call,
    wants_signatures,
)

OPENING = "(The conversation goes on from here.)"
"""Said by the user where history begins with the model (GM-10)."""
_ROLES = ("user", "model")
_OF_MODEL = frozenset({"functionCall", "executableCode", "codeExecutionResult", "toolCall", "toolResponse"})


class ContentMender:
    """Puts the contents of requests right."""

    def __init__(self) -> None:
        self._known: dict[bool, tuple[list[Any], list[JsonMap]]] = {}
        """Contents of the last request and what was made of them, one for one, for models that want signatures and for
        others: an agent's next request begins with them."""

    def __call__(self, wire: Wire) -> Wire:
        """The request with its contents put right; the same object when there was nothing to do."""
        contents, signs = wire.get("contents"), wants_signatures(wire)

        if not isinstance(contents, list):
            return wire

        given, made = self._known.get(signs, ([], []))

        if _is_same(made, contents):
            return wire

        begin = _begin_of_news(contents, given)
        news = contents[begin:]

        if not all(map_of(content).get("role") in _ROLES for content in news):
            return wire  # whose words these are only the user knows

        mended = _settled(news, signs=signs, leads=not begin)

        if begin and not (mended and mended[0]["role"] == "model"):  # what stands before is not to be left alone
            begin, news, mended = 0, contents, _settled(contents, signs=signs, leads=True)

        whole = [*made[:begin], *mended]

        if [content["role"] for content in mended] == [content["role"] for content in news]:
            self._known[signs] = (list(contents), whole)

        return wire if _is_same(whole, contents) or whole == contents else {**wire, "contents": list(whole)}

    def renewed(self) -> ContentMender:
        """One that remembers nothing."""
        return ContentMender()


mend_contents = ContentMender()
"""Each provider has a copy of its own, `renewed`."""


def _settled(contents: list[Any], *, signs: bool, leads: bool) -> list[JsonMap]:
    """Contents put right, until there is nothing left to do."""
    mended = _mended(contents, signs=signs, leads=leads)

    while not _is_same(mended, contents):
        contents, mended = mended, _mended(mended, signs=signs, leads=leads)

    return mended


def _begin_of_news(contents: list[Any], known: list[Any]) -> int:
    """From where on contents have to be looked at: with the last reply that is known, whose calls may be answered now."""
    begin = 0

    for content, other in zip(contents, known, strict=False):
        if content is not other:
            break

        begin += 1

    while begin and contents[begin - 1]["role"] != "model":
        begin -= 1

    return max(0, begin - 1)


def _is_same(mended: list[JsonMap], given: list[Any]) -> bool:
    return len(mended) == len(given) and all(new is old for new, old in zip(mended, given, strict=True))


def _mended(contents: list[Any], *, signs: bool, leads: bool) -> list[JsonMap]:
    """Contents put right, each the same object when it was right.

    Args:
        contents: All of a request, or the last ones from a reply on.
        signs: Whether calls need a signature.
        leads: Whether the first of them is the request's first.
    """
    kept = _joined([put for content in contents if (put := _mended_alone(content)) is not None])
    mended = _joined(_paired(kept))

    if leads:
        mended = _led_by_user(mended)

    return [_with_signature(content) for content in mended] if signs else mended


def mend_fields(wire: Wire) -> Wire:
    """The request with its other fields put right; the same object when there was nothing to do."""
    dropped = {key for key in ("tools",) if wire.get(key, ...) in ([], None)}
    system = map_of(wire.get("systemInstruction"))

    if not wire.get("tools"):
        dropped.add("toolConfig")

    if "systemInstruction" in wire and all(is_blank(part.get("text")) for _, part in objects_in(system.get("parts"))):
        dropped.add("systemInstruction")

    if wire.get("cachedContent"):
        dropped |= {"systemInstruction", "tools", "toolConfig"}

    if not dropped.isdisjoint(wire):
        wire = {key: value for key, value in wire.items() if key not in dropped}

    return _with_json_output(wire)


def _with_json_output(wire: Wire) -> Wire:
    generation = map_of(wire.get("generationConfig"))
    asked = "responseSchema" in generation or "responseJsonSchema" in generation

    if not asked or generation.get("responseMimeType") in ("application/json", "text/x.enum"):
        return wire

    return {**wire, "generationConfig": {**generation, "responseMimeType": "application/json"}}


def _mended_alone(content: JsonMap) -> JsonMap | None:
    """A content put right on its own; `None` for one that says nothing."""
    parts = content.get("parts")

    if not isinstance(parts, list):
        return None

    kept = [put for part in parts if (put := _part(part, content["role"])) is not None]

    if not kept or all(part.get("thought") for part in kept):  # thoughts alone are no reply
        return None

    if len(kept) == len(parts) and all(new is old for new, old in zip(kept, parts, strict=True)):
        return content

    return {**content, "parts": kept}


def _part(given: Any, role: str) -> JsonMap | None:
    """A part put right: itself, what stands for it, or nothing."""
    if not isinstance(given, dict):
        return None

    part: JsonMap = given

    if FOREIGN in part:
        return {"text": part["text"]} if role == "user" and not is_blank(part.get("text")) else None

    if not part.keys() & PART_KINDS or is_empty_text(part):
        return None

    if (role == "user" and part.keys() & _OF_MODEL) or (role == "model" and "functionResponse" in part):
        return None

    if not is_writable(part):
        part = clean_json(part)

    if "thoughtSignature" in part and not SIGNATURE.fullmatch(text_of(part["thoughtSignature"])):
        part = {key: value for key, value in part.items() if key != "thoughtSignature"}
        return _part(part, role)

    if fault := media_fault(part):
        return placeholder_of(part, fault) if role == "user" else None

    for key in ("functionCall", "functionResponse"):
        if key in part:
            return _function(part, key)

    return part


def _function(part: JsonMap, key: str) -> JsonMap | None:
    """A call or a response with a name that fits and an object of arguments or of a result."""
    told = part[key]
    inner = "args" if key == "functionCall" else "response"

    if not isinstance(told, dict):
        return None

    changed: JsonMap = {}

    if not NAME.fullmatch(text_of(told.get("name"))):
        changed["name"] = mended_name(told.get("name"))

    if not isinstance(told.get(inner, {}), dict):
        changed[inner] = {"output": told[inner]} if inner == "response" else {}

    return {**part, key: {**told, **changed}} if changed else part


def mended_name(name: Any) -> str:
    """A function's name as the API takes it."""
    letters = [letter if NAME.fullmatch(f"a{letter}") else "_" for letter in text_of(name)]
    text = "".join(letters)[:128]

    return text if NAME.fullmatch(text) else f"_{text}"[:128]


def _joined(contents: list[JsonMap]) -> list[JsonMap]:
    """Neighbours of one role as one content, in order."""
    joined: list[JsonMap] = []

    for content in contents:
        if joined and joined[-1]["role"] == content["role"]:
            joined[-1] = {**joined[-1], "parts": [*joined[-1]["parts"], *content["parts"]]}
        else:
            joined.append(content)

    return joined


def _paired(contents: list[JsonMap]) -> list[JsonMap]:
    """Calls with their responses in the next content, in call order and first; what stands alone is left out (GM-R4)."""
    sent: list[JsonMap] = []
    waiting: list[JsonMap] = []

    for at, content in enumerate(contents):
        if content["role"] == "user":
            sent += _answered(content, waiting)
            waiting = []
            continue

        following = contents[at + 1] if at + 1 < len(contents) else {}
        chosen = _chosen(content, following)
        waiting = [part for part in chosen if part is not None]
        sent += _with_calls(content, chosen)

    return sent


def _chosen(content: JsonMap, following: JsonMap) -> list[JsonMap | None]:
    """For each call the part that answers it, under the call's own name (GM-R5); `None` where nothing does."""
    left = [part for part in map_of(following).get("parts") or () if "functionResponse" in map_of(part)]
    chosen: list[JsonMap | None] = []

    for _, call in calls_of(content):
        found = next((part for part in left if answers(call, part["functionResponse"])), None)

        if found is not None:
            left = [part for part in left if part is not found]

        chosen.append(None if found is None else _named_as(found, call))

    return chosen


def _named_as(part: JsonMap, call: JsonMap) -> JsonMap:
    response = part["functionResponse"]

    if response.get("name") == call.get("name"):
        return part

    return {**part, "functionResponse": {**response, "name": call.get("name")}}


def _with_calls(content: JsonMap, chosen: list[JsonMap | None]) -> list[JsonMap]:
    """The content without calls that nothing answers; none when nothing is left of it."""
    if all(part is not None for part in chosen):
        return [content]

    answered = iter(chosen)
    kept = [part for part in content["parts"] if "functionCall" not in part or next(answered) is not None]

    return [{**content, "parts": kept}] if any(not part.get("thought") for part in kept) else []


def _answered(content: JsonMap, waiting: list[JsonMap]) -> list[JsonMap]:
    rest = [part for part in content["parts"] if "functionResponse" not in part]
    parts = [*waiting, *rest]

    if len(parts) == len(content["parts"]) and all(
        new is old for new, old in zip(parts, content["parts"], strict=True)
    ):
        return [content]

    return [{**content, "parts": parts}] if parts else []


def _led_by_user(contents: list[JsonMap]) -> list[JsonMap]:
    """Contents of which the user has the first (GM-10)."""
    if contents and contents[0]["role"] == "model":
        return [{"role": "user", "parts": [{"text": OPENING}]}, *contents]

    return contents


def _with_signature(content: JsonMap) -> JsonMap:
    place = unsigned_call(content) if content["role"] == "model" else None

    if place is None:
        return content

    parts = [{**part, "thoughtSignature": SKIPPED} if at == place else part for at, part in enumerate(content["parts"])]

    return {**content, "parts": parts}


def exchanges(wire: Wire) -> list[tuple[int, list[tuple[int, JsonMap]], list[tuple[int, JsonMap]]]]:
    """Every content of the model with calls: its place, its calls, and the responses in the content behind it."""
    contents = dict(contents_of(wire))

    return [
        (at, calls, responses_of(contents.get(at + 1, {})))
        for at, content in contents.items()
        if (calls := calls_of(content))
    ]
