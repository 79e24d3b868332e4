"""A reply that pauses goes on within the same turn, and is one message."""

from __future__ import annotations

import json

import pytest
from messages_wire import block, reply, sent_messages, stream_of, text, user
from simulacra_anthropic.provider import MAX_CONTINUATIONS

from simulacra import Conversation
from simulacra.errors import OverloadedError, StreamInterruptedError
from simulacra.messages import AssistantMessage, RawContent, TextContent
from simulacra.testing import EmulatedReply, Recorder, http_error
from simulacra.testing.driving import events_of, failure_of, reply_of, request

pytestmark = pytest.mark.anyio

SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}


def paused(*blocks, **fields):
    usage = {"input_tokens": 10, "output_tokens": 2}

    return stream_of(reply(*blocks, reason="pause_turn", usage=usage, **fields))


FIRST = paused(text("searching", citations=None), block(SEARCH, '{"q": "x"}', index=1))
SECOND = stream_of(
    reply(
        block(FOUND),
        text("done", index=1),
        usage={"input_tokens": 20, "output_tokens": 3, "cache_read_input_tokens": 5},
    )
)


async def test_an_09_a_paused_reply_goes_back_unchanged_and_goes_on(serve):
    async with serve([FIRST, SECOND], prompt_caching=False) as (emulator, provider):
        response = await Conversation(provider).prompt("go")

    first, second = sent_messages(emulator)
    assert second == [
        *first,
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "searching", "citations": None},
                {**SEARCH, "input": {"q": "x"}},
            ],
        },
    ]
    assert (response.text, response.stop_reason) == ("searchingdone", "end_turn")
    assert [type(one) for one in response.message.content] == [TextContent, RawContent, RawContent, TextContent]


async def test_us_r1_each_request_of_a_paused_turn_is_counted_once(serve):
    async with serve([FIRST, SECOND]) as (_, provider):
        usage = (await reply_of(provider)).usage

    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens) == (35, 5, 5)


async def test_an_09_what_was_paused_goes_back_whole_in_the_next_turn(serve):
    async with serve([FIRST, SECOND, EmulatedReply(text="fine")], prompt_caching=False) as (emulator, provider):
        conversation = Conversation(provider)
        await conversation.prompt("go")
        await conversation.prompt("more")

    assert [one["type"] for one in sent_messages(emulator)[2][1]["content"]] == [
        "text",
        "server_tool_use",
        "web_search_tool_result",
        "text",
    ]


async def test_ant_9_a_turn_pauses_at_most_eight_times(serve):
    script = [paused(text(str(number))) for number in range(MAX_CONTINUATIONS + 1)]

    async with serve(script) as (emulator, provider):
        message = await reply_of(provider)

    assert MAX_CONTINUATIONS == 8
    assert len(emulator.requests) == 9
    assert (message.text, message.stop_reason) == ("012345678", "pause")
    assert emulator.requests[8].body["messages"][-1]["content"] == [
        {"type": "text", "text": str(number)} for number in range(8)
    ]


async def test_an_09_one_message_has_one_start_and_one_end(serve):
    recorder = Recorder()

    async with serve([FIRST, SECOND]) as (_, provider):
        events = [type(event).__name__ for event in await events_of(provider, request(observer=recorder))]

    assert (events.count("MessageStart"), events.count("MessageStop")) == (1, 1)
    assert [one["type"] for one in recorder.responses[0]["content"]] == [
        "text",
        "server_tool_use",
        "web_search_tool_result",
        "text",
    ]
    assert len(recorder.params) == len(recorder.responses) == 1


async def test_an_09_code_goes_on_in_its_container(serve):
    container = {"id": "container_1", "expires_at": "2027-01-01T00:00:00Z"}
    script = [paused(text("a"), container=container), EmulatedReply(text="b")]

    async with serve(script) as (emulator, provider):
        message = await reply_of(provider)

    assert emulator.requests[1].body["container"] == "container_1"
    assert json.loads(message.content[-1].data) == {"container": container}


async def test_an_09_a_prefill_and_what_follows_it_are_one_turn(serve):
    prefill = AssistantMessage((TextContent("title:"),))

    async with serve([paused(text(" a"), text("", index=1)), EmulatedReply(text="b")]) as (emulator, provider):
        await reply_of(provider, request(user("name it"), prefill))

    assert emulator.requests[1].body["messages"][-1] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "title:"}, {"type": "text", "text": " a"}],
    }
    assert len(emulator.requests[1].body["messages"]) == 2


async def test_w_rx_4_a_failure_after_a_pause_fails_the_turn_with_what_was_seen(serve):
    async with serve([FIRST, http_error(529)]) as (emulator, provider):
        conversation = Conversation(provider)

        with pytest.raises(OverloadedError) as raised:
            await conversation.prompt("go")

    assert raised.value.partial.text == "searching"
    assert len(emulator.requests) == 2
    assert conversation.messages == ()


async def test_an_09_a_continuation_that_is_cut_is_interrupted(serve):
    cut = stream_of([*reply(text("do"))[:-2]])

    async with serve([FIRST, cut]) as (_, provider):
        error, delivered = await failure_of(provider)

    assert type(error) is StreamInterruptedError
    assert delivered == "searchingdo"
