"""A reply on its way over the wire: what the observer hears, how it may end, and what is made of an odd one."""

from __future__ import annotations

import json
from contextlib import aclosing

import pytest
from gemini_wire import chunk, text

from simulacra.errors import ContentFilteredError, ProtocolError, StreamInterruptedError
from simulacra.messages import Usage
from simulacra.streaming import MessageStop, TextDelta
from simulacra.testing import EmulatedReply, Recorder, gemini_stream
from simulacra.testing.driving import events_of, failure_of, reply_of, request

pytestmark = pytest.mark.anyio

COUNT = {"promptTokenCount": 3, "candidatesTokenCount": 1, "totalTokenCount": 4}


def raw(*writes, **fields):
    return EmulatedReply(body=list(writes), content_type="text/event-stream", **fields)


def stream_of(*chunks, **fields):
    return raw(*gemini_stream(chunks), **fields)


async def test_st_r1_an_end_without_a_finish_reason_is_no_answer(serve):
    async with serve([stream_of(chunk(text("The answer")))]) as (_, provider):
        error, seen = await failure_of(provider)

    assert type(error) is StreamInterruptedError
    assert seen == "The answer"


async def test_a_connection_lost_after_the_finish_reason_costs_the_usage_alone(serve):
    ended, counted = chunk(text("whole"), finish="STOP"), chunk(usage=COUNT)
    events = gemini_stream([ended, counted])

    async with serve([raw(*events, cut_after=1), raw(*events)]) as (_, provider):
        cut, whole = await reply_of(provider), await reply_of(provider)

    assert (cut.text, cut.stop_reason, cut.usage) == ("whole", "end_turn", Usage())
    assert whole.usage.input_tokens == 3


async def test_a_connection_lost_before_it_is_an_interruption(serve):
    async with serve([raw(*gemini_stream([chunk(text("ha")), chunk(text("lf"))]), cut_after=1)]) as (_, provider):
        error, seen = await failure_of(provider)

    assert type(error) is StreamInterruptedError
    assert seen == "ha"


@pytest.mark.parametrize(
    "empty",
    [
        raw(),
        raw(b": ping\r\n\r\n"),
        stream_of({}),
        stream_of({"usageMetadata": COUNT}),
        EmulatedReply(body="<html>please log in</html>", content_type="text/html"),
        EmulatedReply(body={}),
        EmulatedReply(body="not json"),
    ],
)
async def test_st_r3_a_reply_that_never_opens_is_an_error(serve, empty):
    async with serve([empty]) as (_, provider):
        error, _ = await failure_of(provider)

    assert type(error) is ProtocolError


async def test_goo_8_a_blocked_prompt_is_an_error_that_no_repetition_changes(serve):
    feedback = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": COUNT}

    async with serve([stream_of(feedback)]) as (_, provider):
        error, _ = await failure_of(provider)

    assert type(error) is ContentFilteredError
    assert "PROHIBITED_CONTENT" in str(error)
    assert not error.retryable


async def test_rx_5_each_chunk_is_told_before_what_is_made_of_it(serve):
    recorder = Recorder()
    chunks = [chunk(text("x")), chunk(finish="STOP", usage=COUNT)]

    async with (
        serve([stream_of(*chunks)]) as (_, provider),
        aclosing(provider.stream(request(observer=recorder))) as stream,
    ):
        async for event in stream:
            if isinstance(event, TextDelta):
                assert recorder.chunks == chunks[:1]

            if isinstance(event, MessageStop):
                assert len(recorder.responses) == 1

    assert recorder.chunks == chunks
    assert recorder.responses[0]["candidates"][0]["content"]["parts"] == [text("x")]
    assert recorder.responses[0]["candidates"][0]["finishReason"] == "STOP"
    assert recorder.responses[0]["usageMetadata"] == COUNT
    assert recorder.responses[0]["responseId"] == "resp_1"


async def test_rx_5_without_a_listener_only_the_time_of_each_read_is_told(serve):
    recorder = Recorder()
    recorder.wants_chunks = False

    async with serve([EmulatedReply(text=["a", "b"])]) as (_, provider):
        await reply_of(provider, request(observer=recorder))

    assert set(recorder.chunks) == {None}


async def test_a_server_that_does_not_stream_is_read(serve):
    whole = chunk(text("hm", thought=True), text("whole"), finish="STOP", usage=COUNT)
    recorder = Recorder()

    async with serve([EmulatedReply(body=whole)]) as (_, provider):
        message = await reply_of(provider, request(observer=recorder))

    assert message.text == "whole"
    assert message.content[0].thought == "hm"
    assert (message.usage.input_tokens, recorder.chunks) == (3, [whole])


async def test_us_r3_usage_stands_before_the_closing_event(serve):
    async with serve([EmulatedReply(text="x", usage=Usage(input_tokens=3, output_tokens=1))]) as (_, provider):
        events = [type(event).__name__ for event in await events_of(provider, request())]

    assert events[-3:] == ["ContentStop", "UsageUpdate", "MessageStop"]


async def test_us_r3_usage_that_never_comes_is_unknown(serve):
    async with serve([EmulatedReply(text="x", usage=None)]) as (_, provider):
        assert (await reply_of(provider)).usage == Usage()


async def test_un_r1_half_a_character_per_chunk_is_put_together(serve):
    halves = b"".join(gemini_stream([chunk(text("<1>")), chunk(text("<2>"), finish="STOP")]))
    halves = halves.replace(b"<1>", b"\\ud83d").replace(b"<2>", b"\\ude00")

    async with serve([raw(halves)]) as (_, provider):
        assert (await reply_of(provider)).text == "\U0001f600"


async def test_un_01_a_lone_surrogate_of_the_model_is_replaced(serve):
    parts = [text("a<>"), {"functionCall": {"name": "f", "args": {"x": "<>"}}}, {"future": "<>"}]
    body = b"".join(gemini_stream([chunk(*parts, finish="STOP")])).replace(b"<>", b"\\ud83d")

    async with serve([raw(body)]) as (_, provider):
        message = await reply_of(provider)

    said, called, other = message.content
    assert (said.text, called.params) == ("a\ufffd", {"x": "\ufffd"})
    assert json.loads(other.data) == {"future": "\ufffd"}


async def test_st_r2_crlf_split_between_two_reads_ends_one_line(serve):
    body = b"".join(gemini_stream([chunk(text("a\u2028b")), chunk(finish="STOP")]))
    pieces = [piece for line in body.split(b"\n") for piece in (line, b"\n")][:-1]

    async with serve([raw(*[piece for piece in pieces if piece])]) as (_, provider):
        assert (await reply_of(provider)).text == "a\u2028b"
