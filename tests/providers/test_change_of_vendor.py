"""A conversation changes its vendor in the middle of its history, there and back."""

from __future__ import annotations

import json

import pytest
from anthropic import AsyncAnthropic
from messages_wire import add, sent_messages
from openai import AsyncOpenAI
from simulacra_anthropic import AnthropicProvider
from simulacra_openai import OpenAIProvider

from simulacra import Conversation
from simulacra.testing import AnthropicEmulator, EmulatedCall, EmulatedReply, OpenAIEmulator

pytestmark = pytest.mark.anyio

FOREIGN_ID = "functions.add:0"


async def test_w_prv_3_a_history_goes_from_openai_to_anthropic_and_back():
    asked = EmulatedReply(calls=[EmulatedCall(tool="add", arguments={"a": 1}, id=FOREIGN_ID)])
    thought = EmulatedReply(thinking="secret", calls=[EmulatedCall(tool="add", arguments={"a": 2}, id="toolu_1")])
    chat = [asked, EmulatedReply(text="three"), EmulatedReply(text="back")]

    async with (
        OpenAIEmulator(chat) as there,
        AnthropicEmulator([thought, EmulatedReply(text="four")]) as here,
        AsyncOpenAI(base_url=there.base_url, api_key="k") as openai_client,
        AsyncAnthropic(base_url=here.base_url, api_key="k") as anthropic_client,
    ):
        first = OpenAIProvider(openai_client, model="gpt-test")
        conversation = Conversation(first, toolkit=[add])
        await conversation.prompt("one")
        conversation.provider = AnthropicProvider(anthropic_client, model="claude-test")
        await conversation.prompt("two")
        conversation.provider = first
        await conversation.prompt("three")

    call, answer = sent_messages(here)[0][1]["content"][0], sent_messages(here)[0][2]["content"][0]
    assert call["id"] == answer["tool_use_id"] != FOREIGN_ID
    assert json.loads(answer["content"])["output"] == 3
    assert sent_messages(here)[1][:4] == sent_messages(here)[0][:4]
    assert b"secret" in here.requests[1].content
    assert b"secret" not in there.requests[2].content
    assert [one["role"] for one in there.requests[2].body["messages"]][-5:] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
