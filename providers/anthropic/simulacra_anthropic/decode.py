"""Events of the Messages API in, stream events out. Pure: no network, no SDK.

A text delta, by far the most frequent event, takes a short path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from simulacra.errors import ProtocolError, StreamInterruptedError
from simulacra.http_errors import error_from_status
from simulacra.messages import StopReason, Usage
from simulacra.streaming import MessageStart, MessageStop, RawBlock, StreamEvent, TextDelta, UsageUpdate
from simulacra_anthropic.blocks import Block, TextBlock, open_block

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "refusal": "refusal",
    "pause_turn": "pause",
    "model_context_window_exceeded": "context_window",
}


class MessagesDecoder:
    """Reads one reply, which may be the continuation of a paused one.

    Args:
        earlier: The paused reply that this one continues: both are one message to the engine.
    """

    def __init__(self, earlier: MessagesDecoder | None = None) -> None:
        self.headers: Mapping[str, str] = {}
        """Headers of the response, for the errors that the stream reports."""
        self.is_closed = False
        """Whether the closing event came."""
        self._earlier = earlier
        self._first_label = 0 if earlier is None else earlier.next_label
        self._head: dict[str, Any] | None = None
        self._blocks: list[Block] = []
        self._open: dict[int, Block] = {}
        self._usage: dict[str, Any] = {}
        self._delta: dict[str, Any] = {}

    @property
    def is_paused(self) -> bool:
        """Whether the service stopped in the middle of its turn and wants to go on."""
        return self.is_closed and self._delta.get("stop_reason") == "pause_turn"

    @property
    def next_label(self) -> int:
        """The label of the next block."""
        return self._first_label + len(self._blocks)

    @property
    def container(self) -> dict[str, Any] | None:
        """Where the service ran code for this reply."""
        found: dict[str, Any] | None = self._delta.get("container") or (self._head or {}).get("container")

        return found if found or self._earlier is None else self._earlier.container

    @property
    def usage(self) -> Usage:
        """What this reply and the paused ones before it used."""
        own = read_usage(self._usage)

        return own if self._earlier is None else self._earlier.usage + own

    def content(self) -> list[dict[str, Any]]:
        """The blocks as the API would show them whole, those of the paused replies first."""
        earlier = [] if self._earlier is None else self._earlier.content()

        return [*earlier, *(block.whole() for block in self._blocks)]

    def decode(self, event: dict[str, Any]) -> list[StreamEvent]:
        """The events of one event of the API.

        Raises:
            ProviderError: It reports an error.
            ProtocolError: It is not what the wire format promises.
        """
        try:
            return self._decode(event)
        except (AttributeError, KeyError, TypeError) as error:
            raise ProtocolError(f"an event is not what the Messages API sends: {json.dumps(event)[:500]}") from error

    def end(self) -> list[StreamEvent]:
        """The closing events.

        Raises:
            ProtocolError: The reply never began.
            StreamInterruptedError: The stream ended without its closing event.
        """
        if self._head is None:
            content_type = self.headers.get("content-type", "no content type")
            raise ProtocolError(f"no data: the answer ({content_type}) holds no message")

        if not self.is_closed:
            raise StreamInterruptedError("the stream ended without message_stop")

        container = self.container
        kept: list[StreamEvent] = []

        if container:
            kept.append(RawBlock(self.next_label, json.dumps({"container": container})))

        return [*kept, self._message_stop()]

    def message(self) -> dict[str, Any]:
        """The whole reply as a message that was not streamed would show it."""
        return {**(self._head or {}), **self._delta, "content": self.content(), "usage": self._usage}

    def _decode(self, event: dict[str, Any]) -> list[StreamEvent]:
        match event.get("type"):
            case "content_block_delta":
                delta, block = event["delta"], self._open.get(event["index"])

                if type(block) is TextBlock and delta["type"] == "text_delta" and (text := delta["text"]):
                    block.pieces.append(text)
                    return [TextDelta(block.label, text)]

                return self._of(event).add(delta)
            case "content_block_start":
                return self._start_block(event)
            case "content_block_stop":
                block = self._of(event)
                del self._open[event["index"]]
                return block.close()
            case "message_start":
                return self._start(event["message"])
            case "message_delta":
                told = {**event["delta"], "context_management": event.get("context_management")}
                self._delta |= {key: value for key, value in told.items() if value is not None}
                return self._count(event.get("usage"))
            case "message_stop":
                self.is_closed = True
            case kind if kind == "error" or event.get("error"):
                told = {"request-id": str(event["request_id"])} if event.get("request_id") else {}
                raise error_from_status(None, {**told, **self.headers}, event)

        return []

    def _of(self, event: dict[str, Any]) -> Block:
        try:
            return self._open[event["index"]]
        except KeyError as error:
            raise ProtocolError(f"{event['type']} for block {event.get('index')}, which is not open") from error

    def _start(self, message: dict[str, Any]) -> list[StreamEvent]:
        self._head = {key: value for key, value in message.items() if key not in ("content", "usage")}
        counted = self._count(message.get("usage"))

        if self._earlier is not None:
            return counted

        return [MessageStart(self._head.get("id"), self._head.get("model"), self.usage)]

    def _start_block(self, event: dict[str, Any]) -> list[StreamEvent]:
        if event["index"] in self._open:
            raise ProtocolError(f"block {event['index']} starts while it is still open")

        block = open_block(self.next_label, event["content_block"])
        self._blocks.append(block)
        self._open[event["index"]] = block

        return block.open()

    def _count(self, usage: dict[str, Any] | None) -> list[StreamEvent]:
        """Later numbers replace earlier ones, nulls replace nothing (US-R1, ANT-8)."""
        if not usage:
            return []

        self._usage |= {key: value for key, value in usage.items() if value is not None}

        return [UsageUpdate(self.usage)]

    def _message_stop(self) -> MessageStop:
        word = self._delta.get("stop_reason") or "end_turn"
        reason = _STOP_REASONS.get(word)

        if reason is None:
            return MessageStop("other", str(word))

        if reason == "stop_sequence":
            return MessageStop(reason, self._delta.get("stop_sequence"))

        details = self._delta.get("stop_details") or {}
        said = [details[key] for key in ("category", "explanation") if details.get(key)]

        return MessageStop(reason, ": ".join(said) or None)


def events_of(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message that was not streamed, as the events that would have streamed it."""
    if "content" not in message or message.get("error"):
        yield message
        return

    yield {"type": "message_start", "message": message}

    for index, block in enumerate(message["content"]):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_stop", "index": index}

    yield {"type": "message_delta", "delta": {"stop_reason": None, **_ending(message)}, "usage": message.get("usage")}
    yield {"type": "message_stop"}


