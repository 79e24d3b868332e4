from __future__ import annotations

from contextlib import aclosing

import pytest
from chat_wire import chunk, raw

from simulacra.errors import (
    ContextWindowError,
    OverloadedError,
    ProtocolError,
    QuotaExceededError,
    RateLimitError,
    StreamInterruptedError,
)
from simulacra.messages import Usage
from simulacra.streaming import MessageStop, TextDelta
from simulacra.testing import EmulatedReply, Recorder, event_stream, http_error
from simulacra.testing.driving import events_of, failure_of, reply_of, request

pytestmark = pytest.mark.anyio


async def test_w_pol_4_a_connection_that_fails_is_tried_once(serve):
    async with serve([EmulatedReply(hangs_up=True)], max_retries=9) as (emulator, provider):
        await failure_of(provider)

    assert len(emulator.requests) == 1


async def test_rt_05_used_up_credit_is_final(serve):
    async with serve([http_error(429, code="insufficient_quota")]) as (_, provider):
        error, _ = await failure_of(provider)

    assert type(error) is QuotaExceededError
    assert not error.retryable


@pytest.mark.parametrize(
    ("hint", "seconds"),
    [("171", 171), ("0.25", 0.25), ("-3", None), ("soon", None), ("Thu, 01 Jan 1970 00:00:00 GMT", 0)],
)
async def test_rt_r2_wait_hints_are_read_in_each_form(serve, hint, seconds):
    async with serve([http_error(429, retry_after=hint)]) as (_, provider):
        error, _ = await failure_of(provider)

    assert error.retry_after == seconds


async def test_rt_r2_milliseconds_come_first_and_exactly(serve):
    async with serve([http_error(503, retry_after=9, headers={"retry-after-ms": "1250"})]) as (_, provider):
        error, _ = await failure_of(provider)

    assert error.retry_after == 1.25


async def test_rt_r3_status_and_code_decide_and_not_the_words(serve):
    async with serve([http_error(429, "prompt is too long, context length"), http_error(400, "context_length")]) as (
        _,
        provider,
    ):
        throttled, _ = await failure_of(provider)
        too_long, _ = await failure_of(provider)

    assert type(throttled) is RateLimitError
    assert type(too_long) is ContextWindowError


async def test_rt_01_an_error_event_before_content_is_typed_and_retryable(serve):
    error_event = b'event: error\ndata: {"type": "overloaded_error", "message": "busy"}\n\n'

    async with serve([raw(error_event)]) as (_, provider):
        error, text = await failure_of(provider)

    assert type(error) is OverloadedError
    assert error.retryable
    assert error.request_id == "req_1"
    assert text == ""


async def test_rt_09_an_error_chunk_and_the_end_of_the_stream(serve):
    async with serve([raw(b'data: {"error":{"message":"overloaded","code":503}}\n\n')]) as (_, provider):
        error, text = await failure_of(provider)

    assert type(error) is OverloadedError
    assert text == ""


async def test_rt_r1_what_came_before_an_error_is_delivered_wherever_the_bytes_were_cut(serve):
    events = event_stream([chunk({"content": "Hel"}), chunk({"content": "lo"}), {"error": {"code": 503}}], done=False)

    async with serve([raw(*events), raw(b"".join(events)), raw(*events, write_size=1)]) as (_, provider):
        failures = [await failure_of(provider) for _ in range(3)]

    assert [(type(error), text) for error, text in failures] == [(OverloadedError, "Hello")] * 3


async def test_st_r1_an_end_of_file_without_closing_event(serve):
    async with serve([raw(*event_stream([chunk({"content": "The answer"})], done=False))]) as (_, provider):
        error, text = await failure_of(provider)

    assert type(error) is StreamInterruptedError
    assert text == "The answer"


async def test_st_r1_an_end_in_the_middle_of_an_event(serve):
    async with serve([raw(*event_stream([chunk({"content": "x"})], done=False), b'data: {"choices": [{"del')]) as (
        _,
        provider,
    ):
        error, _ = await failure_of(provider)

    assert type(error) is StreamInterruptedError


async def test_st_r1_a_connection_lost_after_the_finish_reason_takes_no_answer_away(serve):
    reply = EmulatedReply(text="done", cut_after=3)

    async with serve([reply]) as (_, provider):
        message = await reply_of(provider)

    assert (message.text, message.stop_reason, message.usage) == ("done", "end_turn", Usage())


