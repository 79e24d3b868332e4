from __future__ import annotations

from contextlib import aclosing

import pytest
from messages_wire import START, block, call, raw, reply, stream_of, text

from simulacra.errors import OverloadedError, ProtocolError, StreamInterruptedError
from simulacra.messages import Usage
from simulacra.streaming import MessageStop, TextDelta
from simulacra.testing import EmulatedReply, Recorder, http_error, message_stream
from simulacra.testing.driving import events_of, failure_of, reply_of, request

pytestmark = pytest.mark.anyio


async def test_rt_01_an_overload_inside_a_good_answer_is_typed_and_retryable(serve):
    event = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}

    async with serve([stream_of([event]), stream_of([START, *text("Hel"), event])]) as (_, provider):
        before, nothing = await failure_of(provider)
        after, seen = await failure_of(provider)

    assert (type(before), type(after)) == (OverloadedError, OverloadedError)
    assert before.retryable
    assert before.request_id == "req_1"
    assert (nothing, seen) == ("", "Hel")


async def test_st_01_an_end_of_file_without_message_stop_is_no_answer(serve):
    async with serve([stream_of([START, *text("The answer")])]) as (_, provider):
        error, seen = await failure_of(provider)

    assert type(error) is StreamInterruptedError
    assert seen == "The answer"


@pytest.mark.parametrize(
    "empty",
    [
        raw(),
        raw(b": ping\n\n"),
        raw(b'event: ping\ndata: {"type": "ping"}\n\n'),
        EmulatedReply(body="<html>please log in</html>", content_type="text/html"),
        EmulatedReply(body={}),
        EmulatedReply(body="not json"),
    ],
)
async def test_st_r3_a_reply_that_never_opens_is_an_error(serve, empty):
    async with serve([empty]) as (_, provider):
        error, _ = await failure_of(provider)

    assert type(error) is ProtocolError


async def test_after_message_stop_an_open_connection_is_not_waited_for(serve):
    events = message_stream(reply(text("x")))

    async with serve([raw(*events, stall_after=len(events)), EmulatedReply(text="next")]) as (emulator, provider):
        assert (await reply_of(provider)).text == "x"
        await emulator.abandoned()
        assert (await reply_of(provider)).text == "next"


async def test_un_r1_half_a_character_per_delta_is_put_together(serve):
    halves = b"".join(message_stream([START, *text("<1>", "<2>"), *reply(text("x"))[-2:]]))
    halves = halves.replace(b"<1>", b"\\ud83d").replace(b"<2>", b"\\ude00")

    async with serve([raw(halves)]) as (_, provider):
        assert (await reply_of(provider)).text == "\U0001f600"


async def test_un_01_a_lone_surrogate_of_the_model_is_replaced(serve):
    events = b"".join(message_stream(reply(text("a<>"), block({"type": "future", "x": "<>"}, index=1))))

    async with serve([raw(events.replace(b"<>", b"\\ud83d"))]) as (_, provider):
        message = await reply_of(provider)

    assert message.text == "a\ufffd"
    assert message.content[1].data == '{"type": "future", "x": "\ufffd"}'


async def test_rx_5_each_event_is_told_before_what_is_made_of_it(serve):
    recorder = Recorder()

    async with (
        serve([stream_of([{"type": "ping"}, *reply(text("x"))])]) as (_, provider),
        aclosing(provider.stream(request(observer=recorder))) as stream,
    ):
        async for event in stream:
            if isinstance(event, TextDelta):
                assert recorder.chunks[-1]["delta"] == {"type": "text_delta", "text": "x"}

            if isinstance(event, MessageStop):
                assert len(recorder.responses) == 1

    assert recorder.chunks[0] == {"type": "ping"}
    assert recorder.responses[0]["content"] == [{"type": "text", "text": "x"}]
    assert recorder.responses[0]["stop_reason"] == "end_turn"


async def test_rx_5_without_a_listener_only_the_time_of_each_read_is_told(serve):
    recorder = Recorder()
    recorder.wants_chunks = False

    async with serve([EmulatedReply(text=["a", "b"])]) as (_, provider):
        await reply_of(provider, request(observer=recorder))

    assert set(recorder.chunks) == {None}


async def test_a_server_that_ignores_stream_is_read(serve):
    script = [EmulatedReply(text="whole", thinking="hm", usage=Usage(input_tokens=10, output_tokens=5))]
    recorder = Recorder(stream=False)

    async with serve(script) as (_, provider):
        message = await reply_of(provider, request(observer=recorder))

    assert message.text == "whole"
    assert message.content[0].extended["signature"]
    assert (message.usage.input_tokens, len(recorder.chunks)) == (10, 1)


async def test_us_r3_usage_stands_before_the_closing_event(serve):
    async with serve([EmulatedReply(text="x", usage=Usage(input_tokens=3, output_tokens=1))]) as (_, provider):
        events = [type(event).__name__ for event in await events_of(provider, request())]

    assert events[-3:] == ["ContentStop", "UsageUpdate", "MessageStop"]


async def test_w_rx_2_arguments_in_many_pieces_are_parsed_once(serve, monkeypatch):
    from simulacra.streaming import live

    parsed = []
    monkeypatch.setattr(live, "parse_arguments", lambda given: (parsed.append(given), ({}, None))[1])
    fragments = ['{"t": "', *("x" for _ in range(500)), '"}']

    async with serve([stream_of(reply(call("t1", "add", *fragments), reason="tool_use"))]) as (_, provider):
        await reply_of(provider)

    assert len(parsed) == 1
    assert len(parsed[0]) == 509


async def test_rt_r2_wait_hints_and_request_ids_are_told(serve):
    async with serve([http_error(529, retry_after=171)]) as (_, provider):
        error, _ = await failure_of(provider)

    assert (error.retry_after, error.request_id) == (171, "req_1")
