"""What a provider yields, how a stream is opened and held, and the fold that makes a message of it."""

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
from simulacra.streaming.fold import Change, Fold
from simulacra.streaming.live import LiveContent, parse_arguments
from simulacra.streaming.opening import OpenStream, opens_reply, peek_generator

__all__ = [
    "Change",
    "ContentExtended",
    "ContentStop",
    "Fold",
    "LiveContent",
    "MediaDelta",
    "MessageStart",
    "MessageStop",
    "OpenStream",
    "RawBlock",
    "StreamEvent",
    "TextDelta",
    "ThinkingDelta",
    "ThinkingStart",
    "ToolArgumentsDelta",
    "ToolCallStart",
    "UsageUpdate",
    "opens_reply",
    "parse_arguments",
    "peek_generator",
]
