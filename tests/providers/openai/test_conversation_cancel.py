"""Cancel in each phase of a request, seen by the server."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import httpx2
import pytest
from chat_wire import FINE, add
from openai import AsyncOpenAI
from simulacra_openai import OpenAIProvider

from simulacra import Conversation
from simulacra.events import ContentUpdate
from simulacra.testing import EmulatedCall, EmulatedReply, OpenAIEmulator, http_error

pytestmark = pytest.mark.anyio


PHASES = {
    "before the headers": EmulatedReply(is_silent=True),
    "before the first event": EmulatedReply(stall_after=0),
    "in mid-stream": EmulatedReply(text=["Hel", "lo"], stall_after=3),
    "in a call": EmulatedReply(calls=[EmulatedCall(tool="add", arguments={"a": 1})], stall_after=3),
}


@pytest.mark.parametrize("phase", PHASES)
async def test_cx_r3_cancel_closes_the_connection_in_each_phase(serve, phase):
    async with serve([PHASES[phase], FINE]) as (emulator, provider):
        conversation = Conversation(provider, toolkit=[add])
        responses = []

        async def ask():
            responses.append(await conversation.prompt("hi"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await emulator.received()

            if phase == "in mid-stream":
                while conversation.state != "streaming_response":
                    await anyio.lowlevel.checkpoint()

            conversation.cancel_response()
            conversation.cancel_response()

        await emulator.abandoned()
        assert responses[0].cancelled
        assert (await conversation.prompt("again")).text == "fine"

    assert conversation.messages[0].content[0].text == "hi"


async def test_cx_r4_no_request_follows_a_cancel_in_the_back_off(serve, fake_clock):
    async with serve([http_error(429, retry_after=60), FINE]) as (emulator, provider):
        conversation = Conversation(provider)
        responses = []

        async def ask():
            responses.append(await conversation.prompt("hi"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)

            while not fake_clock.sleeps:
                await anyio.lowlevel.checkpoint()

            conversation.cancel_response()

        assert responses[0].cancelled
        assert len(emulator.requests) == 1
        assert (await conversation.prompt("again")).text == "fine"


async def test_cx_06_leaving_early_frees_the_only_connection_of_the_pool():
    stalled = EmulatedReply(text=["a", "b"], stall_after=2)

    async with OpenAIEmulator([stalled, stalled, FINE]) as emulator:
        pool = httpx2.AsyncClient(limits=httpx2.Limits(max_connections=1), trust_env=False)

        async with AsyncOpenAI(base_url=emulator.base_url, api_key="k", http_client=pool) as client:
            conversation = Conversation(OpenAIProvider(client, model="m"))

            for count in (1, 2):
                async with conversation.stream("hi") as stream:
                    async for event in stream:
                        if isinstance(event, ContentUpdate):
                            break

                await emulator.abandoned(count)
                assert (await stream.response()).text == "a"

            assert (await conversation.prompt("again")).text == "fine"


async def test_cancelling_the_awaiting_task_closes_the_connection(serve):
    async with serve([EmulatedReply(text=["Hel", "lo"], stall_after=3), FINE]) as (emulator, provider):
        conversation = Conversation(provider)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(conversation.prompt, "hi")
            await emulator.received()

            while conversation.state != "streaming_response":
                await anyio.lowlevel.checkpoint()

            tasks.cancel_scope.cancel()

        await emulator.abandoned()
        assert (await conversation.prompt("again")).text == "fine"

    assert [message.role for message in conversation.messages][-2:] == ["user", "assistant"]
