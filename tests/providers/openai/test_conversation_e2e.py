"""Whole conversations over the wire: chat completions, the policy, the tool loop, cancel."""

from __future__ import annotations

import json

import pytest
from chat_wire import FINE, add, call, calls, chunk, raw, sent_messages, stream_of
from openai import AsyncOpenAI
from simulacra_openai import OpenAIProvider

from simulacra import Conversation, ToolClass, WorkflowManager, run_sync
from simulacra.events import RawRequest, RawResponse, RawStream
from simulacra.messages import (
    AssistantMessage,
    MediaContent,
    RawContent,
    TextContent,
    ThinkingContent,
    ToolContent,
    ToolResultContent,
    ToolSuccessResult,
    UserMessage,
)
from simulacra.testing import EmulatedCall, EmulatedReply, OpenAIEmulator

pytestmark = pytest.mark.anyio


async def test_oai_1_three_turns_carry_the_history(serve):
    async with (
        serve([EmulatedReply(text=str(number)) for number in range(3)]) as (emulator, provider),
        Conversation(provider, system="Be brief.") as conversation,
    ):
        replies = [(await conversation.prompt(text)).text for text in ("a", "b", "c")]

    assert replies == ["0", "1", "2"]
    assert sent_messages(emulator)[2] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "0"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "c"},
    ]


async def test_rx_5_raw_events_show_the_wire(serve):
    async with serve([FINE]) as (emulator, provider):
        conversation = Conversation(provider)
        seen = []

        for event in (RawRequest, RawStream, RawResponse):
            conversation.on(event, seen.append)

        await conversation.prompt("hi")

    assert seen[0].data == emulator.requests[0].body
    assert [event.data["choices"][0]["delta"].get("content") for event in seen[1:4]] == ["", "fi", "ne"]
    assert seen[-1].data["choices"][0]["message"]["content"] == "fine"


async def test_rx_6_a_listener_changes_what_is_sent(serve):
    async with serve([FINE]) as (emulator, provider):
        conversation = Conversation(provider)

        async def change(event):
            event.params["temperature"] = 0
            event.params["extra_headers"] = {"x-late": "1"}

        conversation.on("before_request", change)
        await conversation.prompt("hi")

    assert emulator.requests[0].body["temperature"] == 0
    assert emulator.requests[0].headers["x-late"] == "1"


async def test_oa_01_usage_in_a_chunk_without_choices(serve):
    chunks = [chunk({"content": "Hi"}), chunk(finish="stop")]
    last = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}

    async with serve([stream_of(*chunks, last)]) as (_, provider):
        response = await Conversation(provider).prompt("hi")

    assert (response.text, response.stop_reason) == ("Hi", "end_turn")
    assert (response.usage.input_tokens, response.usage.output_tokens) == (3, 1)


async def test_oa_03_two_calls_labelled_0_both_run(serve):
    reply = stream_of(
        calls(call("add", '{"a":1}', index=0, id="a")),
        calls(call("add", '{"a":2}', index=0, id="b")),
        chunk(finish="tool_calls"),
    )

    async with serve([reply, FINE]) as (emulator, provider):
        await Conversation(provider, toolkit=[add]).prompt("hi")

    results = [(one["tool_call_id"], json.loads(one["content"])["output"]) for one in sent_messages(emulator)[1][2:]]
    assert results == [("a", 3), ("b", 4)]


async def test_tl_r4_calls_without_ids_are_each_answered_once(serve):
    whole = {"role": "assistant", "tool_calls": [call("add", f'{{"a":{n}}}', id="") for n in (1, 2)]}
    reply = EmulatedReply(body={"choices": [{"index": 0, "message": whole, "finish_reason": "tool_calls"}]})

    async with serve([reply, FINE]) as (emulator, provider):
        await Conversation(provider, toolkit=[add]).prompt("hi")

    _, asked, *answers = sent_messages(emulator)[1]
    assert [one["id"] for one in asked["tool_calls"]] == [one["tool_call_id"] for one in answers]
    assert [json.loads(one["content"])["output"] for one in answers] == [3, 4]


async def test_oa_08_a_filtered_reply_is_one_request(serve):
    async with serve([stream_of(chunk({"content": None}, "content_filter"))]) as (emulator, provider):
        response = await Conversation(provider).prompt("hi")

    assert response.stop_reason == "content_filter"
    assert len(emulator.requests) == 1


async def test_oa_r3_a_refusal_is_one_request_with_its_words(serve):
    async with serve([EmulatedReply(refusal=["I ", "can't."])]) as (emulator, provider):
        response = await Conversation(provider).prompt("hi")

    assert (response.text, response.stop_reason) == ("I can't.", "refusal")
    assert len(emulator.requests) == 1