@pytest.mark.parametrize(
    "empty",
    [
        raw(),
        raw(b": ping\n\n"),
        raw(b"data: [DONE]\n\n"),
        raw(b'data: {"choices": []}\n\n'),
        EmulatedReply(body="<html>please log in</html>", content_type="text/html"),
        EmulatedReply(body={}),
        EmulatedReply(body="not json"),
    ],
)
async def test_st_r3_a_reply_that_never_opens_is_an_error(serve, empty):
    async with serve([empty]) as (_, provider):
        error, _ = await failure_of(provider)

    assert type(error) is ProtocolError


async def test_oai_10_after_done_an_open_connection_is_not_waited_for(serve):
    events = event_stream([chunk({"content": "x"}), chunk(finish="stop")])

    async with serve([raw(*events, stall_after=len(events)), EmulatedReply(text="next")]) as (emulator, provider):
        assert (await reply_of(provider)).text == "x"
        await emulator.abandoned()
        assert (await reply_of(provider)).text == "next"


async def test_us_r3_usage_after_the_finish_reason_comes_before_the_closing_event(serve):
    async with serve([EmulatedReply(text="x", usage=Usage(input_tokens=3, output_tokens=1))]) as (_, provider):
        events = await events_of(provider, request())

    assert [type(event).__name__ for event in events][-3:] == ["ContentStop", "UsageUpdate", "MessageStop"]


async def test_un_r1_half_a_character_per_chunk_is_put_together(serve):
    halves = [b'data: {"choices": [{"index": 0, "delta": {"content": "\\ud83d"}}]}\n\n']
    halves += [b'data: {"choices": [{"index": 0, "delta": {"content": "\\ude00"}}]}\n\n', b"data: [DONE]\n\n"]

    async with serve([raw(*halves)]) as (_, provider):
        assert (await reply_of(provider)).text == "\U0001f600"


async def test_un_01_a_lone_surrogate_of_the_model_is_replaced(serve):
    lone = b'data: {"choices": [{"index": 0, "delta": {"content": "a\\ud83d"}}]}\n\n'

    async with serve([raw(lone, b"data: [DONE]\n\n")]) as (_, provider):
        assert (await reply_of(provider)).text == "a\ufffd"


async def test_un_r1_text_of_every_kind_reaches_the_server_as_it_is(serve):
    text = "a\u2028b\x00c\U0001f600 <|endoftext|> \ud800".replace("\ud800", "")

    async with serve([EmulatedReply(text="x")]) as (emulator, provider):
        await reply_of(provider, request(system=(text,)))

    assert emulator.requests[0].body["messages"][0]["content"] == text


async def test_rx_5_each_chunk_is_told_before_its_events_and_pings_too(serve):
    events = [b": ping\n\n", *event_stream([chunk({"content": "x"}), chunk(finish="stop")])]
    recorder = Recorder()

    async with serve([raw(*events)]) as (_, provider), aclosing(provider.stream(request(observer=recorder))) as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                assert recorder.chunks[-1]["choices"][0]["delta"] == {"content": "x"}

            if isinstance(event, MessageStop):
                assert len(recorder.responses) == 1

    assert recorder.chunks[0].startswith(": ping")
    assert recorder.responses[0]["choices"][0]["message"]["content"] == "x"


async def test_rx_5_without_a_listener_only_the_time_of_each_read_is_told(serve):
    recorder = Recorder()
    recorder.wants_chunks = False

    async with serve([EmulatedReply(text=["a", "b"])]) as (_, provider):
        await reply_of(provider, request(observer=recorder))

    assert set(recorder.chunks) == {None}


async def test_w_rx_1_a_slow_consumer_slows_the_stream(serve):
    piece = "x" * 65_536
    reply = EmulatedReply(text=[piece] * 400)

    async with serve([reply]) as (emulator, provider):
        async with aclosing(provider.stream(request())) as events:
            await anext(events)
            await anext(events)
            await emulator.received()
            before = emulator.open_connections

        await emulator.abandoned()  # the server was still writing: what was not asked for was not read

    assert before == 1


async def test_a_server_that_ignores_stream_is_read(serve):
    recorder = Recorder(stream=False)

    async with serve([EmulatedReply(text="whole", thinking="hm")]) as (emulator, provider):
        emulator.rules = None
        message = await reply_of(provider, request(observer=recorder))

    assert message.text == "whole"
    assert len(recorder.chunks) == 1
    assert message.usage.input_tokens == 10
