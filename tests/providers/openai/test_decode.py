from __future__ import annotations

import json

import pytest
from chat_wire import call, calls, chunk, decoded, message_of
from simulacra_openai.presets import Preset

from simulacra.errors import (
    ProtocolError,
)
from simulacra.messages import RawContent, TextContent, ThinkingContent
from simulacra.streaming import (
    ContentStop,
    MessageStart,
    MessageStop,
    TextDelta,
    ThinkingDelta,
    ToolArgumentsDelta,
    ToolCallStart,
)

STOP = chunk(finish="stop")
USAGE = {"prompt_tokens": 3, "completion_tokens": 1}


def said(*pieces):
    return [chunk({"content": piece}) for piece in pieces]


def texts(events):
    return [event.text for event in events if isinstance(event, TextDelta)]


def test_oai_6_content_pieces_are_one_text_block_with_deltas():
    events = decoded([chunk({"role": "assistant", "content": ""}), *said("Hel", "lo"), STOP])

    assert events == [
        MessageStart("chatcmpl-1", "gpt-test-1"),
        TextDelta(0, "Hel"),
        TextDelta(0, "lo"),
        ContentStop(0),
        MessageStop("end_turn"),
    ]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_oai_6_reasoning_is_thinking_and_ends_when_text_begins(field):
    events = decoded([chunk({field: "hm"}), chunk({field: ", yes"}), *said("42"), STOP])

    assert events[1:5] == [ThinkingDelta(0, "hm"), ThinkingDelta(0, ", yes"), ContentStop(0), TextDelta(1, "42")]


def test_oai_6_reasoning_said_twice_in_one_delta_counts_once():
    message = message_of([chunk({"reasoning_content": "hm", "reasoning": "hm"}), STOP])

    assert [block.thought for block in message.content] == ["hm"]


def test_oai_6_calls_stop_at_the_finish_reason_in_order():
    events = decoded(
        [
            *said("so"),
            calls(call("a", "", index=0, id="x")),
            calls(call("b", "{}", index=1, id="y")),
            calls(call(None, "{}", index=0)),
            chunk(finish="tool_calls"),
        ]
    )

    assert events[1:] == [
        TextDelta(0, "so"),
        ContentStop(0),
        ToolCallStart(1, "x", "a"),
        ToolCallStart(2, "y", "b"),
        ToolArgumentsDelta(2, "{}"),
        ToolArgumentsDelta(1, "{}"),
        ContentStop(1),
        ContentStop(2),
        MessageStop("tool_use"),
    ]


def test_w_oai_1_a_first_chunk_with_empty_content_leaves_no_block():
    assert message_of([chunk({"role": "assistant", "content": ""}), STOP]).content == ()


def test_w_oai_2_a_first_delta_without_a_role_works():
    assert message_of([*said("hi"), STOP]).text == "hi"


@pytest.mark.parametrize("nothing", [None, "", [], {}])
def test_oai_7_nothing_in_a_delta_creates_no_block(nothing):
    delta = {"content": nothing, "refusal": nothing, "tool_calls": nothing, "reasoning": nothing, "odd": nothing}

    assert message_of([chunk(delta), STOP]).content == ()


def test_oai_7_unknown_keys_become_one_raw_block_each():
    message = message_of(
        [
            chunk({"content": "a", "annotations": [1], "sound": {"id": "i", "data": "AA"}}),
            chunk({"annotations": [2], "sound": {"data": "BB"}}),
            STOP,
        ]
    )
    raw = [json.loads(block.data) for block in message.content if isinstance(block, RawContent)]

    assert raw == [{"annotations": [1, 2]}, {"sound": {"id": "i", "data": "AABB"}}]
    assert message.text == "a"


@pytest.mark.parametrize("value", [0, False])
def test_st_r5_falsy_values_of_unknown_keys_are_values(value):
    message = message_of([chunk({"odd": value}), STOP])

    assert [json.loads(block.data) for block in message.content] == [{"odd": value}]


def test_oai_7_arguments_are_read_at_the_stop_and_empty_means_none():
    message = message_of([calls(call("f", "", index=0, id="a")), chunk(finish="tool_calls")])

    assert message.tool_calls[0].params == {}
    assert message.tool_calls[0].error is None


def test_st_r4_arguments_that_never_come_are_the_empty_object():
    message = message_of([calls(call("f", index=0, id="a")), chunk(finish="tool_calls")])

    assert message.tool_calls[0].params == {}


def test_st_04_fragments_cut_inside_an_escape_are_joined_once():
    pieces = ['{"t":"\\ud8', "3d\\ude", "00 x\\", '"y"}']
    message = message_of(
        [
            calls(call("f", "", index=0, id="a")),
            *(calls(call(None, piece, index=0)) for piece in pieces),
            chunk(finish="tool_calls"),
        ]
    )

    assert message.tool_calls[0].params == {"t": '\U0001f600 x"y'}


@pytest.mark.parametrize("odd", [{"type": "ping"}, {"type": "future_event", "choices": None}, {"object": "keepalive"}])
def test_st_06_pings_and_events_of_the_future_are_ignored(odd):
    assert message_of([odd, *said("a"), odd, *said("b"), STOP, odd]).text == "ab"


@pytest.mark.parametrize("broken", [{"choices": 3}, {"choices": [7]}, {"choices": [{"index": 0, "delta": "x"}]}])
@pytest.mark.parametrize("before", [[], said("x")])
def test_a_chunk_of_another_shape_is_a_protocol_error(broken, before):
    with pytest.raises(ProtocolError, match="not what chat completions send"):
        decoded([*before, broken])


def test_content_that_is_a_list_has_texts_thoughts_and_raw_parts():
    image = {"type": "image_url", "image_url": {"url": "u"}}
    message = message_of(
        [
            chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}),
            chunk({"content": [{"type": "thinking", "thinking": "!"}]}),
            chunk({"content": [{"type": "text", "text": "see"}, image]}),
            *said("end"),
            STOP,
        ]
    )

    assert [type(block) for block in message.content] == [ThinkingContent, TextContent, RawContent, TextContent]
    assert message.content[0].thought == "hm!"
    assert json.loads(message.content[2].data) == image


def test_a_reply_that_was_not_streamed_is_read_as_well():
    message = {
        "role": "assistant",
        "content": "x",
        "reasoning": "hm",
        "annotations": [],
        "tool_calls": [call("f", "{}", id="", type="function"), call("f", '{"a": 1}', id="", type="function")],
    }
    reply = message_of([{"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}])

    assert reply.text == "x"
    assert [one.params for one in reply.tool_calls] == [{}, {"a": 1}]
    assert len({one.tool_request_id for one in reply.tool_calls}) == 2


def test_thinking_is_marked_where_the_service_wants_it_back():
    preset = Preset(replayed_thinking="reasoning_content")
    message = message_of([chunk({"reasoning_content": "hm"}), STOP], preset=preset)

    assert message.content[0].extended == {"openai_thinking": "reasoning_content"}


def test_w_msg_3_the_wires_seconds_never_become_a_timestamp():
    message = message_of([*said("x"), STOP])

    assert message.timestamp == 0
    assert message.content[0].timestamp == 0