def read_usage(usage: dict[str, Any]) -> Usage:
    """The API's usage in the engine's meaning; what is not reported stays `None`.

    `iterations`, where there are any, count every pass of the model; the plain fields then leave compaction out.
    """
    passes = [one for one in usage.get("iterations") or () if isinstance(one, dict)] or [usage]
    read = _sum(passes, "cache_read_input_tokens")
    created = _sum(passes, "cache_creation_input_tokens")
    fresh = _sum(passes, "input_tokens")
    known = [count for count in (fresh, read, created) if count is not None]
    details = usage.get("output_tokens_details") or {}

    return Usage(
        input_tokens=sum(known) if known else None,
        output_tokens=_sum(passes, "output_tokens"),
        cache_read_input_tokens=read,
        cache_creation_input_tokens=created,
        reasoning_tokens=_sum([details], "thinking_tokens"),
    )


def _sum(passes: list[dict[str, Any]], name: str) -> int | None:
    counts = [one[name] for one in passes if isinstance(one.get(name), int) and not isinstance(one[name], bool)]

    return sum(counts) if counts else None


def _ending(message: dict[str, Any]) -> dict[str, Any]:
    fields = ("stop_reason", "stop_sequence", "stop_details", "container", "context_management")

    return {key: message[key] for key in fields if key in message}
