"""The fold: stream events in, one assistant message out. The only place that assembles messages.

Linear in the number of deltas: a delta appends to its block's list and nothing is copied or parsed until the block
ends. The fold supplies a missing start or stop of a block, never a missing end of the message.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from simulacra.cleaning import clean_text
from simulacra.errors import ProtocolError
from simulacra.messages import (
    STOP_REASONS,
    AssistantContent,
    AssistantMessage,
    MessageStatus,
    StopReason,
    ThinkingContent,
    ToolContent,
    Usage,
)
from simulacra.streaming.deltas import (
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
from simulacra.streaming.live import LiveContent, LiveType

# A vendor's word that the finished message may correct (MSG-11); the others are never overwritten.
_CORRECTABLE = frozenset({"end_turn", "other"})


class Change(NamedTuple):
    """What an event did to the message; `block` is the block concerned."""

    kind: Literal["start", "update", "complete"]
    block: LiveContent
    delta: str = ""


class Fold:
    """The live message of one reply.

    Args:
        message_id: Id of the message to be.
        timestamp: Milliseconds since the epoch.
        model_kind: The provider's kind, for raw blocks.
        model: The model asked for, until the vendor names the one that answers.
    """

    def __init__(self, message_id: str, timestamp: int, *, model_kind: str, model: str | None = None) -> None:
        self.message_id = message_id
        self.timestamp = timestamp
        self.model_kind = model_kind
        self.model = model
        self.provider_message_id: str | None = None
        self.usage = Usage()
        self.stop_reason: StopReason | None = None
        self.stop_details: str | None = None
        self.blocks: list[LiveContent] = []
        self._by_index: dict[int, LiveContent] = {}

    @property
    def is_closed(self) -> bool:
        """Whether the closing event came."""
        return self.stop_reason is not None

    def apply(self, event: StreamEvent) -> list[Change]:
        """Fold one event in.

        Raises:
            ProtocolError: The event does not fit what came before, or holds what such an event cannot.
        """
        try:
            return self._apply(event)
        except (AttributeError, TypeError, ValueError) as error:
            raise ProtocolError(f"a provider yielded {event!r:.200}, which no message can hold: {error}") from error

    def _apply(self, event: StreamEvent) -> list[Change]:  # noqa: C901 -- one case per event
        match event:
            case TextDelta(index, text):
                return self._piece("text", index, text)
            case ToolArgumentsDelta(index, text):
                return self._piece("tool", index, text)
            case ThinkingDelta(index, text):
                return self._piece("thinking", index, text)
            case ThinkingStart(index, redacted):
                return self._start("thinking", index, redacted=redacted)
            case ToolCallStart(index, tool_request_id, tool):
                return self._start("tool", index, tool_request_id=clean_text(tool_request_id), tool=clean_text(tool))
            case MediaDelta(index, media_type, data):
                changes = [] if index in self._by_index else self._start("media", index)
                block = self._by_index[index]
                block.media_type = media_type
                block.push_media(data)
                return changes
            case ContentExtended(index, extended):
                changes = [] if index in self._by_index else self._start("text", index)
                self._by_index[index].extend(extended)
                return changes
            case RawBlock(index, data):
                changes = self._start("raw", index)
                changes[0].block.push(data)
                return changes + self._stop(index)
            case ContentStop(index):
                return self._stop(index)
            case UsageUpdate(usage):
                self.usage = self.usage.replaced_by(usage)
                return []
            case MessageStart(provider_message_id, model, usage):
                self.provider_message_id = provider_message_id
                self.model = model or self.model
                self.usage = self.usage.replaced_by(usage or Usage())
                return []
            case MessageStop(stop_reason, stop_details):
                changes = [change for index in list(self._by_index) for change in self._stop(index)]
                self._close(stop_reason, stop_details)
                return changes
            case _:
                raise ProtocolError(f"a provider yields stream events, such as TextDelta, not {type(event).__name__}")

    def message(self) -> AssistantMessage:
        """The finished message.

        Raises:
            ProtocolError: The provider told what no message can hold.
        """
        return self._message([block.value for block in self.blocks if block.value is not None], "complete")

    def partial(self, status: MessageStatus) -> AssistantMessage | None:
        """What was delivered of a reply that did not end by itself, or `None` (CX-R1, CX-R2, T11-T16).

        Finished blocks and shown text stay; calls that were still streaming, blank text, and thinking that no
        kept call follows or that has no signature are left out.
        """
        kept = [block.value or block.delivered_value(self.timestamp) for block in self.blocks]
        content = [value for value in kept if value is not None and not _is_blank(value)]
        calls = [position for position, value in enumerate(content) if isinstance(value, ToolContent)]
        last_call = calls[-1] if calls else -1
        content = [
            value
            for position, value in enumerate(content)
            if not isinstance(value, ThinkingContent) or (position < last_call and value.extended)
        ]

        return self._message(content, status) if content else None

    def _message(self, content: list[AssistantContent], status: MessageStatus) -> AssistantMessage:
        try:
            return AssistantMessage(
                tuple(content),
                id=self.message_id,
                timestamp=self.timestamp,
                status=status,
                stop_reason=self.stop_reason,
                stop_details=self.stop_details,
                model=self.model,
                usage=self.usage,
            )
        except ValidationError as error:
            raise ProtocolError(f"a provider told of its reply what no message can hold: {error}") from error

    def _piece(self, kind: LiveType, index: int, text: str) -> list[Change]:
        block = self._by_index.get(index)

        if block is None:
            if not text:
                return []

            if kind == "tool":
                raise ProtocolError(f"arguments arrived for tool call {index}, which never started or has ended")

            changes = self._start(kind, index)
            block = changes[0].block
        else:
            changes = []

            if block.type != kind:
                raise ProtocolError(f"a piece of {kind} arrived for block {index}, which is {block.type}")

        shown = block.push(text)

        if shown:
            changes.append(Change("update", block, shown))

        return changes

    def _start(self, kind: LiveType, index: int, **known: Any) -> list[Change]:
        if index in self._by_index:
            raise ProtocolError(f"block {index} starts while it is still open")

        block = LiveContent(kind, len(self.blocks))

        for name, value in known.items():
            setattr(block, name, value)

        self.blocks.append(block)
        self._by_index[index] = block

        return [Change("start", block)]

    def _stop(self, index: int) -> list[Change]:
        block = self._by_index.pop(index, None)

        if block is None:
            return []

        rest = block.flush()
        block.finish(self.timestamp, self.model_kind)
        complete = Change("complete", block)

        return [Change("update", block, rest), complete] if rest else [complete]

    def _close(self, stop_reason: StopReason, stop_details: str | None) -> None:
        if stop_reason not in STOP_REASONS:  # a provider that passes its vendor's word on
            stop_reason, stop_details = "other", stop_details or str(stop_reason)

        has_call = any(block.type == "tool" for block in self.blocks)

        if has_call and stop_reason in _CORRECTABLE:
            stop_reason = "tool_use"
        elif stop_reason == "tool_use" and not has_call:
            stop_reason, stop_details = "other", stop_details or "tool_use without a tool call"

        self.stop_reason = stop_reason
        self.stop_details = stop_details


def _is_blank(value: AssistantContent) -> bool:
    return value.type == "text" and not getattr(value, "text", "").strip()
