"""Whole conversations over the wire: chat completions, the policy, the tool loop, cancel."""

from __future__ import annotations

import json

import anyio
import anyio.lowlevel
import httpx2
import pytest
from chat_wire import call, calls, chunk
from openai import AsyncOpenAI
from simulacra_openai import OpenAIProvider

from simulacra import Conversation, RetryPolicy, ToolClass, WorkflowManager, run_sync, tool
from simulacra.clock import use_clock
from simulacra.errors import (
    AuthenticationError,
    ContextWindowError,
    OverloadedError,
    ProtocolError,
    ProviderError,
    QuotaExceededError,
    RateLimitError,
    StreamInterruptedError,
)
from simulacra.events import ContentUpdate, RawRequest, RawResponse, RawStream
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
from simulacra.testing import EmulatedCall, EmulatedReply, FakeClock, OpenAIEmulator, event_stream, http_error

pytestmark = pytest.mark.anyio
FINE = EmulatedReply(text=["fi", "ne"])


@pytest.fixture
def jumping():
    """A clock that jumps over every back-off."""
    with use_clock(FakeClock(autojump=True)) as clock:
        yield clock


def raw(*events, **fields):
    return EmulatedReply(body=list(events), content_type="text/event-stream", **fields)


def stream_of(*chunks, done=True):
    return raw(*event_stream(chunks, done=done))


def sent_messages(emulator):
    return [request.body["messages"] for request in emulator.requests]


@tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


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


async def test_rt_01_an_overload_inside_the_stream_is_retried(serve, jumping):
    overload = raw(b'event: error\ndata: {"error": {"type": "overloaded_error", "message": "busy"}}\n\n')

    async with serve([overload, FINE]) as (emulator, provider):
        conversation = Conversation(provider)
        heard = []
        conversation.on(ContentUpdate, heard.append)
        response = await conversation.prompt("hi")

    assert response.text == "fine"
    assert [event.delta for event in heard] == ["fi", "ne"]
    assert len(emulator.requests) == 2
    assert len(conversation.messages) == 2


async def test_rt_03_a_wait_hint_is_never_shortened(serve, jumping):
    policy = RetryPolicy(3, 1000, 2, max_total_ms=600_000)

    async with serve([http_error(429, retry_after=171), FINE]) as (_, provider):
        assert (await Conversation(provider, policy).prompt("hi")).text == "fine"

    assert sum(jumping.sleeps) >= 171


async def test_rt_03_a_hint_beyond_the_total_ends_at_once(serve, jumping):
    async with serve([http_error(429, retry_after=171)]) as (emulator, provider):
        with pytest.raises(RateLimitError) as raised:
            await Conversation(provider).prompt("hi")

    assert raised.value.retry_after == 171
    assert len(emulator.requests) == 1
    assert jumping.sleeps == []


async def test_rt_05_used_up_credit_is_one_request(serve, jumping):
    async with serve([http_error(429, code="insufficient_quota")]) as (emulator, provider):
        with pytest.raises(QuotaExceededError):
            await Conversation(provider).prompt("hi")

    assert len(emulator.requests) == 1


@pytest.mark.parametrize("failure", [http_error(429), EmulatedReply(hangs_up=True), http_error(500)])
async def test_rt_07_the_policy_alone_counts_requests(serve, jumping, failure):
    async with serve([failure] * 4, max_retries=9) as (emulator, provider):
        with pytest.raises(ProviderError):
            await Conversation(provider, RetryPolicy(4, 1000, 2)).prompt("hi")

    assert len(emulator.requests) == 4


async def test_rt_09_an_error_chunk_never_becomes_text(serve, jumping):
    error = raw(b'data: {"error":{"message":"overloaded","code":503}}\n\n')

    async with serve([error] * 3) as (_, provider):
        conversation = Conversation(provider)
        heard = []
        conversation.on(ContentUpdate, heard.append)

        with pytest.raises(OverloadedError) as raised:
            await conversation.prompt("hi")

    assert raised.value.provider == "openai"
    assert raised.value.model == "gpt-test"
    assert heard == []
    assert conversation.messages == ()


@pytest.mark.parametrize(
    ("status", "requests"),
    [
        (400, 1),
        (401, 1),
        (403, 1),
        (404, 1),
        (422, 1),
        (408, 3),
        (409, 3),
        (429, 3),
        (500, 3),
        (502, 3),
        (503, 3),
        (529, 3),
    ],
)
async def test_rt_r4_what_is_retried(serve, jumping, status, requests):
    async with serve([http_error(status)] * requests) as (emulator, provider):
        with pytest.raises(ProviderError) as raised:
            await Conversation(provider).prompt("hi")

    assert raised.value.status == status
    assert len(emulator.requests) == requests


async def test_rt_r1_after_the_first_delivered_event_nothing_is_repeated(serve, jumping):
    async with serve([EmulatedReply(text=["Hel", "lo"], cut_after=3)]) as (emulator, provider):
        conversation = Conversation(provider)
        heard = []
        conversation.on(ContentUpdate, heard.append)

        with pytest.raises(StreamInterruptedError) as raised:
            await conversation.prompt("hi")

    assert raised.value.partial.text == "".join(event.delta for event in heard) == "Hello"
    assert len(emulator.requests) == 1
    assert conversation.messages == ()


