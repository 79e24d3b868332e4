"""Chunks of a chat completion in, stream events out. Pure: no network, no SDK.

Only the first choice of a completion counts. A text delta, by far the most frequent chunk, takes a short path.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from simulacra.errors import ProtocolError, StreamInterruptedError
from simulacra.http_errors import error_from_status
from simulacra.messages import StopReason, Usage
from simulacra.streaming import (
    ContentExtended,
    ContentStop,
    MessageStart,
    MessageStop,
    RawBlock,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallStart,
    UsageUpdate,
)
from simulacra_openai.media_reading import MediaReader
from simulacra_openai.presets import OPENAI, Preset
from simulacra_openai.tool_calls import ToolCalls

REFUSAL_MARK = "openai_refusal"
THINKING_MARK = "openai_thinking"
TRANSCRIPT_MARK = "openai_transcript"
"""Under this key of `extended` a text says that it is what a sound of the reply says."""
_STOP_REASONS: dict[str, StopReason] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "content_filter",
}
_NOTHING: tuple[Any, ...] = (None, "", [], {})
_KNOWN_KEYS = frozenset({"role", "content", "refusal", "tool_calls", "function_call", "audio", "images"})


class ChatDecoder:
    """Reads one reply.

    Args:
        preset: What the service calls its reasoning.
        headers: Headers of the response, for the errors that the stream reports.
        audio_format: The format of sound that was asked for.
    """

    def __init__(
        self, preset: Preset = OPENAI, headers: Mapping[str, str] | None = None, *, audio_format: str = "pcm16"
    ) -> None:
        self._preset = preset
        self._headers = headers or {}
        self._known = _KNOWN_KEYS.union(preset.thinking_fields)
        self._head: dict[str, Any] | None = None
        self._choice: Any = None
        self._next_index = 0
        self._open: tuple[str, int] | None = None
        self._calls = ToolCalls(self._new_index)
        self._media = MediaReader(self._new_index, audio_format)
        self._raw: dict[str, list[Any]] = {}
        self._extras: dict[str, Any] = {}
        self._said: dict[str, list[str]] = {}
        self._usage: Any = None
        self._finish: str | None = None

    @property
    def is_closed(self) -> bool:
        """Whether the finish reason came; usage may still follow."""
        return self._finish is not None

    def decode(self, chunk: dict[str, Any]) -> list[StreamEvent]:
        """The events of one chunk.

        Raises:
            ProviderError: The chunk reports an error.
            ProtocolError: The chunk is not what the wire format promises.
        """
        try:
            event = self._decode_usual(chunk)

            if event is not None:
                return [event]

            return self._decode_any(chunk)
        except (AttributeError, KeyError, TypeError) as error:
            raise ProtocolError(f"a chunk is not what chat completions send: {json.dumps(chunk)[:500]}") from error

    def end(self, *, done: bool) -> list[StreamEvent]:
        """The closing events.

        Args:
            done: Whether `[DONE]` came.

        Raises:
            ProtocolError: The reply never began.
            StreamInterruptedError: The stream ended without its closing event.
        """
        if self._head is None:
            content_type = self._headers.get("content-type", "no content type")
            raise ProtocolError(f"no data: the answer ({content_type}) holds no choice")

        if self._finish is None and not done:
            raise StreamInterruptedError("the stream ended without a finish reason and without [DONE]")

        events = self._close_blocks()

        if "refusal" in self._said:
            return [*events, MessageStop("refusal")]

        reason = _STOP_REASONS.get(self._finish or "")

        if reason is None:
            return [*events, MessageStop("other", self._finish or "the stream was closed without a finish reason")]

        return [*events, MessageStop(reason)]

    def completion(self) -> dict[str, Any]:
        """The whole reply as a chat completion that was not streamed would show it."""
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message.update({field: "".join(pieces) for field, pieces in self._said.items()})
        message.update(self._extras)
        calls = self._calls.as_message()

        if self._media.audio:
            message["audio"] = {**self._media.audio, "transcript": message.pop("transcript", "")}

        if calls:
            message["tool_calls"] = calls

        told = {name: self._headers[name] for name in self._preset.response_headers if name in self._headers}

        return {
            **(self._head or {}),
            **({"headers": told} if told else {}),
            "object": "chat.completion",
            "choices": [{"index": self._choice or 0, "message": message, "finish_reason": self._finish}],
            "usage": self._usage,
        }

    def _decode_usual(self, chunk: dict[str, Any]) -> StreamEvent | None:
        """The event of a chunk that is one more piece of text, or of a call's arguments; `None` for any other."""
        delta = _sole_delta(chunk, self._choice)

        if delta is None:
            return None

        if (fragments := delta.get("tool_calls")) and len(fragments) == 1:
            return self._calls.go_on(fragments[0])

        text = delta.get("content")

        if not text or not isinstance(text, str) or self._open is None or self._open[0] != "text":
            return None

        self._said["content"].append(text)

        return TextDelta(self._open[1], text)

    def _decode_any(self, chunk: dict[str, Any]) -> list[StreamEvent]:
        groq = chunk.get("x_groq") or {}
        self._raise_reported(chunk, chunk.get("error") or groq.get("error"))
        events: list[StreamEvent] = []
        usage = chunk.get("usage") or groq.get("usage")

        for choice in chunk.get("choices") or ():
            if self._head is None:
                self._choice = choice.get("index")
                self._head = {key: chunk[key] for key in ("id", "created", "model") if chunk.get(key)}
                events.append(MessageStart(self._head.get("id"), self._head.get("model")))

            if choice.get("index") in (None, self._choice):
                events += self._decode_choice(choice)
                usage = usage or choice.get("usage")

        if usage:
            self._usage = usage
            events.append(UsageUpdate(read_usage(usage)))

        return events

    def _raise_reported(self, chunk: dict[str, Any], error: Any) -> None:
        """Raise what the service reports in place of, or beside, a piece of its reply (RT-01, RT-09)."""
        if not error and chunk.get("object") == "error":
            error = chunk

        if error:
            raise error_from_status(None, self._headers, {"error": error})

    def _decode_choice(self, choice: dict[str, Any]) -> list[StreamEvent]:
        whole = choice.get("delta") is None and choice.get("message") is not None
        delta = (choice["message"] if whole else choice.get("delta")) or {}
        events: list[StreamEvent] = []
        thought = next((delta[field] for field in self._preset.thinking_fields if delta.get(field)), None)

        if isinstance(thought, str):
            events += self._piece("thinking", thought)

        content = delta.get("content")

        for part in content if isinstance(content, list) else (content,):
            events += self._part(part)

        if delta.get("refusal"):
            events += self._piece("refusal", delta["refusal"])

        for fragment in _fragments(delta, whole=whole):
            pieces = self._calls.add(fragment)
            begins = bool(pieces) and isinstance(pieces[0], ToolCallStart)
            events += [*self._close_open(), *pieces] if begins else pieces

        if delta.get("audio"):
            events += self._audio(delta["audio"])

        if delta.get("images"):
            pictures, others = self._media.read_images(delta["images"])
            events += [*self._close_open(), *pictures]

            if others:
                self._raw.setdefault("images", []).append(others)

        for key, value in delta.items():
            if key not in self._known and value not in _NOTHING:
                self._raw.setdefault(key, []).append(value)

        if choice.get("finish_reason"):
            self._finish = str(choice["finish_reason"])
            events += self._close_blocks()

        return events

    def _part(self, part: Any) -> list[StreamEvent]:
        """A piece of content: text, or what services that write content as a list put there."""
        if not part:
            return []

        if isinstance(part, str):
            return self._piece("text", part)

        if part.get("type") == "text":
            return self._part(part.get("text"))

        if part.get("type") == "thinking":
            thoughts = part.get("thinking")
            texts = [thoughts] if isinstance(thoughts, str) else [item.get("text") for item in thoughts or ()]
            return [event for text in texts if text for event in self._piece("thinking", text)]

        return [*self._close_open(), RawBlock(self._new_index(), json.dumps(part, ensure_ascii=False))]

    def _audio(self, piece: dict[str, Any]) -> list[StreamEvent]:
        """A piece of sound and of what it says: the transcript is a text of its own beside it."""
        transcript = piece.get("transcript")
        said = self._piece("transcript", transcript) if transcript else []

        return [*said, *self._media.read_audio(piece)]

    def _piece(self, kind: str, text: str) -> list[StreamEvent]:
        events: list[StreamEvent] = []

        if self._open is None or self._open[0] != kind:
            events = self._close_open()
            self._open = (kind, self._new_index())

            if kind == "refusal":
                events.append(ContentExtended(self._open[1], {self._preset.refusal_mark: True}))
            elif kind == "transcript":
                events.append(ContentExtended(self._open[1], {TRANSCRIPT_MARK: True}))

        index = self._open[1]
        field = {"text": "content", "thinking": "reasoning_content"}.get(kind, kind)
        self._said.setdefault(field, []).append(text)
        events.append(ThinkingDelta(index, text) if kind == "thinking" else TextDelta(index, text))

        return events

    def _close_open(self) -> list[StreamEvent]:
        """Close the text or thinking that another block follows."""
        if self._open is None:
            return []

        kind, index = self._open
        self._open = None
        mark = self._preset.replayed_thinking if kind == "thinking" else None
        marks: list[StreamEvent] = [ContentExtended(index, {THINKING_MARK: mark})] if mark else []

        return [*marks, ContentStop(index)]

    def _close_blocks(self) -> list[StreamEvent]:
        """Close what is open, and say what was gathered under keys the engine has no word for."""
        events = [*self._close_open(), *self._media.close(), *self._calls.close()]

        for key, pieces in self._raw.items():
            self._extras[key] = _joined(pieces)
            block = json.dumps({key: self._extras[key]}, ensure_ascii=False)
            events.append(RawBlock(self._new_index(), block))

        self._raw.clear()

        return events

    def _new_index(self) -> int:
        self._next_index += 1

        return self._next_index - 1


