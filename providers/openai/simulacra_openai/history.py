"""Messages as chat completions want them. Pure; nothing stored is changed.

Blank texts, foreign thinking and foreign raw parts are left out; a message left with nothing is dropped and its
neighbours, now of one role, become one message (AN-R1).
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from simulacra.errors import ConfigurationError
from simulacra.messages import (
    Content,
    MediaContent,
    Message,
    RawContent,
    TextContent,
    ThinkingContent,
    ToolContent,
    ToolResultContent,
    UserContent,
)
from simulacra_openai.decode import REFUSAL_MARK, THINKING_MARK
from simulacra_openai.media import media_part, placeholder
from simulacra_openai.presets import Preset
from simulacra_openai.tool_calls import CALL_EXTRAS

MAX_ID = 40
"""Longest id of a tool call that chat completions accept (OA-R5)."""
# Made once: `json.dumps` makes a new one for each call and result of each request.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def json_text(value: Any) -> str:
    """A value as compact, strict JSON. The values of history hold nothing that JSON cannot write (TL-R5)."""
    return _ENCODER.encode(value)


def wire_id(call_id: str, occurrence: int = 0) -> str:
    """The id to send: the same one where it fits, else one made of it, always the same (OA-R5).

    Args:
        call_id: The id of the call.
        occurrence: How many earlier calls of its reply have this id.
    """
    if occurrence == 0 and 0 < len(call_id) <= MAX_ID:
        return call_id

    digest = hashlib.sha256(f"{occurrence}:{call_id}".encode("utf-8", "surrogatepass")).hexdigest()

    return f"call_{digest[:32]}"


class HistoryEncoder:
    """Encodes the messages of one request.

    Args:
        preset: What the service takes back.
        raw_kinds: Kinds of raw parts it understands.
        media_types: Media types the model takes; `None` when unknown.
    """

    def __init__(self, preset: Preset, raw_kinds: frozenset[str], media_types: frozenset[str] | None) -> None:
        self._preset = preset
        self._raw_kinds = raw_kinds
        self._media_types = media_types
        self._unanswered: list[tuple[int, str, str]] = []

    def encode(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """The messages to send.

        Raises:
            ConfigurationError: The prompt holds media that this model cannot take.
        """
        self._check_prompt(messages)
        encoded: list[dict[str, Any]] = []
        role = ""
        blocks: list[Content] = []

        for message in messages:
            sent = self._sendable(message)

            if not sent:
                continue

            if message.role != role:
                self._finish(encoded, role, blocks)
                role, blocks = message.role, []

            blocks.extend(sent)

        self._finish(encoded, role, blocks)

        return encoded

    def _check_prompt(self, messages: Sequence[Message]) -> None:
        for block in messages[-1].content if messages else ():
            if isinstance(block, MediaContent) and isinstance(reason := media_part(block, self._media_types), str):
                raise ConfigurationError(f"the prompt's {block.kind} cannot be sent: {reason}")

    def _sendable(self, message: Message) -> Sequence[Content]:
        """The blocks of a message that go out; none when they would not make a message."""
        blocks = message.content

        if len(blocks) == 1 and type(blocks[0]) is TextContent:
            return () if _is_blank(blocks[0].text) else blocks

        sent = [block for block in blocks if self._is_sent(block)]

        if message.role == "user":
            return sent

        sent = [block for block in sent if not isinstance(block, MediaContent)]

        return sent if any(_speaks(block) for block in sent) else ()

    def _is_sent(self, block: Content) -> bool:
        match block:
            case TextContent():
                return not _is_blank(block.text)
            case ThinkingContent():
                field = self._preset.replayed_thinking
                return field is not None and (block.extended or {}).get(THINKING_MARK) == field
            case RawContent():
                return block.model_kind in self._raw_kinds and _raw_object(block) is not None
            case MediaContent() | ToolContent() | ToolResultContent():
                return True
            case _:
                return False

    def _finish(self, encoded: list[dict[str, Any]], role: str, blocks: list[Content]) -> None:
        if len(blocks) == 1 and type(blocks[0]) is TextContent and not blocks[0].extended:
            encoded.append({"role": role, "content": blocks[0].text})
        elif role == "user":
            encoded.extend(self._user(blocks))
        elif role == "assistant":
            encoded.append(self._assistant(blocks))

    def _user(self, blocks: Iterable[Any]) -> list[dict[str, Any]]:
        """Tool messages first, in the order of the calls, then everything else as one user message (OAI-4, MU-R2)."""
        results: list[tuple[int, str, ToolResultContent]] = []
        own: list[UserContent] = []

        for block in blocks:
            if isinstance(block, ToolResultContent):
                results.append((*self._answered(block.tool_request_id), block))
            else:
                own.append(block)

        results.sort(key=lambda entry: entry[0])
        messages = [
            {"role": "tool", "tool_call_id": call_id, "content": _result_text(result)} for _, call_id, result in results
        ]
        media = [block for _, _, result in results for block in result.content if isinstance(block, MediaContent)]
        parts = [self._part(block) for block in [*media, *own]]

        if len(parts) == 1 and parts[0].get("type") == "text":
            return [*messages, {"role": "user", "content": parts[0]["text"]}]

        return [*messages, {"role": "user", "content": parts}] if parts else messages

    def _answered(self, call_id: str) -> tuple[int, str]:
        """Place and wire id of the call that a result answers; equal ids are answered in the order of their calls."""
        for call in self._unanswered:
            place, original, sent = call

            if original == call_id:
                self._unanswered.remove(call)
                return place, sent

        return sys.maxsize, wire_id(call_id)

    def _part(self, block: Any) -> dict[str, Any]:
        match block:
            case MediaContent():
                part = media_part(block, self._media_types)
                return placeholder(block, part) if isinstance(part, str) else part
            case RawContent():
                return _raw_object(block) or {}
            case _:
                return {"type": "text", "text": block.text}

    def _assistant(self, blocks: Iterable[Any]) -> dict[str, Any]:
        parts: list[dict[str, Any]] = []
        fields: dict[str, Any] = {}
        refusals: list[str] = []
        thoughts: list[str] = []
        calls: list[ToolContent] = []

        for block in blocks:
            match block:
                case TextContent() if (block.extended or {}).get(REFUSAL_MARK):
                    refusals.append(block.text)
                case TextContent():
                    parts.append({"type": "text", "text": block.text})
                case ThinkingContent():
                    thoughts.append(block.thought)
                case ToolContent():
                    calls.append(block)
                case RawContent():
                    raw = _raw_object(block) or {}
                    parts.append(raw) if "type" in raw else fields.update(raw)

        message: dict[str, Any] = {"role": "assistant", "content": _content(parts)}

        if refusals:
            message["refusal"] = "".join(refusals)

        if thoughts and self._preset.replayed_thinking:
            message[self._preset.replayed_thinking] = "".join(thoughts)

        if calls:
            message["tool_calls"] = self._tool_calls(calls)

        return fields | message

    def _tool_calls(self, calls: Iterable[ToolContent]) -> list[dict[str, Any]]:
        seen: dict[str, int] = {}
        self._unanswered = []
        encoded: list[dict[str, Any]] = []

        for call in calls:
            occurrence = seen.get(call.tool_request_id, 0)
            seen[call.tool_request_id] = occurrence + 1
            sent = wire_id(call.tool_request_id, occurrence)
            self._unanswered.append((len(encoded), call.tool_request_id, sent))
            function = {"name": call.tool, "arguments": json_text(call.params)}
            extras = (call.extended or {}).get(CALL_EXTRAS) or {}
            encoded.append({**extras, "id": sent, "type": "function", "function": function})

        return encoded


def _content(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]] | None:
    if len(parts) == 1 and parts[0].get("type") == "text":
        return str(parts[0]["text"])

    return parts or None


def _result_text(result: ToolResultContent) -> str:
    texts = [block.text for block in result.content if isinstance(block, TextContent) and not _is_blank(block.text)]

    return "\n".join([result.result.model_dump_json(), *texts])


def _speaks(block: Content) -> bool:
    """Whether a block of the assistant is enough for a message: reasoning and mere fields are not."""
    if isinstance(block, RawContent):
        return "type" in (_raw_object(block) or {})

    return isinstance(block, TextContent | ToolContent)


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


def _raw_object(block: RawContent) -> dict[str, Any] | None:
    """The vendor's part; `None` when the text cannot be read as one (W-OAI-3)."""
    try:
        value = json.loads(block.data)
    except (ValueError, RecursionError):
        return None

    return value if isinstance(value, dict) else None
