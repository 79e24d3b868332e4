"""Putting requests right: what the repairable rules demand. A request that keeps them comes back as it is, quickly.

Messages are mended in one go: a first look over all of them finds nothing to do as a rule, and costs a fraction of a
microsecond each. Source of the repairs: AN-R1, OA-R5, TL-R4, MU-R2, OAI-4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulacra.cleaning import clean_json
from simulacra.rules import Wire
from simulacra.rules.reading import JsonMap, is_blank, is_unicode, is_writable, map_of, texts_in
from simulacra_openai.call_rules import CALL_FIELDS, FUNCTION_NAME, has_shape, is_object_text
from simulacra_openai.exchanges import paired, tools_without_media
from simulacra_openai.field_rules import REASONING_MODEL
from simulacra_openai.message_drafts import MAX_ID, content_of
from simulacra_openai.message_rules import MESSAGE_FIELDS, PARTICIPANT, says_something
from simulacra_openai.part_rules import is_known, media_fault, placeholder_of
from simulacra_openai.presets import Preset


class MessageMender:
    """Puts the messages of requests right.

    Args:
        preset: How the service differs from OpenAI.
        media_types: Media types the model takes; `None` when unknown.
    """

    def __init__(self, preset: Preset, media_types: frozenset[str] | None) -> None:
        self._preset = preset
        self._is_closed = preset.is_closed
        self._takes_null = preset.takes_null
        self._media_types = media_types
        self._tidy: list[Any] = []
        """The messages of the last request that was tidy: an agent's next one begins with them."""

    def __call__(self, wire: Wire) -> Wire:
        """The request with its messages put right; the same object when there was nothing to do."""
        messages = wire.get("messages")

        if not isinstance(messages, list) or self._are_tidy(messages):
            return wire

        kept = [mended for message in messages if (mended := self._mended(message)) is not None]
        mended = _joined(tools_without_media(paired(kept)))

        return wire if mended == messages else {**wire, "messages": mended}

    def renewed(self) -> MessageMender:
        """One that remembers nothing."""
        return MessageMender(self._preset, self._media_types)

    def _are_tidy(self, messages: list[Any]) -> bool:  # noqa: C901 -- the one look that every message gets each time
        """Whether nothing has to be done; it may be too strict, never too lax."""
        begin = _begin_of_news(messages, self._tidy)
        waiting: list[Any] = []
        previous: Any = messages[begin - 1].get("role") if begin else ""

        for message in messages[begin:] if begin else messages:
            if type(message) is not dict:
                return False

            role, content = message.get("role"), message.get("content")

            if role == "tool":
                if not waiting or message.get("tool_call_id") != waiting.pop() or type(content) is not str:
                    return False
            elif waiting or (role == previous and role != "system"):
                return False
            elif type(content) is str:
                if not content or content.isspace():
                    return False
            elif not self._are_tidy_parts(content, role, message):
                return False

            if type(content) is str and not content.isascii() and not is_unicode(content):
                return False

            if (len(message) > 2 or content is None) and role != "tool":
                calls = message.get("tool_calls")

                if not self._are_tidy_fields(message):
                    return False

                if "tool_calls" in message and (role != "assistant" or not self._are_tidy_calls(calls)):
                    return False

                waiting = [call["id"] for call in reversed(calls or ())]

            previous = role

        if waiting:
            return False

        self._tidy = messages

        return True

    def _are_tidy_parts(self, content: Any, role: Any, message: JsonMap) -> bool:
        if content is None:
            return role == "assistant" and self._takes_null and says_something(message)

        return (
            type(content) is list
            and bool(content)
            and all(type(part) is dict and self._part(part, role) is part for part in content)
            and all(is_unicode(text) for part in content for _, text in texts_in(part))
        )

    def _are_tidy_fields(self, message: JsonMap) -> bool:
        name = message.get("name")

        if "name" in message and name is not None and not (isinstance(name, str) and PARTICIPANT.fullmatch(name)):
            return False

        if self._is_closed and not message.keys() <= MESSAGE_FIELDS:
            return False

        return is_writable(message)

    def _are_tidy_calls(self, calls: Any) -> bool:
        if type(calls) is not list or not calls:
            return False

        seen = set()

        for call in calls:
            if self._call(call) is not call:
                return False

            call_id = map_of(call).get("id")

            if type(call_id) is not str or not 0 < len(call_id) <= MAX_ID or call_id in seen:
                return False

            seen.add(call_id)

        return True

    def _mended(self, message: Any) -> Any:
        """A message put right on its own; `None` for one that says nothing."""
        if not isinstance(message, dict):
            return message

        if not all(is_unicode(text) for _, text in texts_in(message)):
            message = clean_json(message)

        role, content = message.get("role"), message.get("content")
        calls = message.get("tool_calls")
        changed: JsonMap = {}

        if "tool_calls" in message and calls is not None:
            own = _list(calls) if role == "assistant" else []
            changed["tool_calls"] = [mended for call in own if (mended := self._call(call)) is not None] or None

        if isinstance(content, list):
            parts = [mended for part in content if (mended := self._part(part, role)) is not None]
            changed["content"] = content if content and parts == content else content_of(parts)
        elif is_blank(content) and role not in ("tool", "function"):
            changed["content"] = None
        elif role == "tool" and not isinstance(content, str):
            changed["content"] = ""

        if not (isinstance(name := message.get("name", "-"), str) and PARTICIPANT.fullmatch(name)):
            changed["name"] = _named(name)

        message = {**message, **changed}
        dropped = {key for key in ("tool_calls", "name") if key in message and message[key] is None}
        dropped |= message.keys() - MESSAGE_FIELDS if self._is_closed else set()
        message = {key: value for key, value in message.items() if key not in dropped}

        if role == "assistant":
            speaks = says_something(message)
            message = message if self._takes_null or message.get("content") is not None else {**message, "content": ""}
            return message if speaks else None

        return message if message.get("content") is not None or role in ("tool", "function") else None

    def _part(self, part: Any, role: Any) -> JsonMap | None:
        """A part put right: itself, what stands for it, or nothing."""
        if isinstance(part, str):
            part = {"type": "text", "text": part}

        if not isinstance(part, dict):
            return None

        if part.get("type") == "text":
            return None if is_blank(part.get("text")) else part

        if role == "tool":  # its media move to the user, who may show them
            return part if is_known(part, "user", is_closed=self._is_closed) else placeholder_of(part)

        if not is_known(part, role, is_closed=self._is_closed):
            return placeholder_of(part) if role == "user" else None

        return placeholder_of(part) if media_fault(part, self._media_types) else part

    def _call(self, given: Any) -> JsonMap | None:
        """A tool call put right: itself, what stands for it, or nothing."""
        if not isinstance(given, dict):
            return None

        call: JsonMap = given

        if not has_shape(call):
            if not isinstance(call.get("function"), dict):
                return None

            call = {**call, "type": "function"}

        if self._is_closed and not call.keys() <= CALL_FIELDS:
            call = {key: value for key, value in call.items() if key in CALL_FIELDS}

        if call["type"] != "function":
            return call

        function = call["function"]
        name, arguments = function.get("name"), function.get("arguments")

        if not isinstance(name, str) or not FUNCTION_NAME.fullmatch(name):
            function = {**function, "name": _function_name(name)}

        if not isinstance(arguments, str) or not is_object_text(arguments):
            function = {**function, "arguments": "{}"}

        return call if function is call["function"] else {**call, "function": function}


