"""Cancelling in every phase of a turn, in every way: within 100 ms, and what is left of it."""

from __future__ import annotations

import asyncio

import anyio
import anyio.to_thread
import pytest
from conversation_kit import BEGUN, SENT, Heard, sketch, talk
from turn_phases import PHASES, SETTLE, STOPPED, Phase

from simulacra.conversation import Conversation
from simulacra.events import ResponseCancelled
from simulacra.messages import Usage
from simulacra.policies import RetryPolicy
from simulacra.streaming import (
    MessageStart,
)
from simulacra.testing import FakeClock, ScriptedProvider, stall
from simulacra.transformers import ContextTransformer

pytestmark = pytest.mark.anyio


def stopped_in(phase: Phase) -> list[str]:
    """What is announced when the turn is cancelled there."""
    before = "streaming_response" if "message_start" in phase.names else "awaiting_response"

    return [*phase.names, f"{before}>stopping", "history_change", *STOPPED]


async def settled(conversation: Conversation, phase: Phase, heard: Heard, clock: FakeClock) -> None:
    """What holds after a cancel, whatever the way."""
    provider = conversation.provider
    assert isinstance(provider, ScriptedProvider)

    assert sketch(conversation.messages) == phase.kept
    assert heard.names == stopped_in(phase)
    assert conversation.state == "idle"
    assert not conversation.is_busy
    assert provider.open_streams == 0
    assert clock.pending == 0

    conversation.core.settings.policy = RetryPolicy(1, 0, 1)
    conversation.core.settings.transformer = ContextTransformer()
    conversation.core.emitter.close()
    provider._script.steps.clear()
    provider.add("well")

    assert (await conversation.prompt("new")).text == "well"
    assert sketch(conversation.messages) == [*phase.kept, "U new", "A well"]
    assert sketch(provider.requests[-1].messages) == [*phase.kept, "U new"]


@pytest.mark.parametrize("name", PHASES)
async def test_w_conv_1_cancel_response_in_each_phase(name, ask, fake_clock):
    phase = PHASES[name]
    conversation = phase.start()
    heard = Heard(conversation)
    call = await ask(lambda: conversation.prompt("hi"))
    assert not call.is_over

    began = fake_clock.monotonic()
    conversation.cancel_response()
    conversation.cancel_response()
    await fake_clock.advance(SETTLE)

    assert call.ended_at is not None
    assert call.ended_at - began <= SETTLE
    assert call.outcome.cancelled
    assert call.outcome.stop_reason == "cancelled"
    assert sketch([*([call.outcome.message] if call.outcome.message else [])]) == phase.kept[1:]
    await settled(conversation, phase, heard, fake_clock)


@pytest.mark.parametrize("name", PHASES)
async def test_d_3_cancelling_the_awaiting_task_leaves_the_same_history(name, ask, fake_clock):
    phase = PHASES[name]
    conversation = phase.start()
    heard = Heard(conversation)
    call = await ask(lambda: conversation.prompt("hi"))
    began = fake_clock.monotonic()
    call.scope.cancel()
    await fake_clock.advance(SETTLE)

    assert call.scope.cancelled_caught  # the cancellation came out again
    assert call.outcome is None
    assert call.ended_at - began <= SETTLE
    await settled(conversation, phase, heard, fake_clock)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("name", PHASES)
async def test_cx_r3_asyncio_tasks_may_be_cancelled_and_cancelled_again(name, times, fake_clock):
    phase = PHASES[name]
    conversation = phase.start()
    heard = Heard(conversation)
    task = asyncio.create_task(conversation.prompt("hi"))
    await fake_clock.advance(0)

    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)

    await fake_clock.advance(SETTLE)

    with pytest.raises(asyncio.CancelledError):
        await task

    await settled(conversation, phase, heard, fake_clock)


@pytest.mark.parametrize("name", PHASES)
async def test_cx_06_leaving_the_stream_early_in_each_phase(name, ask, fake_clock):
    phase = PHASES[name]
    conversation = phase.start()
    heard = Heard(conversation)
    leave = anyio.Event()
    responses = []

    async def take():
        async with conversation.stream("hi") as stream:
            with anyio.CancelScope() as scope:

                async def watch():
                    await leave.wait()
                    scope.cancel()

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(watch)

                    async for _ in stream:
                        pass

        responses.append(await stream.response())

    call = await ask(take)
    began = fake_clock.monotonic()
    leave.set()
    await fake_clock.advance(SETTLE)

    assert call.ended_at is not None
    assert call.ended_at - began <= SETTLE
    assert responses[0].cancelled
    await settled(conversation, phase, heard, fake_clock)


@pytest.mark.parametrize("name", PHASES)
async def test_w_conv_4_cancel_from_another_thread_in_each_phase(name, ask, fake_clock):
    phase = PHASES[name]
    conversation = phase.start()
    heard = Heard(conversation)
    call = await ask(lambda: conversation.prompt("hi"))
    await anyio.to_thread.run_sync(conversation.cancel_response)
    await fake_clock.advance(SETTLE)

    assert call.outcome.cancelled
    await settled(conversation, phase, heard, fake_clock)


@pytest.mark.parametrize("name", ["transforming", "in_the_policy", "before_connection", "back_off"])
async def test_conv_18_cancel_before_the_connection(name, ask):
    conversation = PHASES[name].start()
    heard = Heard(conversation)
    call = await ask(lambda: conversation.prompt("hi"))
    conversation.cancel_response()
    await ask(anyio.lowlevel.checkpoint)

    assert call.outcome.message is None
    assert heard.names[-4:] == ["awaiting_response>stopping", "history_change", *STOPPED]
    assert heard.of(ResponseCancelled)[0].message is None


@pytest.mark.parametrize("name", ["mid_stream", "stalled"])
async def test_conv_19_cancel_while_streaming_or_stalled(name, ask):
    conversation = PHASES[name].start()
    heard = Heard(conversation)
    call = await ask(lambda: conversation.prompt("hi"))
    conversation.cancel_response()
    await ask(anyio.lowlevel.checkpoint)

    assert call.outcome.text == PHASES[name].kept[1].removeprefix("A* ")
    assert heard.names[-4:] == ["streaming_response>stopping", "history_change", *STOPPED]
    assert heard.of(ResponseCancelled)[0].message == conversation.messages[-1]
    assert conversation.provider.open_streams == 0


async def test_conv_20_cancel_between_connection_and_first_event(ask):
    conversation = talk([MessageStart(usage=Usage(input_tokens=9)), stall()])
    heard = Heard(conversation)
    call = await ask(lambda: conversation.prompt("hi"))
    assert conversation.provider.open_streams == 1
    conversation.cancel_response()
    await ask(anyio.lowlevel.checkpoint)

    assert call.outcome.message is None
    assert heard.names == [*BEGUN, *SENT, "awaiting_response>stopping", "history_change", *STOPPED]
    assert conversation.provider.open_streams == 0
