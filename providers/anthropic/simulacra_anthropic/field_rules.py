"""Rules about the other fields of a request: system prompt, tools and choice, thinking, caching, size.

Source: Anthropic's API reference (Messages) and its guides to tool use, thinking and prompt caching.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeGuard

from simulacra.rules import Found, Path, Rule, Wire
from simulacra.rules.reading import JsonMap, is_blank, map_of, objects_in, text_of
from simulacra_anthropic.many_images import DEMAND, large_of_many
from simulacra_anthropic.message_rules import Mend, PlacedBlock, blocks_in, messages_of
from simulacra_anthropic.repairs import THINKING

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
MAX_MARKS = 4
MIN_BUDGET = 1024
MAX_BYTES = 32_000_000
_CHOICES = frozenset({"auto", "any", "tool", "none"})
_FORCING = frozenset({"any", "tool"})


def field_rules(mend: Mend) -> tuple[Rule, ...]:
    """The rules.

    Args:
        mend: Puts the fields of a request right.
    """
    return (*_basics(mend), *_tools(mend), *_thinking(mend), *_caching(mend))


def _basics(mend: Mend) -> tuple[Rule, ...]:
    return (
        Rule(
            name="model-named",
            demand="a request names its model",
            fix="Give the provider a model",
            find=lambda wire: [] if text_of(wire.get("model")) else [Found(("model",))],
        ),
        Rule(
            name="limit-given",
            demand="max_tokens is a whole number that is not negative",
            fix="Give the provider max_tokens",
            find=lambda wire: [] if _is_count(wire.get("max_tokens")) else [Found(("max_tokens",))],
        ),
        Rule(
            name="many-images-are-small",
            demand=DEMAND,
            fix="Texts take the place of large and old ones, until the request has few images or small ones",
            find=large_of_many,
            repair=mend,
        ),
        Rule(
            name="request-small-enough",
            demand=f"a request has at most {MAX_BYTES:,} bytes",
            fix="Send large files by the Files API, or checkpoint the conversation",
            find=_large_requests,
            status=413,
        ),
        Rule(
            name="system-not-blank",
            demand="the system prompt is a text, or text blocks, none of them empty",
            fix="What is blank is left out",
            find=_blank_system,
            repair=mend,
        ),
        Rule(
            name="stop-sequences-not-blank",
            demand="a stop sequence has something besides white space",
            fix="Give another one",
            find=_blank_stops,
        ),
    )


def _tools(mend: Mend) -> tuple[Rule, ...]:
    return (
        Rule(
            name="tool-names-fit",
            demand="a tool's name matches [a-zA-Z0-9_-] and has 1 to 128 characters",
            fix="Give the tool another name",
            find=_strange_names,
        ),
        Rule(
            name="tool-names-differ",
            demand="the names of a request's tools differ",
            fix="Give one of the tools another name",
            find=_equal_names,
        ),
        Rule(  # ANT-3
            name="calls-need-tools",
            demand="a request with calls in its messages defines tools",
            fix="The called tools are named, and choosing one is switched off",
            find=_undefined,
            repair=mend,
        ),
        Rule(
            name="tool-choice-needs-tools",
            demand="tool_choice is only allowed together with tools",
            fix="It is left out",
            find=lambda wire: [Found(("tool_choice",))] if wire.get("tool_choice") and not wire.get("tools") else [],
            repair=mend,
        ),
        Rule(
            name="tool-choice-fits",
            demand="tool_choice is of type auto, any or none, or names a tool of the request",
            fix="Choose a tool that the conversation has",
            find=_strange_choice,
        ),
    )


def _thinking(mend: Mend) -> tuple[Rule, ...]:
    return (
        Rule(
            name="budgets-fit",
            demand=f"budget_tokens is at least {MIN_BUDGET} and, unless thinking is interleaved, less than max_tokens",
            fix="Choose another budget, or raise max_tokens",
            find=_strange_budget,
        ),
        Rule(
            name="thinking-forces-no-tool",
            demand="with thinking the tool choice is auto or none",
            fix="Leave the choice to the model, or switch thinking off",
            find=_forced_thinker,
        ),
        Rule(  # a reply of another vendor, or one made without thinking, has called the tools whose results come now
            name="thinking-leads-the-last-reply",
            demand="with a budget for thinking, the last reply before results begins with a thinking block",
            fix="Thinking is left out of this request",
            find=_thoughtless_calls,
            repair=mend,
        ),
    )


def _caching(mend: Mend) -> tuple[Rule, ...]:
    return (
        Rule(  # W-ANT-5
            name="cache-marks-few",
            demand=f"a request has at most {MAX_MARKS} cache_control marks",
            fix="The first ones of the messages are left out",
            find=_many_marks,
            repair=mend,
        ),
        Rule(  # W-ANT-5
            name="cache-marks-on-content",
            demand="thinking blocks and empty texts carry no cache_control",
            fix="It is left out",
            find=_marked_thoughts,
            repair=mend,
        ),
        Rule(
            name="cache-marks-are-ephemeral",
            demand="cache_control is of type ephemeral, with a ttl of 5m or 1h",
            fix="Leave it to prompt_caching",
            find=_strange_marks,
        ),
        Rule(
            name="longer-cache-first",
            demand="marks with a ttl of 1h stand before those of 5m: tools, system, messages",
            fix="Give all of them the same ttl",
            find=_late_long_marks,
        ),
    )


def marks_in(wire: Wire, blocks: Iterable[PlacedBlock] | None = None) -> Iterator[tuple[Path, Any]]:
    """Every cache mark with its path, in the order in which the cache is built: tools, system, messages.

    Args:
        wire: The request.
        blocks: What `blocks_in` finds in it, where that is known already.
    """
    for at, tool in objects_in(wire.get("tools")):
        if tool.get("cache_control"):
            yield ("tools", at, "cache_control"), tool["cache_control"]

    for at, block in objects_in(wire.get("system")):
        if block.get("cache_control"):
            yield ("system", at, "cache_control"), block["cache_control"]

    for at, _, place, block in blocks_in(wire) if blocks is None else blocks:
        if block.get("cache_control"):
            yield ("messages", at, "content", place, "cache_control"), block["cache_control"]

    if wire.get("cache_control"):
        yield ("cache_control",), wire["cache_control"]


def lacks_thinking(wire: Wire) -> int | None:
    """The place of the reply that thinking with a budget would not go on from; `None` when it may."""
    if map_of(wire.get("thinking")).get("type") != "enabled":
        return None

    replies = [(at, message) for at, message in messages_of(wire) if message.get("role") == "assistant"]
    last = list(messages_of(wire))[-1:]
    answers = any(block.get("type") == "tool_result" for _, message in last for _, block in _blocks(message))

    if not replies or not (answers or replies[-1][0] == last[0][0]):
        return None

    at, reply = replies[-1]
    first = next((block.get("type") for _, block in _blocks(reply)), "text")

    return None if first in THINKING else at


def _blocks(message: JsonMap) -> Iterator[tuple[int, JsonMap]]:
    return objects_in(message.get("content"))


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _large_requests(wire: Wire) -> Iterator[Found]:
    size = len(json.dumps(wire, ensure_ascii=False, default=str).encode(errors="replace"))

    if size > MAX_BYTES:
        yield Found((), f"{size:,} bytes")


def _blank_system(wire: Wire) -> Iterator[Found]:
    system = wire.get("system", ...)

    if system is not ... and not isinstance(system, list) and is_blank(system):
        yield Found(("system",))

    for at, block in objects_in(system):
        if is_blank(block.get("text")):
            yield Found(("system", at, "text"))


def _blank_stops(wire: Wire) -> Iterator[Found]:
    stops = wire.get("stop_sequences")

    for at, text in enumerate(stops if isinstance(stops, list) else ()):
        if is_blank(text):
            yield Found(("stop_sequences", at))


def _strange_names(wire: Wire) -> Iterator[Found]:
    for at, tool in objects_in(wire.get("tools")):
        if not TOOL_NAME.fullmatch(text_of(tool.get("name"))) and tool.get("type") != "mcp_toolset":
            yield Found(("tools", at, "name"), repr(tool.get("name")))


def _equal_names(wire: Wire) -> Iterator[Found]:
    seen = set()

    for at, tool in objects_in(wire.get("tools")):
        name = text_of(tool.get("name"))

        if name and name in seen:
            yield Found(("tools", at, "name"), repr(name))

        seen.add(name)


def _undefined(wire: Wire) -> Iterator[Found]:
    if not wire.get("tools"):
        for at, _, place, block in blocks_in(wire):
            if block.get("type") in ("tool_use", "tool_result"):
                yield Found(("tools",), f"messages[{at}].content[{place}] is a {block['type']}")
                return


def _strange_choice(wire: Wire) -> Iterator[Found]:
    choice = wire.get("tool_choice")

    if choice is None or not wire.get("tools"):
        return

    kind, name = map_of(choice).get("type"), map_of(choice).get("name")
    names = [tool.get("name") for _, tool in objects_in(wire.get("tools"))]

    if kind not in _CHOICES or (kind == "tool" and name not in names):
        yield Found(("tool_choice",), repr(name if kind == "tool" else kind))


def _strange_budget(wire: Wire) -> Iterator[Found]:
    thinking = map_of(wire.get("thinking"))
    budget, limit = thinking.get("budget_tokens"), wire.get("max_tokens")

    if thinking.get("type") != "enabled":
        return

    if not _is_count(budget) or budget < MIN_BUDGET:
        yield Found(("thinking", "budget_tokens"), repr(budget))
    elif _is_count(limit) and budget >= limit and not _is_interleaved(wire):
        yield Found(("thinking", "budget_tokens"), f"{budget} of {limit} tokens")


def _is_interleaved(wire: Wire) -> bool:
    return "interleaved-thinking" in str(map_of(wire.get("extra_headers")).get("anthropic-beta", ""))


def _forced_thinker(wire: Wire) -> Iterator[Found]:
    thinks = map_of(wire.get("thinking")).get("type") in ("enabled", "adaptive")

    if thinks and map_of(wire.get("tool_choice")).get("type") in _FORCING:
        yield Found(("tool_choice", "type"), repr(wire["tool_choice"]["type"]))


def _thoughtless_calls(wire: Wire) -> Iterator[Found]:
    if (at := lacks_thinking(wire)) is not None:
        yield Found(("messages", at, "content", 0))


def _many_marks(wire: Wire) -> Iterator[Found]:
    marks = list(marks_in(wire))

    yield from (Found(path, f"{len(marks)} marks") for path, _ in marks[MAX_MARKS:])


def _marked_thoughts(wire: Wire) -> Iterator[Found]:
    for at, _, place, block in blocks_in(wire):
        if block.get("cache_control") and block.get("type") in THINKING:
            yield Found(("messages", at, "content", place, "cache_control"))


def _strange_marks(wire: Wire) -> Iterator[Found]:
    for path, mark in marks_in(wire):
        if map_of(mark).get("type") != "ephemeral" or map_of(mark).get("ttl", "5m") not in ("5m", "1h"):
            yield Found(path, repr(mark)[:80])


def _late_long_marks(wire: Wire) -> Iterator[Found]:
    has_short = False

    for path, mark in marks_in(wire):
        if path == ("cache_control",):
            continue

        if map_of(mark).get("ttl") != "1h":
            has_short = True
        elif has_short:
            yield Found(path)
