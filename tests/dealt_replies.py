"""Replies and tools for tests that let a conversation do anything: what a model may say, in every way it may go wrong."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import anyio
from hypothesis import strategies as st

from simulacra.clock import clock
from simulacra.errors import AuthenticationError, RateLimitError, ServerError, StreamInterruptedError
from simulacra.streaming import (
    ContentExtended,
    ContentStop,
    MessageStart,
    TextDelta,
    ThinkingDelta,
    ToolArgumentsDelta,
    ToolCallStart,
)
from simulacra.testing import Part, calls, delay, fault, fault_after, reply, stall
from simulacra.tools import ToolClass, ToolContext

PAUSE = 0.05
"""Seconds between the pieces of a reply that is slow."""

runs: defaultdict[str, Counter[int]] = defaultdict(Counter)
"""Per conversation how often each call, known by its tag, was executed."""


@dataclass(frozen=True, slots=True)
class Dealt:
    """A reply to come: its kind, the tools it calls, and whether its calls share one id."""

    kind: str
    tools: tuple[str, ...] = ()
    same_id: bool = False


def _count(context: ToolContext[Any], tag: int) -> dict[str, int]:
    assert context.conversation is not None
    runs[context.conversation.id][tag] += 1

    return {"tag": tag}


class Quick(ToolClass):
    """Answer at once."""

    effect = "pure"

    async def execute(self, tag: int) -> dict[str, int]:
        return _count(self.context, tag)


class Failing(ToolClass):
    """Fail."""

    async def execute(self, tag: int) -> dict[str, int]:
        _count(self.context, tag)
        raise ValueError("this tool always fails")


class Slow(ToolClass):
    """Take a while."""

    async def execute(self, tag: int) -> dict[str, int]:
        _count(self.context, tag)
        await clock().sleep(4 * PAUSE)

        return {"tag": tag}


class Lonely(ToolClass):
    """Run beside no other call."""

    parallelizable = False

    async def execute(self, tag: int) -> dict[str, int]:
        _count(self.context, tag)
        await clock().sleep(PAUSE)

        return {"tag": tag}


class Late(ToolClass):
    """Run out of time."""

    timeout = PAUSE

    async def execute(self, tag: int) -> dict[str, int]:
        _count(self.context, tag)
        await clock().sleep(60)

        return {"tag": tag}


class Stubborn(ToolClass):
    """Go on although it is cancelled."""

    async def execute(self, tag: int) -> dict[str, int]:
        _count(self.context, tag)

        with anyio.CancelScope(shield=True):
            await clock().sleep(10 * PAUSE)

        return {"tag": tag}


class Cancelling(ToolClass):
    """Cancel the very response that called it."""

    async def execute(self, tag: int) -> dict[str, int]:
        _count(self.context, tag)
        assert self.context.conversation is not None
        self.context.conversation.cancel_response()
        await clock().sleep(PAUSE)

        return {"tag": tag}


TOOLKIT = (Quick, Failing, Slow, Lonely, Late, Stubborn, Cancelling)
TOOL_NAMES = [tool.name for tool in TOOLKIT]

plain_kinds = st.sampled_from(
    [
        "text",
        "slow text",
        "empty",
        "blank",
        "thinking",
        "signed thinking",
        "refusal",
        "cut",
        "half a call",
        "overloaded",
        "rate limited",
        "wrong key",
        "breaks",
        "breaks unexpectedly",
        "ends early",
        "stalls",
        "stays silent",
    ]
)
call_kinds = st.sampled_from(
    ["calls", "slow calls", "text and calls", "cut calls", "unreadable calls", "breaking calls"]
)
tool_names = st.lists(st.sampled_from([*TOOL_NAMES, "unknown"]), min_size=1, max_size=3).map(tuple)
dealt = st.builds(Dealt, plain_kinds) | st.builds(Dealt, call_kinds, tool_names, st.booleans())


def play(given: Dealt, tags: Iterator[int]) -> list[Part]:  # noqa: C901 -- one case per kind
    """The parts of a reply; each of its calls gets a tag of its own."""
    pieces = ["Hel", delay(PAUSE), "lo", delay(PAUSE), "."]

    match given.kind:
        case "text":
            return reply("Hello.")
        case "slow text":
            return reply(chunks=pieces)
        case "empty":
            return reply()
        case "blank":
            return reply(" \n")
        case "thinking":
            return reply(chunks=pieces, thinking="Hmm")
        case "signed thinking":
            signed = [ThinkingDelta(0, "Hmm"), ContentExtended(0, {"signature": "s"}), ContentStop(0)]
            return [MessageStart(), *signed, delay(PAUSE), *reply("Hello.")[1:]]
        case "refusal":
            return reply("No.", stop_reason="refusal")
        case "cut":
            return reply(chunks=pieces, stop_reason="max_tokens")
        case "half a call":
            begun = [ToolCallStart(1, "half", "quick"), ToolArgumentsDelta(1, '{"ta')]
            return [MessageStart(), TextDelta(0, "Hel"), *begun, delay(PAUSE), fault(ServerError("cut"))]
        case "overloaded":
            return [delay(PAUSE), fault(ServerError("busy"))]
        case "rate limited":
            return [fault(RateLimitError("wait", retry_after=2.0))]
        case "wrong key":
            return [fault(AuthenticationError("wrong key"))]
        case "breaks":
            return fault_after("Hel", StreamInterruptedError("cut"))
        case "breaks unexpectedly":
            return [delay(PAUSE), fault(KeyError("a bug of the provider"))]
        case "ends early":
            return [MessageStart(), TextDelta(0, "Hel")]
        case "stalls":
            return [MessageStart(), TextDelta(0, "Hel"), stall()]
        case "stays silent":
            return [stall()]

    return _play_calls(given, tags)


def _play_calls(given: Dealt, tags: Iterator[int]) -> list[Part]:
    wanted = []

    for tool in given.tools:
        arguments: Any = {"tag": next(tags)}
        broken = given.kind == "unreadable calls" and not wanted
        wanted.append((tool, '{"tag": ' if broken else arguments, *(("same",) if given.same_id else ())))

    match given.kind:
        case "text and calls":
            return calls(*wanted, text="Let me see.")
        case "cut calls":
            return calls(*wanted, stop_reason="max_tokens")
        case "slow calls":
            return [part for each in calls(*wanted) for part in (each, delay(PAUSE))]
        case "breaking calls":
            return [*calls(*wanted)[:-1], delay(PAUSE), fault(ServerError("cut"))]
        case _:
            return calls(*wanted)