@pytest.mark.parametrize("arguments", ['{"path": "a.txt", "con', '{"q":"abc'])
async def test_tl_09_cut_arguments_are_answered_and_replayed_as_valid_json(serve, arguments):
    broken = EmulatedReply(calls=[EmulatedCall(tool="add", arguments=(arguments,))])

    async with serve([broken, FINE, FINE]) as (emulator, provider):
        conversation = Conversation(provider, toolkit=[add])
        await conversation.prompt("hi")
        await conversation.prompt("again")

    for messages in sent_messages(emulator)[1:]:
        assert json.loads(messages[1]["tool_calls"][0]["function"]["arguments"]) == {}
        assert json.loads(messages[2]["content"])["result"] is False


async def test_w_oai_4_a_null_for_an_optional_parameter_is_no_argument(serve):
    reply = EmulatedReply(calls=[EmulatedCall(tool="add", arguments={"a": 1, "b": None})])

    async with serve([reply, FINE]) as (emulator, provider):
        await Conversation(provider, toolkit=[add]).prompt("hi")

    schema = emulator.requests[0].body["tools"][0]["function"]
    assert schema["strict"] is True
    assert schema["parameters"]["properties"]["b"]["type"] == ["integer", "null"]
    assert json.loads(sent_messages(emulator)[1][-1]["content"])["output"] == 3


async def test_mu_03_an_image_of_a_tool_comes_after_its_result(serve):
    class Look(ToolClass):
        """Look at something."""

        async def execute(self) -> list:
            return [TextContent("a cat"), MediaContent(kind="image", media_type="image/png", data=b"\x89PNG")]

    name = Look.get_definition().name

    async with serve([EmulatedReply(calls=[EmulatedCall(tool=name)]), FINE]) as (emulator, provider):
        await Conversation(provider, toolkit=[Look]).prompt("hi")

    result, shown = sent_messages(emulator)[1][2:]
    assert result["role"] == "tool"
    assert "a cat" in result["content"]
    assert shown["role"] == "user"
    assert shown["content"][0]["type"] == "image_url"


async def test_un_01_what_is_stored_sent_and_shown_is_equal(serve):
    lone = b'data: {"choices": [{"index": 0, "delta": {"content": "b\\ud83d"}}]}\n\n'

    async with serve([raw(lone, b"data: [DONE]\n\n"), FINE]) as (emulator, provider):
        conversation = Conversation(provider)
        await conversation.prompt("a\udc9d \U0001f600")
        await conversation.prompt("again")

    assert [message["content"] for message in sent_messages(emulator)[1]] == ["a\ufffd \U0001f600", "b\ufffd", "again"]
    assert conversation.messages[0].content[0].text == "a\ufffd \U0001f600"


async def test_w_prv_3_a_history_of_another_vendor_is_accepted(serve):
    foreign_id = "functions.read:0" * 4
    history = [
        UserMessage((TextContent("q"),)),
        AssistantMessage(
            (
                ThinkingContent("hidden", extended={"signature": "sig"}),
                RawContent(model_kind="anthropic", data='{"type": "server_tool_use"}'),
                ToolContent(tool_request_id=foreign_id, tool="add", params={"a": 1}),
            )
        ),
        UserMessage(
            (ToolResultContent(tool_request_id=foreign_id, tool="add", result=ToolSuccessResult(result=True)),)
        ),
        AssistantMessage((TextContent("done"),)),
    ]

    async with serve([FINE]) as (emulator, provider):
        conversation = Conversation(provider)
        conversation.load(history)
        await conversation.prompt("go on")

    asked, answered = sent_messages(emulator)[0][1:3]
    assert asked["content"] is None
    assert asked["tool_calls"][0]["id"] == answered["tool_call_id"]
    assert len(answered["tool_call_id"]) <= 40
    assert b"hidden" not in emulator.requests[0].content


async def test_a_tool_loop_over_the_wire(serve):
    rounds = [EmulatedReply(calls=[EmulatedCall(tool="add", arguments={"a": n})] * 2) for n in range(3)]

    async with serve([*rounds, FINE]) as (emulator, provider):
        result = await WorkflowManager(Conversation(provider, toolkit=[add])).run("go")

    assert (result.reason, result.text, len(emulator.requests)) == ("complete", "fine", 4)
    assert [message["role"] for message in sent_messages(emulator)[3]] == ["user"] + ["assistant", "tool", "tool"] * 3


def test_a_plain_script_talks_over_the_wire():
    with OpenAIEmulator([EmulatedReply(text="one"), EmulatedReply(text=["t", "wo"])]) as emulator:
        provider = OpenAIProvider(AsyncOpenAI(base_url=emulator.base_url, api_key="k"), model="m")

        with Conversation(provider) as conversation:
            assert conversation.prompt_sync("hi").text == "one"

            with conversation.stream_sync("again") as stream:
                assert "".join(stream.text_deltas()) == "two"

        run_sync(provider.client.close())
