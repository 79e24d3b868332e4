"""Parts in a vendor's own form: the emulator streams them, the official SDK reads them, and they go back as they came."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from hypothesis import given
from hypothesis import strategies as st
from openai import AsyncOpenAI
from simulacra_anthropic import AnthropicProvider

from simulacra.conversation import Conversation
from simulacra.messages import RawContent, TextContent, ThinkingContent
from simulacra.serialization import dump_message, load_message
from simulacra.testing import AnthropicEmulator, EmulatedReply, GeminiEmulator, OpenAIResponsesEmulator
from simulacra.testing.emulators.anthropic_blocks import given_block

pytestmark = pytest.mark.anyio

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "1+2"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "title": "Sums", "url": "https://x", "encrypted_content": "RU5D"}],
}
CITED = {
    "type": "text",
    "text": "It is 3.",
    "citations": [
        {
            "type": "web_search_result_location",
            "cited_text": "3",
            "url": "https://x",
            "title": "Sums",
            "encrypted_index": "SW5k",
        }
    ],
}
SEALED = {"type": "redacted_thinking", "data": "UkVEQUNURUQ="}
SIGNED = {"type": "thinking", "thinking": "hm", "signature": "U0lH"}
SUMMARY = {"type": "compaction", "content": "They added numbers."}
BLOCKS = [SUMMARY, SIGNED, SEALED, SEARCH, FOUND, CITED]


def sdk_of(emulator: Any) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=emulator.base_url, api_key="k", max_retries=0)


async def test_the_official_sdk_reads_every_kind_of_block() -> None:
    body: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}

    async with (
        AnthropicEmulator(
            [EmulatedReply(blocks=BLOCKS, text="So."), EmulatedReply(blocks=BLOCKS, text="So.")]
        ) as emulator,
        sdk_of(emulator) as client,
    ):
        async with client.beta.messages.stream(**body) as stream:
            streamed = await stream.get_final_message()

        whole = await client.beta.messages.create(**body)

    expected = [*BLOCKS, {"type": "text", "text": "So."}]
    for message in (streamed, whole):
        told = [block.to_dict() for block in message.content]
        assert [{key: block[key] for key in wanted} for block, wanted in zip(told, expected, strict=True)] == expected


async def test_an_r3_every_block_goes_back_byte_for_byte_after_saving_and_loading() -> None:
    async with (
        AnthropicEmulator([EmulatedReply(blocks=BLOCKS), EmulatedReply(text="fine")]) as emulator,
        sdk_of(emulator) as client,
    ):
        provider = AnthropicProvider(client, model="m", prompt_caching=False)
        first = Conversation(provider)
        await first.prompt("What is 1+2?")
        second = Conversation(provider)
        second.load([load_message(dump_message(message)) for message in first.messages])
        await second.prompt("and now?")

    sent = emulator.requests[1].body["messages"][1]["content"]
    assert [json.dumps(block) for block in sent] == [json.dumps(block) for block in BLOCKS]
    reply = first.messages[1]
    assert [type(block) for block in reply.content] == [
        RawContent,
        ThinkingContent,
        ThinkingContent,
        RawContent,
        RawContent,
        TextContent,
    ]


async def test_context_editing_and_compaction_are_options_and_compacted_history_is_carried_on() -> None:
    edits = {"edits": [{"type": "clear_tool_uses_20250919"}, {"type": "compact_20260112"}]}
    betas = ["context-management-2025-06-27", "compact-2026-01-12"]

    async with (
        AnthropicEmulator([EmulatedReply(blocks=[SUMMARY], text="3"), EmulatedReply(text="4")]) as emulator,
        sdk_of(emulator) as client,
    ):
        conversation = Conversation(AnthropicProvider(client, model="m", betas=betas, context_management=edits))
        assert (await conversation.prompt("1+2?")).text == "3"
        assert (await conversation.prompt("and one more?")).text == "4"

    first, second = emulator.requests
    assert first.body["context_management"] == second.body["context_management"] == edits
    assert first.headers["anthropic-beta"] == ",".join(betas)
    assert first.path.endswith("?beta=true")
    assert second.body["messages"][1]["content"] == [SUMMARY, {"type": "text", "text": "3"}]


@given(
    st.dictionaries(
        st.text(max_size=5).filter(lambda key: key not in ("type", "input")),
        st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8), st.lists, max_leaves=5),
        max_size=4,
    )
)
def test_a_block_of_any_shape_opens_whole(fields: dict[str, Any]) -> None:
    block = given_block({"type": "future_block", **fields})

    assert block.opened == block.whole == {"type": "future_block", **fields}
    assert block.deltas == ()


async def test_output_items_of_the_responses_api() -> None:
    search = {
        "id": "ws_1",
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "1+2"},
    }

    async with (
        OpenAIResponsesEmulator([EmulatedReply(blocks=[search], text="3")]) as emulator,
        AsyncOpenAI(base_url=emulator.base_url, api_key="k", max_retries=0) as client,
    ):
        stream = await client.responses.create(model="m", input="1+2?", stream=True)
        done = [event.item.type async for event in stream if event.type == "response.output_item.done"]

    assert done == ["web_search_call", "message"]


def test_parts_of_gemini() -> None:
    from google.genai import Client  # noqa: PLC0415 -- only this test asks Gemini
    from google.genai.types import HttpOptions  # noqa: PLC0415 -- as above

    ran = {"executableCode": {"code": "print(3)", "language": "PYTHON"}}

    with GeminiEmulator([EmulatedReply(blocks=[ran], text="3")]) as emulator:
        client = Client(api_key="k", http_options=HttpOptions(base_url=emulator.base_url))
        answer = client.models.generate_content(model="m", contents="1+2?")
        client.close()

    assert answer.candidates[0].content.parts[0].executable_code.code == "print(3)"
