"""Chunks of a Gemini stream as stream events. Pure.

Texts join with texts and thoughts with thoughts until a part of another kind, or one that carries a signature, comes:
a signed part is a block of its own, so that its signature stays where it was (GOO-5).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

from simulacra.clock import clock
from simulacra.errors import ContentFilteredError, ProtocolError, StreamInterruptedError
from simulacra.messages import StopReason, Usage
from simulacra.streaming import (
    ContentExtended,
    ContentStop,
    MediaDelta,
    MessageStart,
    MessageStop,
    RawBlock,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ThinkingStart,
    ToolArgumentsDelta,
    ToolCallStart,
    UsageUpdate,
)
from simulacra_google.errors import reported_error
from simulacra_google.marks import CALL, KIND, MADE_ID, SIGNATURE, SIGNED_FOR, THOUGHT

_STOPS: Mapping[str, StopReason] = {
    "MAX_TOKENS": "max_tokens",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "ESCALATION": "content_filter",
    "CONTINUATION": "max_tokens",
}
_METADATA = ("groundingMetadata", "citationMetadata", "urlContextMetadata")
_OF_TEXT = frozenset({"text", "thought", "thoughtSignature"})
_OF_MEDIA = frozenset({"inlineData", "thoughtSignature"})
_PLAIN_DATA = frozenset({"mimeType", "data"})


class GeminiDecoder:
    """Decodes the chunks of one reply.

    Args:
        headers: Of the response.
        asked: The model that was asked.
    """

    def __init__(self, headers: Mapping[str, str] | None = None, *, asked: str = "") -> None:
        self._asked = {SIGNED_FOR: asked} if asked else {}
        self._headers = dict(headers or {})
        self._next_index = 0
        self._open: tuple[str, int] | None = None
        self._code: dict[str, Any] | None = None
        self._metadata: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocked: dict[str, Any] | None = None
        self._finish: str | None = None
        self._finish_message: str | None = None
        self._begun = False
        self._has_candidate = False
        self._has_called = False
        self._said: list[dict[str, Any]] = []
        self._head: dict[str, Any] = {}

    @property
    def is_closed(self) -> bool:
        """Whether the finish reason came; content and usage may still follow (GM-R3)."""
        return self._finish is not None

    def decode(self, chunk: dict[str, Any]) -> list[StreamEvent]:
        """The stream events of one chunk.

        Raises:
            ProviderError: The chunk reports an error.
            ProtocolError: The chunk is not what the wire format promises.
        """
        try:
            return list(self._decode(chunk))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"a chunk is not what Gemini sends: {json.dumps(chunk)[:500]}") from error

    def end(self) -> list[StreamEvent]:
        """The closing events.

        Raises:
            ContentFilteredError: The prompt was blocked.
            ProtocolError: The reply never began, or its call was malformed.
            StreamInterruptedError: The stream ended without a finish reason.
        """
        if self._blocked is not None and not self._has_candidate:
            reason = self._blocked.get("blockReason")
            told = self._blocked.get("blockReasonMessage") or json.dumps(self._blocked)
            raise ContentFilteredError(f"the prompt was blocked ({reason}): {told}")

        if not self._has_candidate:
            content_type = self._headers.get("content-type", "no content type")
            raise ProtocolError(f"no data: the answer ({content_type}) holds no candidate")

        if self._finish is None:
            raise StreamInterruptedError("the stream ended without a finish reason")

        events = [*self._close()]

        if self._metadata:
            events.append(RawBlock(self._new_index(), json.dumps(self._metadata, ensure_ascii=False)))

        if self._usage:
            events.append(UsageUpdate(read_usage(self._usage)))

        return [*events, self._stop()]

    def reply(self) -> dict[str, Any]:
        """The whole reply as one that was not streamed would show it."""
        candidate = {"content": {"role": "model", "parts": self._said}, "finishReason": self._finish, **self._metadata}

        return {**self._head, "candidates": [candidate], "usageMetadata": self._usage}

    def _decode(self, chunk: dict[str, Any]) -> Iterator[StreamEvent]:
        if chunk.get("error"):
            raise reported_error(chunk, self._headers)

        self._blocked = chunk.get("promptFeedback") if _is_blocked(chunk) else self._blocked
        candidates = chunk.get("candidates") or ()
        candidate = next((one for one in candidates if not one.get("index")), None)  # only the first is asked for

        if chunk.get("usageMetadata"):
            self._usage = chunk["usageMetadata"]

        if candidate is None:
            return

        self._has_candidate = True

        if not self._begun:
            self._begun = True
            self._head = {key: chunk[key] for key in ("responseId", "modelVersion") if chunk.get(key)}
            yield MessageStart(chunk.get("responseId"), chunk.get("modelVersion"))

        for part in (candidate.get("content") or {}).get("parts") or ():
            self._said.append(part)
            yield from self._part(part)

        self._metadata |= {key: candidate[key] for key in _METADATA if candidate.get(key)}
        self._finish_message = candidate.get("finishMessage") or self._finish_message
        self._finish = candidate.get("finishReason") or self._finish

        if self._finish == "MALFORMED_FUNCTION_CALL":
            raise ProtocolError(f"{self._finish}: {self._finish_message or 'the model wrote a call that is none'}")

    def _part(self, part: dict[str, Any]) -> Iterator[StreamEvent]:
        if "text" in part:
            yield from self._text(part)
        elif "functionCall" in part:
            yield from self._close()
            yield from self._call(part)
        elif "inlineData" in part and part.keys() <= _OF_MEDIA and part["inlineData"].keys() <= _PLAIN_DATA:
            yield from self._media(part)
        elif "executableCode" in part and "thoughtSignature" not in part:
            yield from self._executable(part)
        else:
            yield from self._close()
            yield RawBlock(self._new_index(), json.dumps(part, ensure_ascii=False))

    def _text(self, part: dict[str, Any]) -> Iterator[StreamEvent]:
        kind = "thinking" if part.get("thought") else "text"
        signature = part.get("thoughtSignature")
        further = {key: value for key, value in part.items() if key not in _OF_TEXT}
        stands_alone = bool(signature or further)

        if not isinstance(part["text"], str):
            raise TypeError("a text that is none")

        if not part["text"] and not stands_alone:
            return

        if self._open is None or self._open[0] != kind or stands_alone:
            yield from self._close()
            self._open = (kind, self._new_index())

            if kind == "thinking":
                yield ThinkingStart(self._open[1])
                further = {THOUGHT: True, **further}

            if further:
                yield ContentExtended(self._open[1], {KIND: further})

        _, index = self._open

        if part["text"]:
            yield ThinkingDelta(index, part["text"]) if kind == "thinking" else TextDelta(index, part["text"])

        if signature:
            yield ContentExtended(index, {SIGNATURE: signature, **self._asked})

        if stands_alone:
            yield from self._close()

    def _call(self, part: dict[str, Any]) -> Iterator[StreamEvent]:
        called = part["functionCall"]
        index, own_id = self._new_index(), called.get("id")
        fields = {key: value for key, value in called.items() if key not in ("id", "name", "args")}
        further = {key: value for key, value in part.items() if key not in ("functionCall", "thoughtSignature")}
        told = {**({CALL: fields} if fields else {}), **further}
        signature = part.get("thoughtSignature")
        self._has_called = True
        yield ToolCallStart(index, own_id or MADE_ID + clock().new_id(), called["name"])
        yield ToolArgumentsDelta(index, json.dumps(called.get("args") or {}, ensure_ascii=False))

        if told or signature:
            yield ContentExtended(
                index,
                {**({SIGNATURE: signature, **self._asked} if signature else {}), **({KIND: told} if told else {})},
            )

        yield ContentStop(index)

    def _media(self, part: dict[str, Any]) -> Iterator[StreamEvent]:
        data = part["inlineData"]
        kind = f"media {data['mimeType']}"
        signature = part.get("thoughtSignature")

        if self._open is None or self._open[0] != kind or signature:
            yield from self._close()
            self._open = (kind, self._new_index())

        yield MediaDelta(self._open[1], data["mimeType"], base64.b64decode(data["data"]))

        if signature:
            yield ContentExtended(self._open[1], {SIGNATURE: signature, **self._asked})
            yield from self._close()

    def _executable(self, part: dict[str, Any]) -> Iterator[StreamEvent]:
        """Code that comes in pieces is one part (GOO-5); it is told when something else comes."""
        piece = part["executableCode"]

        if self._code is not None and self._code["executableCode"].get("id") == piece.get("id"):
            joined = self._code["executableCode"].get("code", "") + piece.get("code", "")
            self._code = {**self._code, "executableCode": {**piece, "code": joined}}
            return

        yield from self._close()
        self._code = part

    def _close(self) -> Iterator[StreamEvent]:
        if self._open is not None:
            _, index = self._open
            self._open = None
            yield ContentStop(index)

        if self._code is not None:
            code, self._code = self._code, None
            yield RawBlock(self._new_index(), json.dumps(code, ensure_ascii=False))

    def _stop(self) -> MessageStop:
        if self._finish == "STOP":
            return MessageStop("tool_use" if self._has_called else "end_turn", self._finish_message)

        return MessageStop(_STOPS.get(self._finish or "", "other"), self._finish_message or self._finish)

    def _new_index(self) -> int:
        self._next_index += 1

        return self._next_index - 1


def read_usage(usage: Mapping[str, Any]) -> Usage:
    """What the API counts: thoughts are part of the output, what tools put into the prompt is part of the input."""
    read, tools = usage.get("promptTokenCount"), usage.get("toolUsePromptTokenCount")
    written, thoughts = usage.get("candidatesTokenCount"), usage.get("thoughtsTokenCount")

    return Usage(
        input_tokens=None if read is None else read + (tools or 0),
        output_tokens=None if written is None and thoughts is None else (written or 0) + (thoughts or 0),
        cache_read_input_tokens=usage.get("cachedContentTokenCount"),
        reasoning_tokens=thoughts,
    )


def _is_blocked(chunk: Mapping[str, Any]) -> bool:
    return bool((chunk.get("promptFeedback") or {}).get("blockReason"))
