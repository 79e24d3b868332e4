"""Whole conversations over the wire: the Messages API, the policy, the tool loop, a change of vendor."""

from __future__ import annotations

import json

import pytest
from messages_wire import FINE, START, add, block, call, reply, sent_messages, stream_of, text

from simulacra import Conversation, ToolClass, WorkflowManager
from simulacra.clock import use_clock
from simulacra.errors import RateLimitError, StreamInterruptedError
from simulacra.messages import MediaContent, TextContent
from simulacra.policies import RetryPolicy
from simulacra.testing import EmulatedCall, EmulatedReply, FakeClock, http_error

pytestmark = pytest.mark.anyio

SIGNED = block(
    {"type": "thinking", "thinking": "", "signature": ""}, "hm", {"type": "signature_delta", "signature": "SIG"}
)


async def test_ant_1_three_turns_carry_the_history(serve):
    script = [EmulatedReply(text=str(number)) for number in range(3)]

    async with serve(script) as (emulator, provider), Conversation(provider, system="Be brief.") as conversation:
        replies = [(await conversation.prompt(text)).text for text in ("a", "b", "c")]

    assert replies == ["0", "1", "2"]
    assert [(turn["role"], turn["content"]) for turn in sent_messages(emulator)[2]] == [
        ("user", "a"),
        ("assistant", "0"),
        ("user", "b"),
        ("assistant", "1"),
        ("user", "c"),
    ]


async def test_an_r3_thinking_is_replayed_in_every_round_of_a_tool_loop(serve):
    rounds = [
        stream_of(reply(SIGNED, call(f"t{number}", "add", f'{{"a": {number}}}', index=1), reason="tool_use"))
        for number in range(5)
    ]

    async with serve([*rounds, FINE], thinking={"enable": True}) as (emulator, provider):
        conversation = Conversation(provider, toolkit=[add])
        done = await WorkflowManager(conversation).run("go")

    last = sent_messages(emulator)[5]
    assert (done.reason, done.text) == ("complete", "fine")
    assert [turn["role"] for turn in last] == ["user"] + ["assistant", "user"] * 5
    assert all(turn["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "SIG"} for turn in last[1::2])
    assert [json.loads(turn["content"][0]["content"])["output"] for turn in last[2::2]] == [2, 3, 4, 5, 6]


async def test_an_r6_the_results_of_parallel_calls_are_one_user_message(serve):
    calls = [EmulatedCall(tool="add", arguments={"a": number}, id=f"t{number}") for number in range(3)]

    async with serve([EmulatedReply(text="Adding.", calls=calls), FINE]) as (emulator, provider):
        await Conversation(provider, toolkit=[add]).prompt("go")

    assert [one["tool_use_id"] for one in sent_messages(emulator)[1][2]["content"]] == ["t0", "t1", "t2"]


async def test_w_ant_5_no_request_of_an_agent_has_more_than_four_marks(serve):
    rounds = [EmulatedReply(calls=[EmulatedCall(tool="add", arguments={"a": 1})] * 2) for _ in range(3)]

    async with serve([*rounds, FINE]) as (emulator, provider):
        await WorkflowManager(Conversation(provider, toolkit=[add], system="s")).run("go")

    assert [sent.content.count(b'"cache_control"') for sent in emulator.requests] == [3, 4, 4, 4]


async def test_rt_01_one_retry_and_the_caller_sees_only_the_good_turn(serve):
    overloaded = stream_of([START, {"type": "error", "error": {"type": "overloaded_error"}}])

    with use_clock(FakeClock(autojump=True)):
        async with serve([overloaded, FINE]) as (emulator, provider):
            response = await Conversation(provider).prompt("hi")

    assert response.text == "fine"
    assert len(emulator.requests) == 2


async def test_st_01_a_cut_answer_fails_with_what_was_seen_and_is_not_repeated(serve):
    async with serve([stream_of([START, *text("The answer")]), FINE]) as (emulator, provider):
        conversation = Conversation(provider)

        with pytest.raises(StreamInterruptedError) as raised:
            await conversation.prompt("hi")

        assert len(emulator.requests) == 1
        assert raised.value.partial.text == "The answer"
        assert (raised.value.provider, raised.value.model) == ("anthropic", "claude-test")
        assert (await conversation.prompt("again")).text == "fine"


async def test_rt_07_exactly_as_many_requests_as_the_policy_makes(serve):
    with use_clock(FakeClock(autojump=True)):
        async with serve([http_error(429)] * 4, max_retries=9) as (emulator, provider):
            with pytest.raises(RateLimitError):
                await Conversation(provider, policy=RetryPolicy(4, 100, 2)).prompt("hi")

    assert len(emulator.requests) == 4


async def test_mu_r2_an_image_of_a_tool_stays_in_its_result(serve):
    class Look(ToolClass):
        """Look at something."""

        async def execute(self) -> list:
            return [TextContent("a cat"), MediaContent(kind="image", media_type="image/png", data=b"\xff\xd8\xff")]

    name = Look.get_definition().name

    async with serve([EmulatedReply(calls=[EmulatedCall(tool=name)]), FINE]) as (emulator, provider):
        await Conversation(provider, toolkit=[Look]).prompt("hi")

    (sent,) = sent_messages(emulator)[1][2]["content"]
    assert [part["type"] for part in sent["content"]] == ["text", "text", "image"]
    assert sent["content"][2]["source"]["media_type"] == "image/jpeg"


async def test_an_r5_a_refusal_and_a_full_window_are_said_as_such(serve):
    refusal = EmulatedReply(refusal="No.")
    full = EmulatedReply(text="Then", finish="model_context_window_exceeded")

    async with serve([refusal, full]) as (_, provider):
        conversation = Conversation(provider)
        responses = [await conversation.prompt("a"), await conversation.prompt("b")]

    assert [(one.text, one.stop_reason) for one in responses] == [("No.", "refusal"), ("Then", "context_window")]


async def test_an_r1_an_empty_reply_leaves_a_history_that_is_accepted(serve):
    async with serve([EmulatedReply(), FINE]) as (emulator, provider):
        conversation = Conversation(provider)
        assert (await conversation.prompt("a")).text == ""
        await conversation.prompt("b")

    assert sent_messages(emulator)[1] == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]


async def test_ant_10_a_wrong_key_and_an_unknown_model_say_who_and_where(serve):
    async with serve([http_error(401, "invalid x-api-key"), http_error(404, "model: claude-test")]) as (_, provider):
        conversation = Conversation(provider)

        for _ in range(2):
            with pytest.raises(Exception, match="anthropic/claude-test"):
                await conversation.prompt("hi")
