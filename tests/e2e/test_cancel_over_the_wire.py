"""Cancel in every phase of a run and in every way, over the official SDK, seen from the server's side.

The engine's clock stands still: what settles here settles by itself, no time limit helps it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from chat_wire import FINE, sent_messages
from conversation_kit import sketch
from sendable import chat_faults

from simulacra.conversation import Conversation
from simulacra.events import BeforeRequest, ContentUpdate
from simulacra.messages import Response
from simulacra.testing import EmulatedCall, EmulatedReply, FakeClock, OpenAIEmulator, http_error
from simulacra.tools import ToolContext, tool

pytestmark = pytest.mark.anyio

GUARD_SECONDS = 20
"""Real seconds after which a test that hangs fails."""


@dataclass
class Run:
    """A prompt under way, and where it is."""

    emulator: OpenAIEmulator
    clock: FakeClock
    conversation: Conversation
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    leave: anyio.Event = field(default_factory=anyio.Event)
    deltas: list[str] = field(default_factory=list)
    is_held_back: bool = False
    outcome: Response | None = None
    is_over: bool = False

    def __post_init__(self) -> None:
        self.conversation.on(ContentUpdate, lambda event: self.deltas.append(event.delta))

    def hold_back(self) -> None:
        """Keep the next request from being sent."""

        async def hold(_: BeforeRequest) -> None:
            self.is_held_back = True
            await anyio.sleep_forever()

        self.conversation.once(BeforeRequest, hold)

    async def prompt(self) -> None:
        with self.scope:
            self.outcome = await self.conversation.prompt("begin")

        self.is_over = True

    async def stream(self) -> None:
        """Iterate until told to leave."""
        async with self.conversation.stream("begin") as stream, anyio.create_task_group() as tasks:

            async def watch() -> None:
                await self.leave.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)

            async for _ in stream:
                pass

        self.outcome = await stream.response()
        self.is_over = True


@dataclass(frozen=True)
class Phase:
    """Where a run is when it is cancelled.

    Args:
        arrive: Waits until the run is there.
        replies: What the server answers until then.
        kept: What is in history afterwards; a row of `x` counts as one.
        is_open: Whether a request is under way there.
    """

    arrive: Callable[[Run], Awaitable[None]]
    replies: tuple[EmulatedReply, ...]
    kept: tuple[str, ...] = ("U begin",)
    is_open: bool = True


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await anyio.lowlevel.checkpoint()


async def until_held_back(run: Run) -> None:
    await until(lambda: run.is_held_back)
    assert run.emulator.requests == []


async def until_received(run: Run) -> None:
    await run.emulator.received()


async def until_two_deltas(run: Run) -> None:
    await until(lambda: len(run.deltas) >= 2)


async def until_a_call_streams(run: Run) -> None:
    await until(lambda: run.conversation.state == "streaming_response")


async def until_a_tool_runs(run: Run) -> None:
    await until(lambda: run.conversation.id in running)


async def until_the_back_off(run: Run) -> None:
    await until(lambda: run.clock.sleeps)


running: set[str] = set()


@tool
async def wait(context: ToolContext) -> None:
    """Wait for ever."""
    running.add(context.conversation.id)
    await anyio.sleep_forever()


WAIT = EmulatedCall(tool="wait", id="call_1")
PHASES = {
    "before the connection": Phase(until_held_back, (), is_open=False),
    "before the headers": Phase(until_received, (EmulatedReply(is_silent=True),)),
    "before the first event": Phase(until_received, (EmulatedReply(stall_after=0),)),
    "in mid-stream": Phase(until_two_deltas, (EmulatedReply(text=["x"] * 20_000),), ("U begin", "A* x")),
    "in a stalled stream": Phase(
        until_two_deltas, (EmulatedReply(text=["Hel", "lo"], stall_after=3),), ("U begin", "A* Hello")
    ),
    "in a call": Phase(until_a_call_streams, (EmulatedReply(calls=[WAIT], stall_after=2),)),
    "while a tool runs": Phase(
        until_a_tool_runs, (EmulatedReply(calls=[WAIT]),), ("U begin", "A <wait>", "U =wait!"), is_open=False
    ),
    "in the back-off": Phase(until_the_back_off, (http_error(429, retry_after=60),), is_open=False),
}


async def by_cancel_response(run: Run) -> None:
    run.conversation.cancel_response()
    run.conversation.cancel_response()


async def by_cancelling_the_task(run: Run) -> None:
    run.scope.cancel()


async def by_leaving_the_stream(run: Run) -> None:
    run.leave.set()


async def by_interrupting(run: Run) -> None:
    response = await run.conversation.interrupt("again")
    assert response is not None
    assert response.text == "fine"


async def by_disposing(run: Run) -> None:
    await run.conversation.aclose()
    assert run.conversation.state == "disposed"


WAYS = [by_cancel_response, by_cancelling_the_task, by_leaving_the_stream, by_interrupting, by_disposing]


def kept_of(conversation: Conversation) -> tuple[str, ...]:
    return tuple(re.sub("x+", "x", line) for line in sketch(conversation.messages))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PHASES)
async def test_w_conv_1_a_cancel_settles_closes_the_connection_and_leaves_a_conversation_to_use(
    serve: Any, fake_clock: FakeClock, name: str, way: Callable[[Run], Awaitable[None]]
):
    phase = PHASES[name]
    is_streamed, is_last = way is by_leaving_the_stream, way is by_disposing
    replies = phase.replies if is_last else (*phase.replies, FINE)

    with anyio.fail_after(GUARD_SECONDS):
        async with serve(replies) as (emulator, provider):
            run = Run(emulator, fake_clock, Conversation(provider, toolkit=[wait]))

            if phase.arrive is until_held_back:
                run.hold_back()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run.stream if is_streamed else run.prompt)
                await phase.arrive(run)
                await way(run)

            assert run.is_over
            assert way is by_cancelling_the_task or (run.outcome is not None and run.outcome.cancelled)

            if phase.is_open:
                await emulator.abandoned()

            if way not in (by_interrupting, by_disposing):
                assert kept_of(run.conversation) == phase.kept
                assert (await run.conversation.prompt("again")).text == "fine"

    assert len(emulator.requests) == len(replies)
    check_history(run, phase, is_last=is_last)


def check_history(run: Run, phase: Phase, *, is_last: bool) -> None:
    """Nothing is lost, and what was sent last is what chat completions take."""
    more = () if is_last else ("U again", "A fine")
    assert kept_of(run.conversation) == (*phase.kept, *more)

    if not is_last:
        sent = sent_messages(run.emulator)[-1]
        assert not chat_faults(sent)
        assert sent[-1]["role"] == "user"
        assert "again" in str(sent[-1]["content"])
        assert "begin" in str(sent[0]["content"])