def _begin_of_news(messages: list[Any], known: list[Any]) -> int:
    """From where on messages have to be looked at, when others are known to be tidy: an exchange is looked at whole."""
    begin = 0

    for message, other in zip(messages, known, strict=False):
        if message is not other and message != other:
            break

        begin += 1

    while begin and messages[begin - 1].get("role") == "tool":
        begin -= 1

    return begin - 1 if begin and messages[begin - 1].get("tool_calls") else begin


def field_mender(preset: Preset) -> Callable[[Wire], Wire]:
    """What puts the fields of a request right.

    Args:
        preset: How the service differs from OpenAI.
    """

    def mend(wire: Wire) -> Wire:
        dropped = set()

        if preset.is_closed and wire.get("tools", ...) in ([], None):
            dropped.add("tools")

        if not wire.get("tools") and not wire.get("functions"):
            dropped |= {"tool_choice", "parallel_tool_calls"}

        if not wire.get("stream"):
            dropped.add("stream_options")

        if wire.get("max_tokens") is not None and wire.get("max_completion_tokens") is not None:
            dropped.add("max_tokens" if preset.limit_field == "max_completion_tokens" else "max_completion_tokens")

        if not dropped.isdisjoint(wire):
            wire = {key: value for key, value in wire.items() if key not in dropped}

        return _with_output_name(_with_newer_limit(wire) if preset.is_closed else wire)

    return mend


def _with_newer_limit(wire: Wire) -> Wire:
    model = wire.get("model")

    if wire.get("max_tokens") is None or not isinstance(model, str):
        return wire

    if not REASONING_MODEL.match(model):
        return wire

    return {("max_completion_tokens" if key == "max_tokens" else key): value for key, value in wire.items()}


def _with_output_name(wire: Wire) -> Wire:
    asked = map_of(wire.get("response_format"))
    schema = map_of(asked.get("json_schema"))
    name = schema.get("name")

    if not isinstance(name, str) or FUNCTION_NAME.fullmatch(name):
        return wire

    return {**wire, "response_format": {**asked, "json_schema": {**schema, "name": _function_name(name)}}}


def _joined(messages: list[Any]) -> list[Any]:
    """Neighbours of one role as one message (AN-R1)."""
    joined: list[Any] = []

    for message in messages:
        last = joined[-1] if joined else None
        role = map_of(message).get("role")

        if role in ("user", "assistant") and last is not None and map_of(last).get("role") == role:
            joined[-1] = _both(last, message)
        else:
            joined.append(message)

    return joined


def _both(first: JsonMap, second: JsonMap) -> JsonMap:
    contents = [_parts(message.get("content")) for message in (first, second)]
    both = {**first, **second, "content": content_of([*contents[0], *contents[1]])}

    for key in ("tool_calls", "refusal"):
        values = [message[key] for message in (first, second) if message.get(key)]

        if len(values) == 2 and type(values[0]) is type(values[1]):
            both[key] = values[0] + values[1]

    return both


def _parts(content: Any) -> list[Any]:
    if isinstance(content, list):
        return content

    return [] if is_blank(content) else [{"type": "text", "text": content}]


def _function_name(name: Any) -> str:
    text = "".join(letter if FUNCTION_NAME.fullmatch(letter) else "_" for letter in str(name or ""))

    return text[:64] or "_"


def _named(name: Any) -> str | None:
    text = "".join(letter if PARTICIPANT.fullmatch(letter) else "_" for letter in name) if isinstance(name, str) else ""

    return text[:64] or None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
