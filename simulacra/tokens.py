"""How many tokens a text, a history or a request has, estimated: cheap, linear, without a vocabulary.

Tokenizers cut text into pieces in ways that depend on the script, so the estimate goes by runs of characters of one
class. The weights were fitted against the o200k vocabulary.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from simulacra.messages import (
    AssistantMessage,
    Content,
    MediaContent,
    Message,
    RawContent,
    TextContent,
    ThinkingContent,
    ToolContent,
    ToolResultContent,
    UserMessage,
)
from simulacra.schema import ToolDefinition

MESSAGE_TOKENS = 4
"""Assumed around each message, for its role and separators."""
MEDIA_TOKENS = 1500
"""Assumed for one image, sound, video or file."""
OTHER_SIGN_TOKENS = 0.7
"""For each character of no run below: punctuation, symbols, scripts without a class of their own."""


def _blank(run: str) -> float:
    if run == " ":
        return 0

    return 1 if "\n" in run else 0.35


_RUNS: tuple[tuple[re.Pattern[str], Callable[[str], float]], ...] = (
    (re.compile(r"[A-Za-z]+"), lambda run: 1 if len(run) <= 7 else math.ceil(len(run) / 4.5)),
    (re.compile(r"[0-9]+"), lambda run: math.ceil(len(run) / 3)),
    (re.compile(r"\s+"), _blank),
)
_RUNS_BEYOND_ASCII: tuple[tuple[re.Pattern[str], Callable[[str], float]], ...] = (
    (re.compile("[\u00c0-\u024f\u1e00-\u1eff]+"), lambda run: max(0.6, len(run) / 2)),
    (re.compile("[\u0400-\u052f]+"), lambda run: max(1, len(run) / 2.6)),
    (re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]+"), lambda run: 1.1 * len(run)),
    (re.compile("[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+"), lambda run: 1.05 * len(run)),
    (
        re.compile("[\u3001-\u3040\u3100-\u312f\u3190-\u33ff\u4dc0-\u4dff\ua000-\uabff\ud7a4-\U0010ffff]+"),
        lambda run: 2 * len(run),
    ),
)


class TokenCounter:
    """Estimates tokens. Text that looks like a tokenizer's special token is text like any other."""

    def count_text(self, text: str) -> int:
        """Tokens of a text; 0 for none."""
        return math.ceil(_weigh(text))

    def count_messages(self, messages: Sequence[Message]) -> int:
        """Tokens of messages as part of a request: texts, thinking, calls, results and media."""
        return math.ceil(sum(MESSAGE_TOKENS + sum(map(_weigh_block, message.content)) for message in messages))

    def count_request(
        self, messages: Sequence[Message], tools: Iterable[ToolDefinition] = (), system: Iterable[str] = ()
    ) -> int:
        """Tokens that a request makes the model read.

        Args:
            messages: What is sent.
            tools: The definitions offered.
            system: The texts of the system prompt.
        """
        described = sum(
            _weigh(tool.name) + _weigh(tool.description) + _weigh_json(tool.input_schema()) for tool in tools
        )

        return self.count_messages(messages) + math.ceil(described + sum(map(_weigh, system)))


def estimate_tokens(text: object) -> int:
    """A quarter of the text's UTF-16 units, rounded up, and 0 for what is no text.

    For programs that relied on this measure; it is far off for most texts. `TokenCounter` knows better.
    """
    if not isinstance(text, str):
        return 0

    units = len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2

    return math.ceil(units / 4)


def count_frame_tokens(frames: object) -> int:
    """`estimate_tokens` over a list or tuple of text blocks, messages, and mappings with `content.text`; else 0."""
    if not isinstance(frames, list | tuple):
        return 0

    return sum(estimate_tokens(text) for frame in frames for text in _frame_texts(frame))


def _frame_texts(frame: Any) -> Iterable[object]:
    if isinstance(frame, UserMessage | AssistantMessage):
        return [block.text for block in frame.content if isinstance(block, TextContent)]

    if isinstance(frame, Mapping):
        content = frame.get("content")

        return [content.get("text")] if isinstance(content, Mapping) else []

    return [getattr(frame, "text", None)]


def _weigh(text: str) -> float:
    classes = _RUNS if text.isascii() else _RUNS + _RUNS_BEYOND_ASCII
    weight = 0.0
    counted = 0

    for pattern, weigh_run in classes:
        for run, times in Counter(pattern.findall(text)).items():
            weight += weigh_run(run) * times
            counted += len(run) * times

    return weight + OTHER_SIGN_TOKENS * (len(text) - counted)


def _weigh_json(value: Any) -> float:
    return _weigh(json.dumps(value, ensure_ascii=False, default=str))


def _weigh_block(block: Content) -> float:
    match block:
        case TextContent():
            return _weigh(block.text)
        case ThinkingContent():
            return _weigh(block.thought)
        case ToolContent():
            return _weigh(block.tool) + _weigh_json(block.params)
        case ToolResultContent():
            beside = sum(map(_weigh_block, block.content))

            return _weigh(block.tool) + _weigh_json(block.result.model_dump()) + beside
        case MediaContent():
            return MEDIA_TOKENS
        case RawContent():
            return _weigh(block.data)

    return 0  # a block of a newer version is never sent
