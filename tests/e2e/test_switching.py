"""A conversation that changes its vendor in the middle of a tool loop, over the official SDKs."""

from __future__ import annotations

from contextlib import AsyncExitStack
from itertools import permutations

import httpx2
import pytest
from anthropic import AsyncAnthropic
from google.genai import Client
from google.genai.types import HttpOptions
from openai import AsyncOpenAI
from simulacra_anthropic import AnthropicProvider
from simulacra_google import GoogleProvider
from simulacra_openai import OpenAIProvider
from simulacra_openai.responses import OpenAIResponsesProvider

from simulacra.conversation import Conversation
from simulacra.testing import (
    AnthropicEmulator,
    EmulatedCall,
    EmulatedReply,
    GeminiEmulator,
    OpenAIEmulator,
    OpenAIResponsesEmulator,
)
from simulacra.tools import ToolContext, tool

pytestmark = pytest.mark.anyio

ROUNDS = 2


def call(number):
    return EmulatedCall(tool="move_on", arguments={"step": number})


def round_of(number):
    return EmulatedReply(thinking=f"thought {number}", text=f"round {number}", calls=[call(number), call(number)])


async def anthropic(stack, script):
    emulator = await stack.enter_async_context(AnthropicEmulator(script))
    client = await stack.enter_async_context(AsyncAnthropic(base_url=emulator.base_url, api_key="k"))

    return emulator, AnthropicProvider(client, model="claude-test")


async def chat(stack, script):
    emulator = await stack.enter_async_context(OpenAIEmulator(script))
    client = await stack.enter_async_context(AsyncOpenAI(base_url=emulator.base_url, api_key="k"))

    return emulator, OpenAIProvider(client, model="gpt-test")


async def responses(stack, script):
    emulator = await stack.enter_async_context(OpenAIResponsesEmulator(script))
    client = await stack.enter_async_context(AsyncOpenAI(base_url=emulator.base_url, api_key="k"))

    return emulator, OpenAIResponsesProvider(client, model="gpt-test")


async def gemini(stack, script):
    emulator = await stack.enter_async_context(GeminiEmulator(script))
    http = await stack.enter_async_context(httpx2.AsyncClient(timeout=None))
    client = Client(api_key="k", http_options=HttpOptions(base_url=emulator.base_url, httpx_async_client=http))
    stack.callback(client.close)

    return emulator, GoogleProvider(client, model="gemini-3-pro")


VENDORS = {"anthropic": anthropic, "chat": chat, "gemini": gemini, "responses": responses}


@pytest.mark.parametrize("order", list(permutations(VENDORS)), ids="-".join)
async def test_w_prv_3_a_tool_loop_goes_on_with_another_vendor_in_each_round(order):
    async with AsyncExitStack() as stack:
        connected = []

        for place, name in enumerate(order):
            rounds = [round_of(place + len(order) * number) for number in range(ROUNDS)]
            last = [EmulatedReply(text="the end")] if place == 0 else []
            connected.append(await VENDORS[name](stack, [*rounds, *last]))

        turn = iter([provider for _, provider in connected] * (ROUNDS + 1))

        @tool
        async def move_on(context: ToolContext, step: int) -> str:
            """Go on with the next vendor."""
            return f"step {step}"

        conversation = Conversation(next(turn), toolkit=[move_on])

        def change_vendor(event):
            if event.current == "idle":
                conversation.provider = next(turn)

        conversation.on("state_change", change_vendor)
        response = await conversation.prompt("Go.")
        refused = [violation for emulator, _ in connected for violation in emulator.refused]
        sent = connected[0][0].requests[-1].content.decode()

    assert response.text == "the end"
    assert refused == []
    assert [len(emulator.requests) for emulator, _ in connected] == [ROUNDS + 1, *[ROUNDS] * (len(order) - 1)]
    assert all(f"step {number}" in sent and f"round {number}" in sent for number in range(ROUNDS * len(order)))
    assert not any(f"thought {number}" in sent for number in range(ROUNDS * len(order)) if number % len(order))