async def test_rt_r5_a_retry_repeats_the_request_and_no_tool(serve, jumping):
    runs = []

    @tool
    def once() -> str:
        """Count."""
        runs.append(1)
        return "counted"

    async with serve([EmulatedReply(calls=[EmulatedCall(tool="once")]), http_error(503), FINE]) as (emulator, provider):
        assert (await Conversation(provider, toolkit=[once]).prompt("hi")).text == "fine"

    assert runs == [1]
    assert sent_messages(emulator)[1] == sent_messages(emulator)[2]
    assert "counted" in sent_messages(emulator)[2][-1]["content"]


async def test_st_01_a_clean_end_of_file_is_no_answer(serve, jumping):
    cut = EmulatedReply(text="The answer", finish=None, usage=None, closed=False)

    async with serve([cut]) as (_, provider):
        with pytest.raises(StreamInterruptedError) as raised:
            await Conversation(provider).prompt("hi")

    assert raised.value.partial.text == "The answer"


async def test_st_01_before_any_delivered_event_it_is_retried(serve, jumping):
    empty = stream_of(chunk({"role": "assistant", "content": ""}), done=False)

    async with serve([empty, FINE]) as (_, provider):
        assert (await Conversation(provider).prompt("hi")).text == "fine"


async def test_st_r1_done_without_a_reason_is_an_answer(serve):
    async with serve([stream_of(chunk({"content": "Yes."}))]) as (_, provider):
        response = await Conversation(provider).prompt("hi")

    assert (response.text, response.stop_reason) == ("Yes.", "other")


async def test_st_r1_open_calls_of_an_interrupted_stream_never_run(serve, jumping):
    runs = []

    @tool
    def danger() -> None:
        """Count."""
        runs.append(1)

    cut = EmulatedReply(text="Well", calls=[EmulatedCall(tool="danger")], finish=None, usage=None, closed=False)

    async with serve([cut]) as (_, provider):
        with pytest.raises(StreamInterruptedError):
            await Conversation(provider, toolkit=[danger]).prompt("hi")

    assert runs == []


async def test_st_r3_a_reply_that_never_opens_names_the_provider(serve, jumping):
    async with serve([raw(b": ping\n\n")] * 3) as (_, provider):
        with pytest.raises(ProtocolError, match="openai/gpt-test") as raised:
            await Conversation(provider).prompt("hi")

    assert raised.value.partial is None


async def test_st_r4_a_call_without_argument_text_has_the_empty_object(serve):
    @tool
    def now() -> str:
        """The time."""
        return "noon"

    async with serve([EmulatedReply(calls=[EmulatedCall(tool="now", arguments=())]), FINE]) as (emulator, provider):
        await Conversation(provider, toolkit=[now]).prompt("hi")

    replayed = sent_messages(emulator)[1]
    assert replayed[1]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert "noon" in replayed[2]["content"]


async def test_st_06_pings_and_unknown_events_are_ignored(serve):
    events = [b": ping\n\n", b"event: future_event\ndata: {}\n\n", b"event: ping\ndata: null\n\n"]
    events += event_stream([calls(call("add", "", index=0, id="a")), calls(call(None, '{"a":1}', index=0))], done=False)
    events += [b": ping\n\n", *event_stream([chunk(finish="tool_calls")])]

    async with serve([raw(*events), FINE]) as (emulator, provider):
        assert (await Conversation(provider, toolkit=[add]).prompt("hi")).text == "fine"

    assert json.loads(sent_messages(emulator)[1][-1]["content"]) == {"result": True, "output": 3}


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


async def test_cp_12_a_prompt_that_was_too_large_does_not_stay(serve):
    too_large = http_error(400, "too long", code="context_length_exceeded")

    async with serve([too_large, FINE]) as (emulator, provider):
        conversation = Conversation(provider)

        with pytest.raises(ContextWindowError):
            await conversation.prompt("x" * 1_000_000)

        assert conversation.messages == ()
        await conversation.prompt("hi")

    assert len(emulator.requests[0].content) > 1_000_000
    assert sent_messages(emulator)[1] == [{"role": "user", "content": "hi"}]


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


async def test_a_tool_loop_over_the_wire(serve):
    rounds = [EmulatedReply(calls=[EmulatedCall(tool="add", arguments={"a": n})] * 2) for n in range(3)]

    async with serve([*rounds, FINE]) as (emulator, provider):
        result = await WorkflowManager(Conversation(provider, toolkit=[add])).run("go")

    assert (result.reason, result.text, len(emulator.requests)) == ("complete", "fine", 4)
    assert [message["role"] for message in sent_messages(emulator)[3]] == ["user"] + ["assistant", "tool", "tool"] * 3


async def test_a_wrong_key_is_a_typed_error(serve):
    async with serve([http_error(401, "Incorrect API key")]) as (_, provider):
        with pytest.raises(AuthenticationError, match="Incorrect API key"):
            await Conversation(provider).prompt("hi")


def test_a_plain_script_talks_over_the_wire():
    with OpenAIEmulator([EmulatedReply(text="one"), EmulatedReply(text=["t", "wo"])]) as emulator:
        provider = OpenAIProvider(AsyncOpenAI(base_url=emulator.base_url, api_key="k"), model="m")

        with Conversation(provider) as conversation:
            assert conversation.prompt_sync("hi").text == "one"

            with conversation.stream_sync("again") as stream:
                assert "".join(stream.text_deltas()) == "two"

        run_sync(provider.client.close())
