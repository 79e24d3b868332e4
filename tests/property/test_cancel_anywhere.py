"""Cancel at every await point of a tool loop, in every way there is: it settles at once and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
import pytest
from conversation_kit import sketch
from dealt_replies import PAUSE, Lonely, Quick, Slow, runs
from sendable import missing_from_request, pairs, request_faults, texts_of, wire_faults

from simulacra.clock import use_clock
from simulacra.conversation import Conversation
from simulacra.errors import InvalidStateError, RateLimitError
from simulacra.messages import Response, ToolContent
from simulacra.streaming import ContentStop, MessageStart, MessageStop, TextDelta
from simulacra.testing import Call, Delay, FakeClock, ScriptedProvider, fault, reply

pytestmark = pytest.mark.anyio

TURNS_PER_PAUSE = 10
"""So many turns of the event loop are enough for everything to come to a wait."""
SCRIPT = [
    [
        MessageStart(),
        TextDelta(0, "Let me"),
        Delay(PAUSE),
        TextDelta(0, " see."),
        ContentStop(0),
        Call(1, "slow", '{"tag": 1}'),
        Call(2, "quick", '{"tag": 2}'),
        Delay(PAUSE),
        Call(3, "lonely", '{"tag": 3}'),
        MessageStop("tool_use"),
    ],
    [Delay(PAUSE), fault(RateLimitError("wait", retry_after=PAUSE))],
    reply(chunks=["It", Delay(PAUSE), " is."]),
]


@dataclass
class Scene:
    """A tool loop under way, moved on step by step.

    Args:
        clock: Moves it.
        streamed: Whether a consumer takes its events.
    """

    clock: FakeClock
    streamed: bool
    provider: ScriptedProvider = field(default_factory=lambda: ScriptedProvider(SCRIPT, otherwise="Fine."))
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    is_over: bool = False
    outcome: object = None

    def __post_init__(self) -> None:
        self.conversation = Conversation(self.provider, toolkit=[Slow, Quick, Lonely])

    @property
    def is_complete(self) -> bool:
        return isinstance(self.outcome, Response) and not self.outcome.cancelled

    async def play(self) -> None:
        with self.scope, suppress(InvalidStateError):  # disposed before it began
            if self.streamed:
                async with self.conversation.stream("begin") as stream:
                    self.outcome = await stream.response()
            else:
                self.outcome = await self.conversation.prompt("begin")

        self.is_over = True

    async def move_on(self, moment: int) -> None:
        """So many turns of the loop; time moves on whenever everything waits."""
        for turn in range(1, moment + 1):
            await anyio.lowlevel.checkpoint()

            if turn % TURNS_PER_PAUSE == 0:
                await self.clock.advance(PAUSE)


def cancel_response(scene: Scene) -> None:
    scene.conversation.cancel_response()


def cancel_the_task(scene: Scene) -> None:
    scene.scope.cancel()


async def cancelled_at(moment: int, clock: FakeClock, cancel: Callable[[Scene], None], *, streamed: bool) -> Scene:
    """The scene after a cancel at this moment, with the conversation used again; `is_over` before it if too late."""
    scene = Scene(clock, streamed)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scene.play)
        await scene.move_on(moment)

        if scene.is_over or not scene.conversation.is_busy:
            scene.scope.cancel()
            return scene

        cancel(scene)
        since = clock.monotonic()
        await clock.advance(0)
        assert scene.is_over, f"moment {moment}: not settled"
        assert clock.monotonic() == since

    return scene


async def check_used_again(scene: Scene) -> None:
    conversation = scene.conversation
    assert scene.provider.open_streams == 0
    conversation.provider = provider = ScriptedProvider(otherwise="Fine.")
    before = conversation.messages

    assert (conversation.state, conversation.is_busy) == ("idle", False)
    assert scene.clock.pending == 0
    assert "begin" in texts_of(before)
    calls = sum(isinstance(block, ToolContent) for message in before for block in message.content)
    assert len(pairs(before)) == calls, sketch(before)
    assert max(runs[conversation.id].values(), default=0) <= 1
    answer = await conversation.send_message("again")
    sent = provider.requests[-1].messages
    assert not answer.cancelled
    assert not [*request_faults(sent), *wire_faults(provider.requests[-1])]
    assert not missing_from_request(sent, before, None)


async def _interrupt(scene: Scene) -> None:
    scene.conversation.provider = ScriptedProvider(otherwise="Yes?")
    response = await scene.conversation.interrupt("wait")
    assert response is not None
    assert response.text == "Yes?"
    assert texts_of(scene.conversation.messages)[-2:] == ["wait", "Yes?"]


async def _dispose(scene: Scene) -> None:
    await scene.conversation.aclose()
    assert scene.conversation.state == "disposed"


@pytest.mark.parametrize("streamed", [False, True], ids=["prompt", "stream"])
async def test_w_conv_1_a_cancel_at_any_await_point_settles_at_once(
    fake_clock: FakeClock, streamed: bool, anyio_backend: str
):
    histories = []

    for cancel in (cancel_response, cancel_the_task):
        kept = []

        for moment in range(1, 1000):
            scene = await cancelled_at(moment, fake_clock, cancel, streamed=streamed)

            if scene.is_complete:
                break

            kept.append(sketch(scene.conversation.messages))
            await check_used_again(scene)

        histories.append(kept)

    assert len(kept) > 50

    if anyio_backend == "asyncio":  # trio runs tasks in random order, so that moments are not the same in two runs
        assert histories[0] == histories[1], "a cancelled task leaves the same history as cancel_response()"


@pytest.mark.parametrize("end", [_interrupt, _dispose])
async def test_w_wf_1_interrupting_or_disposing_at_any_await_point_settles_the_caller(
    fake_clock: FakeClock, end: Callable[[Scene], Awaitable[None]]
):
    for moment in range(1, 1000):
        scene = Scene(fake_clock, streamed=False)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scene.play)
            await scene.move_on(moment)

            if scene.is_over:
                break

            await end(scene)
            await fake_clock.advance(0)
            assert scene.is_over, f"moment {moment}: the caller still waits"

        assert scene.provider.open_streams == 0
        assert fake_clock.pending == 0

    assert moment > 50


async def test_cx_06_a_stream_left_after_any_event_is_closed_and_leaves_a_conversation_to_use(fake_clock: FakeClock):
    for taken in range(1, 1000):
        scene = Scene(FakeClock(autojump=True), streamed=True)
        with use_clock(scene.clock):
            async with scene.conversation.stream("begin") as stream:
                left = taken

                async for _ in stream:
                    left -= 1

                    if not left:
                        break

            await check_used_again(scene)

        if left:
            break

    assert taken > 30
