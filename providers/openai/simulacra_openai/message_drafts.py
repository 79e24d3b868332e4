"""Messages as chat completions write them: the naive form, one part for one part. Pure; nothing stored is changed.

Nothing is left out, moved or renamed here: what the wire has no word for is written as a `foreign` part, and what a
service would refuse is put right by its rules (`simulacra_openai.rules`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from simulacra.messages import (
    Content,
    MediaContent,
    Message,
    RawContent,
    TextContent,
    ThinkingContent,
    ToolContent,
    ToolResultContent,
)
from simulacra.wire import EncodedOnce, placeholder_text, strict_json
from simulacra_openai.decode import REFUSAL_MARK, THINKING_MARK
from simulacra_openai.media import media_part
from simulacra_openai.presets import Preset
from simulacra_openai.tool_calls import CALL_EXTRAS

FOREIGN = "foreign"
"""Type of a part that stands for what the wire has no word for; no service takes it."""
MAX_ID = 40
"""Longest id of a tool call that chat completions accept (OA-R5)."""


def json_text(value: Any) -> str:
    """A value as compact, strict JSON. The values of history hold nothing that JSON cannot write (TL-R5)."""
    return strict_json(value).decode()


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


class Drafter:
    """Writes one message after the other.

    Args:
        preset: What the service takes back.
        raw_kinds: Kinds of raw parts it understands.
        media_types: Media types the model takes; `None` when unknown.
    """

    def __init__(self, preset: Preset, raw_kinds: frozenset[str], media_types: frozenset[str] | None) -> None:
        self._preset = preset
        self._raw_kinds = raw_kinds
        self._media_types = media_types
        self._refusal_marks = (preset.refusal_mark, REFUSAL_MARK)
        self.draft = EncodedOnce(self._draft)
        """The wire's messages for one of the engine's, written once: nobody may change them."""

    def _draft(self, message: Message) -> list[dict[str, Any]]:
        """The wire's messages for one of the engine's: one as a rule, and one for each result."""
        blocks = message.content

        if len(blocks) == 1 and type(blocks[0]) is TextContent and not blocks[0].extended:
            return [{"role": message.role, "content": blocks[0].text}]

        return self._user(blocks) if message.role == "user" else [self._assistant(blocks)]

    def _user(self, blocks: Iterable[Any]) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        parts: list[dict[str, Any]] = []

        for block in blocks:
            if isinstance(block, ToolResultContent):
                messages += _said(parts)
                messages.append(self._result(block))
                parts = []
            elif not (isinstance(block, TextContent) and not block.text):
                parts.append(self._part(block))

        return messages + _said(parts) or [{"role": "user", "content": []}]

    def _result(self, block: ToolResultContent) -> dict[str, Any]:
        texts = [piece.text for piece in block.content if isinstance(piece, TextContent) and piece.text.strip()]
        media = [self._part(piece) for piece in block.content if isinstance(piece, MediaContent)]
        text = "\n".join([block.result.model_dump_json(), *texts])
        content = [{"type": "text", "text": text}, *media] if media else text

        return {"role": "tool", "tool_call_id": block.tool_request_id, "content": content}

    def _assistant(self, blocks: Iterable[Any]) -> dict[str, Any]:
        parts: list[dict[str, Any]] = []
        fields: dict[str, Any] = {}
        refusals: list[str] = []
        thoughts: list[str] = []
        calls: list[dict[str, Any]] = []

        for block in blocks:
            match block:
                case TextContent() if self._is_refusal(block):
                    refusals.append(block.text)
                case TextContent(text=""):
                    continue
                case ThinkingContent() if self._is_own(block):
                    thoughts.append(block.thought)
                case ToolContent():
                    calls.append(_call(block))
                case RawContent() if (raw := self._raw_object(block)) is not None and "type" not in raw:
                    fields.update(raw)
                case _:
                    parts.append(self._part(block))

        message: dict[str, Any] = {"role": "assistant", "content": content_of(parts)}

        if refusals:
            message["refusal"] = "".join(refusals)

        if thoughts and self._preset.replayed_thinking:
            message[self._preset.replayed_thinking] = "".join(thoughts)

        if calls:
            message["tool_calls"] = calls

        return fields | message if fields else message

    def _part(self, block: Content) -> dict[str, Any]:
        match block:
            case TextContent():
                return {"type": "text", "text": block.text}
            case MediaContent():
                part = media_part(block, self._media_types)
                shown = placeholder_text(block, part) if isinstance(part, str) else ""
                return {"type": FOREIGN, "block": block.kind, "text": shown} if isinstance(part, str) else part
            case RawContent():
                raw = self._raw_object(block)
                return {"type": FOREIGN, "block": f"raw of {block.model_kind}"} if raw is None else raw
            case _:
                return {"type": FOREIGN, "block": block.type}

    def _is_refusal(self, block: TextContent) -> bool:
        return block.extended is not None and any(block.extended.get(mark) for mark in self._refusal_marks)

    def _is_own(self, block: ThinkingContent) -> bool:
        """Whether it is reasoning of this service, which takes it back (W-OAI-7)."""
        field = self._preset.replayed_thinking

        return field is not None and (block.extended or {}).get(THINKING_MARK) == field

    def _raw_object(self, block: RawContent) -> dict[str, Any] | None:
        """The vendor's part; `None` when it is another vendor's or cannot be read (MSG-2, W-OAI-3)."""
        if block.model_kind not in self._raw_kinds:
            return None

        try:
            value = json.loads(block.data)
        except (ValueError, RecursionError):
            return None

        return value if isinstance(value, dict) else None


def content_of(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]] | None:
    """Parts as content: one text is a string, nothing is `None` (OAI-4, OAI-5)."""
    if len(parts) == 1 and parts[0].keys() == {"type", "text"} and isinstance(parts[0]["text"], str):
        return parts[0]["text"]

    return parts or None


def _said(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content_of(parts)}] if parts else []


def _call(block: ToolContent) -> dict[str, Any]:
    function = {"name": block.tool, "arguments": json_text(block.params)}
    extras = (block.extended or {}).get(CALL_EXTRAS) or {}

    return {**extras, "id": block.tool_request_id, "type": "function", "function": function}