def read_usage(usage: dict[str, Any]) -> Usage:
    """Chat completion usage in the engine's meaning; what is not reported stays `None`."""
    read = usage.get("prompt_tokens_details") or {}
    written = usage.get("completion_tokens_details") or {}

    return Usage(
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
        cache_read_input_tokens=_count(read.get("cached_tokens")),
        cache_creation_input_tokens=_count(read.get("cache_write_tokens")),
        reasoning_tokens=_count(written.get("reasoning_tokens")),
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _sole_delta(chunk: dict[str, Any], index: Any) -> dict[str, Any] | None:
    """The delta of a chunk that brings nothing else, when it has one field."""
    choices = chunk.get("choices")

    if not choices or len(choices) != 1 or chunk.get("usage") or chunk.get("error"):
        return None

    choice = choices[0]
    delta: dict[str, Any] | None = choice.get("delta")

    if delta is None or len(delta) != 1 or choice.get("index") != index or choice.get("finish_reason"):
        return None

    return delta


def _fragments(delta: dict[str, Any], *, whole: bool) -> list[dict[str, Any]]:
    """The pieces of tool calls in a delta; each entry of a whole message is a call of its own."""
    fragments = list(delta.get("tool_calls") or ())

    if delta.get("function_call"):  # the form before tools, still spoken by old servers
        fragments.append({"index": 0, "function": delta["function_call"]})

    return [{**fragment, "index": place} for place, fragment in enumerate(fragments)] if whole else fragments


def _joined(pieces: list[Any]) -> Any:
    """Pieces of one value: texts and lists are joined, members of objects too, of anything else the last one holds."""
    if not pieces:
        return None

    if all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces)

    if all(isinstance(piece, list) for piece in pieces):
        return [item for piece in pieces for item in piece]

    if all(isinstance(piece, dict) for piece in pieces):
        keys = {key: None for piece in pieces for key in piece}
        return {key: _joined([piece[key] for piece in pieces if piece.get(key) is not None]) for key in keys}

    return pieces[-1]
