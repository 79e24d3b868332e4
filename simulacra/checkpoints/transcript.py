"""A history as text that another model reads: everything that matters, within bounds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from simulacra.messages import (
    Content,
    MediaContent,
    Message,
    RawContent,
    TextContent,
    ToolContent,
    ToolResultContent,
)

_SPEAKERS = {"user": "User:", "assistant": "Assistant:"}


def write_transcript(messages: Sequence[Message], *, result_limit: int = 4_000, total_limit: int = 200_000) -> str:
    """Messages as `User:` and `Assistant:` paragraphs.

    Texts stand as they are; a tool call with its name and arguments; media as placeholders; thinking is left out.
    Arguments and results are cut to a limit, and further if together they are still too long: then the longest lose
    first, and small ones stay as they are. Every cut is marked with what it left out.

    Args:
        messages: What to write down.
        result_limit: Most characters of one tool result, or of one call's arguments.
        total_limit: Most characters of all of them together.
    """
    limit = _common_limit(_tool_lengths(messages), result_limit, total_limit)
    paragraphs = []

    for message in messages:
        lines = [line for block in message.content for line in _lines(block, limit)]

        if lines:
            paragraphs.append("\n".join([_SPEAKERS[message.role], *lines]))

    return "\n\n".join(paragraphs)


def _lines(block: Content, limit: int) -> list[str]:
    match block:
        case TextContent():
            return [block.text] if block.text.strip() else []
        case ToolContent():
            return [f"[called {block.tool} with {_cut(_arguments(block), limit)}]"]
        case ToolResultContent():
            beside = [line for inner in block.content for line in _lines_beside(inner, limit)]

            return [f"[result of {block.tool}: {_cut(_result(block), limit)}]", *beside]
        case MediaContent():
            return [_placeholder(block)]
        case RawContent():
            return [f"[{block.model_kind} content]"]

    return []


def _lines_beside(block: TextContent | MediaContent, limit: int) -> list[str]:
    return [_cut(block.text, limit)] if isinstance(block, TextContent) else [_placeholder(block)]


def _placeholder(media: MediaContent) -> str:
    facts = [media.media_type, media.name, media.url, None if media.data is None else f"{len(media.data)} bytes"]

    return f"[{media.kind}: {', '.join(fact for fact in facts if fact)}]"


def _arguments(call: ToolContent) -> str:
    """The arguments, or the text in which they could not be read."""
    unread = (call.extended or {}).get("arguments")

    return unread if call.error is not None and isinstance(unread, str) else _json(call.params)


def _result(block: ToolResultContent) -> str:
    return _json(block.result.model_dump(mode="json"))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _tool_lengths(messages: Sequence[Message]) -> list[int]:
    lengths = []

    for message in messages:
        for block in message.content:
            if isinstance(block, ToolContent):
                lengths.append(len(_arguments(block)))
            elif isinstance(block, ToolResultContent):
                lengths.append(len(_result(block)))
                lengths += [len(inner.text) for inner in block.content if isinstance(inner, TextContent)]

    return lengths


def _common_limit(lengths: list[int], limit: int, total: int) -> int:
    """The largest limit up to `limit` under which texts of these lengths are together no longer than `total`."""
    remaining = total

    for place, length in enumerate(sorted(lengths)):
        share = remaining // (len(lengths) - place)

        if min(length, limit) > share:
            return share

        remaining -= min(length, limit)

    return limit


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text

    return f"{text[:limit]}… ({len(text) - limit} more characters left out)"
