"""Putting requests right: what the repairable rules demand. A request that keeps them comes back as it is, quickly.

Messages are looked over once; only where something may be amiss each block is put right on its own, and then the
messages together, by `repairs`.
"""

from __future__ import annotations

from operator import is_
from typing import Any

from simulacra.cleaning import clean_json
from simulacra.rules import Wire
from simulacra.rules.reading import JsonMap, is_blank, is_unicode, is_writable, map_of, text_of
from simulacra_anthropic.media import media_fault, placeholder_of
from simulacra_anthropic.repairs import CALL_NAME, FOREIGN, THINKING, VALID_ID, repaired

_ROLES = ("user", "assistant")
_USERS = frozenset({"tool_result", "image", "document"})
_MODELS = frozenset({"tool_use", "thinking", "redacted_thinking", "server_tool_use"})


class MessageMender:
    """Puts the messages of requests right."""

    def __init__(self) -> None:
        self._tidy: list[Any] = []
        """The messages of the last request that was tidy: an agent's next one begins with them."""

    def __call__(self, wire: Wire) -> Wire:
        """The request with its messages put right; the same object when there was nothing to do."""
        turns = wire.get("messages")

        if not isinstance(turns, list):
            return wire

        if _are_tidy(turns, _begin_of_news(turns, self._tidy)):
            self._tidy = list(turns)  # a copy: the caller may go on with its own list
            return wire

        if not all(map_of(turn).get("role") in _ROLES for turn in turns):
            return wire  # whose words these are only the user knows

        mended = repaired([turn for turn in map(_mended, turns) if turn is not None])

        return wire if mended == turns else {**wire, "messages": mended}

    def renewed(self) -> MessageMender:
        """One that remembers nothing."""
        return MessageMender()


def mended_name(name: Any) -> str:
    """A tool's name as the API takes it."""
    text = "".join(letter if CALL_NAME.fullmatch(letter) else "_" for letter in text_of(name))

    return text[:128] or "_"


def _begin_of_news(turns: list[Any], known: list[Any]) -> int:
    """From where on messages have to be looked at, when others are known to be tidy: an exchange is looked at whole."""
    alike = map(is_, turns, known)
    begin = next((place for place, same in enumerate(alike) if not same), min(len(turns), len(known)))

    return begin - 1 if begin and turns[begin - 1].get("role") == "assistant" else begin


def _are_tidy(turns: list[Any], begin: int = 0) -> bool:
    """Whether nothing has to be done; it may be too strict, never too lax.

    Args:
        turns: The messages.
        begin: Where to begin: what stands before is known to be tidy, and ends with a message of the user.
    """
    role, waiting = "assistant" if not begin else "user", list[str]()
    seen: set[str] | None = None
    content: Any = ""

    for turn in turns[begin:] if begin else turns:
        if type(turn) is not dict or turn.get("role") == role or turn.get("role") not in _ROLES:
            return False

        role, content = turn["role"], turn.get("content")

        if type(content) is str:
            if waiting or not content or content.isspace() or not is_unicode(content):
                return False
        elif type(content) is not list or not all(
            type(block) is dict and _block(block, role) is block for block in content
        ):
            return False
        elif role == "user":
            if _results_of(content) != waiting or len(content) == 0:
                return False

            waiting = []
        else:
            waiting = [block["id"] for block in content if block["type"] == "tool_use"]

            if waiting and seen is None:
                seen = _calls_in(turns[:begin])

            if not _is_tidy_reply(content, waiting) or not (seen or frozenset()).isdisjoint(waiting):
                return False

            if seen is not None:
                seen.update(waiting)

    if waiting:
        return False

    return role == "user" or (type(content) is str and content == content.rstrip())


def _calls_in(turns: list[Any]) -> set[str]:
    return {
        block["id"]
        for turn in turns
        if type(turn["content"]) is list
        for block in turn["content"]
        if block["type"] == "tool_use"
    }


def _results_of(content: list[Any]) -> list[Any]:
    """The ids that a message's leading results answer; none that could be right when others stand further back."""
    answered = [block.get("tool_use_id") for block in content if block["type"] == "tool_result"]
    leads = all(block["type"] == "tool_result" for block in content[: len(answered)])

    return answered if leads else [None]


def _is_tidy_reply(content: list[Any], calls: list[str]) -> bool:
    spoken = content[: len(content) - len(calls)]

    if any(block["type"] not in ("text", *THINKING) for block in spoken):
        return False

    if not calls and (not spoken or spoken[-1]["type"] in THINKING):
        return False

    return len(set(calls)) == len(calls) and all(block["type"] == "tool_use" for block in content[len(spoken) :])


def _mended(turn: JsonMap) -> JsonMap | None:
    """A message put right on its own; `None` for one that says nothing."""
    role, content = turn["role"], turn.get("content")

    if isinstance(content, str):
        return turn if is_unicode(content) else clean_json(turn)

    if not isinstance(content, list):
        return None

    blocks = [mended for block in content if (mended := _block(block, role)) is not None]

    while role == "assistant" and blocks and blocks[-1]["type"] in THINKING:
        blocks.pop()

    return {**turn, "content": blocks} if blocks else None


def _block(block: Any, role: str) -> JsonMap | None:
    """A block put right: itself, what stands for it, or nothing."""
    kind = map_of(block).get("type")

    if not isinstance(kind, str):
        return None

    given: JsonMap = block

    if kind == FOREIGN:
        return None if role == "assistant" or is_blank(given.get("text")) else {"type": "text", "text": given["text"]}

    if kind in (_MODELS if role == "user" else _USERS):
        return None

    if not is_writable(given):
        given = clean_json(given)

    match kind:
        case "text":
            return None if is_blank(given.get("text")) else given
        case "thinking":
            return given if text_of(given.get("signature")) else None
        case "redacted_thinking":
            return given if text_of(given.get("data")) else None
        case "tool_use":
            return _call(given)
        case "tool_result":
            return _result(given)
        case _:
            return placeholder_of(given, fault) if (fault := media_fault(given)) else given


def _call(call: JsonMap) -> JsonMap | None:
    if not isinstance(call.get("id"), str):
        return None

    changed: JsonMap = {}

    if not CALL_NAME.fullmatch(text_of(call.get("name"))):
        changed["name"] = mended_name(call.get("name"))

    if not isinstance(call.get("input"), dict):
        changed["input"] = {}

    if not changed:
        return call if VALID_ID.fullmatch(call["id"]) else dict(call)  # another id is made of it where pairs are known

    return {**call, **changed}


def _result(result: JsonMap) -> JsonMap | None:
    content = result.get("content")

    if not isinstance(result.get("tool_use_id"), str):
        return None

    if not isinstance(content, list):
        return result

    kept = [mended for part in content if (mended := _block(part, "user")) is not None]

    if len(kept) == len(content) and all(mended is part for mended, part in zip(kept, content, strict=True)):
        return result

    if len(kept) == 1 and kept[0].keys() == {"type", "text"}:
        return {**result, "content": kept[0]["text"]}

    return {**result, "content": kept} if kept else {key: value for key, value in result.items() if key != "content"}
