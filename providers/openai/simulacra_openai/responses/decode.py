"""Events of a response stream as stream events. Pure.

An item is a block of its own, a message has one for each of its parts. `response.completed` is authoritative: what it
says of reasoning goes before what the item's own events said, and items that never got an end get it there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

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
    ThinkingStart,
    ToolArgumentsDelta,
    ToolCallStart,
    UsageUpdate,
)
from simulacra_openai.responses.marks import ITEM, KIND, PART

_TEXTS = frozenset({"response.output_text.delta", "response.refusal.delta"})
_THOUGHTS = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_INCOMPLETE: Mapping[str, StopReason] = {"max_output_tokens": "max_tokens", "content_filter": "content_filter"}


class ResponsesDecoder:
    """Decodes the events of one response."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self._headers = dict(headers or {})
        self._indexes: dict[tuple[int, int], int] = {}
        self._items: dict[int, dict[str, Any]] = {}
        self._sections: dict[int, tuple[str, Any]] = {}
        self._written: dict[int, list[str]] = {}
        self._refused = False
        self._response: dict[str, Any] | None = None
        self._begun = False

    @property
    def is_closed(self) -> bool:
        """Whether the closing event came."""
        return self._response is not None

    def response(self) -> dict[str, Any]:
        """The whole response, as the closing event tells it."""
        return self._response or {}

    def decode(self, event: dict[str, Any]) -> list[StreamEvent]:
        """The stream events of one event of the vendor's.

        Raises:
            ProviderError: The event reports an error.
            ProtocolError: The event is not what the wire format promises.
        """
        try:
            kind = event.get("type")

            if kind in _TEXTS:
                return self._text(event)

            return list(self._decode_any(kind, event))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"an event is not what the Responses API sends: {json.dumps(event)[:500]}") from error

    def end(self) -> list[StreamEvent]:
        """The closing events.

        Raises:
            ProtocolError: The reply never began.
            StreamInterruptedError: The stream ended without its closing event.
        """
        if self._response is None:
            if not self._begun:
                content_type = self._headers.get("content-type", "no content type")
                raise ProtocolError(f"no data: the answer ({content_type}) holds no response")

            raise StreamInterruptedError("the stream ended without its closing event")

        return [self._stop(self._response)]

    def whole(self, response: dict[str, Any]) -> list[StreamEvent]:
        """The events of a response that was not streamed.

        Raises:
            ProviderError: It reports an error.
            ProtocolError: It is no response.
        """
        if not isinstance(response.get("output"), list):
            self._raise_reported(response.get("error") or response)

        events = self.decode({"type": "response.created", "response": response})
        kind = f"response.{response.get('status') or 'completed'}"

        return events + self.decode({"type": kind if kind in ENDS else "response.completed", "response": response})

    def _text(self, event: dict[str, Any]) -> list[StreamEvent]:
        place = (event["output_index"], event.get("content_index") or 0)
        index = self._indexes.get(place)

        if index is None:
            index = self._index(*place)

        if event["type"] == "response.refusal.delta":
            self._refused = True

        self._written.setdefault(index, []).append(event["delta"])

        return [TextDelta(index, event["delta"])]

    def _decode_any(self, kind: Any, event: dict[str, Any]) -> Iterator[StreamEvent]:
        if event.get("error") and kind not in ENDS:
            self._raise_reported(event["error"])

        match kind:
            case "response.created" | "response.in_progress" | "response.queued":
                yield from self._begin(event["response"])
            case "response.output_item.added":
                yield from self._added(event["output_index"], event["item"])
            case "response.function_call_arguments.delta":
                index = self._index(event["output_index"])
                self._written.setdefault(index, []).append(event["delta"])
                yield ToolArgumentsDelta(index, event["delta"])
            case "response.output_item.done":
                yield from self._done(event["output_index"], event["item"])
            case "error":
                self._raise_reported(event)
            case _ if kind in _THOUGHTS:
                yield from self._thought(event)
            case _ if kind in ENDS:
                yield from self._end(kind, event["response"])

    def _begin(self, response: dict[str, Any]) -> Iterator[StreamEvent]:
        if not self._begun:
            self._begun = True
            yield MessageStart(response.get("id"), response.get("model"))

    def _added(self, place: int, item: dict[str, Any]) -> Iterator[StreamEvent]:
        self._items.setdefault(place, {})

        match item.get("type"):
            case "reasoning":
                yield ThinkingStart(self._index(place))
            case "function_call":
                yield ToolCallStart(self._index(place), item["call_id"], item["name"])

    def _thought(self, event: dict[str, Any]) -> Iterator[StreamEvent]:
        place = event["output_index"]
        section = (event["type"], event.get("summary_index", event.get("content_index")))

        if (place, 0) not in self._indexes:
            self._items.setdefault(place, {})
            yield ThinkingStart(self._index(place))

        index = self._index(place)
        parted = place in self._sections and self._sections[place] != section
        self._sections[place] = section
        self._written.setdefault(index, []).append(event["delta"])
        yield ThinkingDelta(index, f"\n\n{event['delta']}" if parted else event["delta"])

    def _done(self, place: int, item: dict[str, Any]) -> Iterator[StreamEvent]:
        """An item's own end. Reasoning waits for the closing event, which may know better."""
        if item.get("type") == "reasoning":
            return

        if not self._items.get(place):
            self._items[place] = item
            yield from self._finish(place, item)

    def _finish(self, place: int, item: dict[str, Any]) -> Iterator[StreamEvent]:
        match item.get("type"):
            case "message":
                yield from self._message(place, item)
            case "reasoning":
                yield from self._reasoning(place, item)
            case "function_call":
                yield from self._call(place, item)
            case _:
                yield RawBlock(self._index(place), json.dumps(item, ensure_ascii=False))

    def _message(self, place: int, item: dict[str, Any]) -> Iterator[StreamEvent]:
        told = {key: value for key, value in item.items() if key != "content"}

        for at, part in enumerate(item.get("content") or ()):
            index = self._index(place, at)
            field = "refusal" if part.get("type") == "refusal" else "text"
            self._refused |= field == "refusal"

            if index not in self._written and part.get(field):
                yield TextDelta(index, part[field])

            kept = {key: value for key, value in part.items() if key != field}
            yield ContentExtended(index, {KIND: {ITEM: told, PART: kept}})
            yield ContentStop(index)

    def _reasoning(self, place: int, item: dict[str, Any]) -> Iterator[StreamEvent]:
        if (place, 0) not in self._indexes:
            yield ThinkingStart(self._index(place))

        index = self._index(place)

        if index not in self._written:
            said = [*(item.get("summary") or ()), *(item.get("content") or ())]
            yield ThinkingDelta(index, "\n\n".join(part.get("text", "") for part in said))

        yield ContentExtended(index, {KIND: {ITEM: item}})
        yield ContentStop(index)

    def _call(self, place: int, item: dict[str, Any]) -> Iterator[StreamEvent]:
        if (place, 0) not in self._indexes:
            yield ToolCallStart(self._index(place), item["call_id"], item["name"])

        index = self._index(place)

        if index not in self._written and item.get("arguments"):
            yield ToolArgumentsDelta(index, item["arguments"])

        yield ContentExtended(index, {KIND: {ITEM: item}})
        yield ContentStop(index)

    def _end(self, kind: str, response: dict[str, Any]) -> Iterator[StreamEvent]:
        yield from self._begin(response)

        if kind == "response.failed" or response.get("error"):
            self._raise_reported(response.get("error") or {"message": "the response failed"})

        for place, item in enumerate(response.get("output") or ()):
            if not self._items.get(place):
                self._items[place] = item
                yield from self._finish(place, item)

        if response.get("usage"):
            yield UsageUpdate(read_usage(response["usage"]))

        self._response = response

    def _stop(self, response: dict[str, Any]) -> MessageStop:
        details = response.get("incomplete_details") or {}

        if response.get("status") == "cancelled":
            return MessageStop("cancelled")

        if response.get("status") == "incomplete":
            reason = str(details.get("reason"))
            known = _INCOMPLETE.get(reason)
            return MessageStop("other", reason) if known is None else MessageStop(known)

        if self._refused:
            return MessageStop("refusal")

        calls = any(item.get("type") == "function_call" for item in self._items.values())

        return MessageStop("tool_use" if calls else "end_turn")

    def _index(self, place: int, part: int = 0) -> int:
        """The block of an item, or of a message's part."""
        return self._indexes.setdefault((place, part), len(self._indexes))

    def _raise_reported(self, error: Any) -> NoReturn:
        told: dict[str, Any] = error if isinstance(error, dict) else {"message": str(error)}
        inner = told.get("error")

        if isinstance(inner, dict):
            told = inner

        raise error_from_status(None, self._headers, {"error": told})


def read_usage(usage: Mapping[str, Any]) -> Usage:
    """What the API counts: cached tokens are part of the input, reasoning is part of the output ."""
    read = usage.get("input_tokens_details") or {}
    written = usage.get("output_tokens_details") or {}

    return Usage(
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        cache_read_input_tokens=read.get("cached_tokens"),
        reasoning_tokens=written.get("reasoning_tokens"),
    )
