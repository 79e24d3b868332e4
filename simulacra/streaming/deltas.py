"""Stream events: what a provider says, as deltas and never as snapshots.

`index` is a label that the provider chooses for a block; it is used once per reply. These are made per streamed
chunk, hence plain slotted dataclasses. `MessageStop` is the closing event and must come last: its absence is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from simulacra.messages import StopReason, Usage


@dataclass(slots=True)
class MessageStart:
    """The vendor opened its reply. Optional: the fold supplies a missing one."""

    provider_message_id: str | None = None
    model: str | None = None
    usage: Usage | None = None


@dataclass(slots=True)
class TextDelta:
    """A piece of a text block; the first one opens it."""

    index: int
    text: str


@dataclass(slots=True)
class ThinkingStart:
    """A thinking block opens."""

    index: int
    redacted: bool = False


@dataclass(slots=True)
class ThinkingDelta:
    """A piece of a thinking block; opens it when nothing did."""

    index: int
    text: str


@dataclass(slots=True)
class ToolCallStart:
    """A tool call opens. The id must be the one its result will name."""

    index: int
    tool_request_id: str
    tool: str


@dataclass(slots=True)
class ToolArgumentsDelta:
    """A piece of the JSON text of a call's arguments."""

    index: int
    json: str


@dataclass(slots=True)
class MediaDelta:
    """A piece of an image, sound, video or file; pieces of one index append."""

    index: int
    media_type: str
    data: bytes


@dataclass(slots=True)
class ContentExtended:
    """Vendor extras of a block (signatures, citations), merged into its `extended`."""

    index: int
    extended: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class RawBlock:
    """A whole vendor part the engine has no word for; `data` is its JSON text."""

    index: int
    data: str


@dataclass(slots=True)
class ContentStop:
    """A block is finished. Optional: the fold supplies a missing one at the end."""

    index: int


@dataclass(slots=True)
class UsageUpdate:
    """A running total: the last value of each field holds, nothing is summed."""

    usage: Usage


@dataclass(slots=True)
class MessageStop:
    """The reply is finished."""

    stop_reason: StopReason = "end_turn"
    stop_details: str | None = None


StreamEvent: TypeAlias = (
    MessageStart
    | TextDelta
    | ThinkingStart
    | ThinkingDelta
    | ToolCallStart
    | ToolArgumentsDelta
    | MediaDelta
    | ContentExtended
    | RawBlock
    | ContentStop
    | UsageUpdate
    | MessageStop
)
