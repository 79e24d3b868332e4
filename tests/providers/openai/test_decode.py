from __future__ import annotations

import json

import pytest
from chat_wire import call, calls, chunk, decoded, folded, message_of
from simulacra_openai.decode import ChatDecoder
from simulacra_openai.presets import Preset

from simulacra.errors import (
    BadRequestError,
    OverloadedError,
    ProtocolError,
    ProviderError,
    ServerError,
    StreamInterruptedError,
)
from simulacra.messages import RawContent, TextContent, ThinkingContent, Usage
from simulacra.streaming import (
    ContentStop,
    MessageStart,
    MessageStop,
    TextDelta,
    ThinkingDelta,
    ToolArgumentsDelta,
    ToolCallStart,
    UsageUpdate,
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
            chunk({"content": "a", "annotations": [1], "audio": {"id": "i", "data": "AA"}}),
            chunk({"annotations": [2], "audio": {"data": "BB"}}),
            STOP,
        ]
    )
    raw = [json.loads(block.data) for block in message.content if isinstance(block, RawContent)]

    assert raw == [{"annotations": [1, 2]}, {"audio": {"id": "i", "data": "AABB"}}]
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


def test_oai_8_usage_is_read_in_the_engines_meaning():
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 6},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    message = message_of([*said("x"), STOP, {"choices": [], "usage": usage}])

    assert message.usage == Usage(input_tokens=10, output_tokens=4, cache_read_input_tokens=6, reasoning_tokens=3)


def test_w_oai_6_missing_details_are_unknown_and_not_zero():
    usage = {**USAGE, "prompt_tokens_details": None}

    assert message_of([*said("x"), STOP, {"choices": [], "usage": usage}]).usage == Usage(
        input_tokens=3, output_tokens=1
    )


@pytest.mark.parametrize(
    "late",
    [
        {"choices": [], "usage": USAGE},
        {"choices": [{"index": 0, "delta": {"content": ""}}], "usage": USAGE},
        {"choices": [{"index": 0, "delta": {}, "usage": USAGE}]},
        {"choices": [], "x_groq": {"usage": USAGE}},
    ],
)
def test_us_r3_usage_is_read_wherever_it_stands(late):
    assert message_of([*said("x"), STOP, late]).usage == Usage(input_tokens=3, output_tokens=1)


def test_us_r1_the_last_report_of_usage_holds():
    first = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 9}}
    message = message_of([*said("x"), first, STOP, {"choices": [], "usage": USAGE}])

    assert message.usage == Usage(input_tokens=3, output_tokens=1)


def test_us_r3_usage_that_never_comes_is_unknown():
    assert message_of([*said("x"), STOP]).usage == Usage()


def test_oa_01_the_last_chunk_has_usage_and_no_choice():
    events = decoded([*said("Hi"), STOP, {"choices": [], "usage": USAGE}])

    assert texts(events) == ["Hi"]
    assert events[-2:] == [UsageUpdate(Usage(input_tokens=3, output_tokens=1)), MessageStop("end_turn")]


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("stop", MessageStop("end_turn")),
        ("length", MessageStop("max_tokens")),
        ("tool_calls", MessageStop("tool_use")),
        ("function_call", MessageStop("tool_use")),
        ("content_filter", MessageStop("content_filter")),
        ("flux", MessageStop("other", "flux")),
    ],
)
def test_oai_9_finish_reasons(finish, expected):
    assert decoded([*said("x"), chunk(finish=finish)])[-1] == expected


def test_oa_08_a_filtered_empty_reply_says_so():
    message = message_of([chunk({"content": None}, "content_filter")])

    assert message.stop_reason == "content_filter"
    assert message.content == ()


def test_w_oai_9_refusal_pieces_stream_into_a_marked_block():
    events = decoded([chunk({"refusal": "I "}), chunk({"refusal": "can't."}), STOP])
    message = folded(events)

    assert texts(events) == ["I ", "can't."]
    assert message.content[0].extended == {"openai_refusal": True}
    assert message.stop_reason == "refusal"


@pytest.mark.parametrize("beside", [{"content": "Well. "}, {"tool_calls": [call("f", "{}", index=0, id="a")]}])
@pytest.mark.parametrize("finish", ["stop", "tool_calls", "content_filter"])
def test_oa_r3_a_refusal_is_the_outcome_whatever_stands_beside_it(beside, finish):
    message = message_of([chunk({**beside, "refusal": "No."}), chunk(finish=finish)])

    assert message.stop_reason == "refusal"
    assert message.text.endswith("No.")


def test_oa_r3_a_whole_refusal_counts_as_well():
    message = {"role": "assistant", "content": None, "refusal": "No."}
    reply = message_of([{"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}])

    assert (reply.text, reply.stop_reason) == ("No.", "refusal")


def test_w_oai_8_several_choices_never_mix():
    message = message_of(
        [
            chunk({"content": "a"}, index=0),
            chunk({"content": "X"}, index=1),
            {
                "choices": [
                    {"index": 1, "delta": {"content": "Y"}, "finish_reason": "length"},
                    {"index": 0, "delta": {"content": "b"}, "finish_reason": "stop"},
                ]
            },
        ]
    )

    assert (message.text, message.stop_reason) == ("ab", "end_turn")


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("chunks", [[], [{"choices": []}], [{}, {"choices": [], "usage": USAGE}]])
def test_oai_10_no_choice_is_no_data(chunks, done):
    with pytest.raises(ProtocolError, match="no data"):
        decoded(chunks, done=done)


def test_oai_10_done_without_a_finish_reason_is_other():
    message = message_of(said("x"), done=True)

    assert (message.stop_reason, message.text) == ("other", "x")
    assert message.stop_details


def test_st_r1_done_without_a_finish_reason_but_with_a_call_is_tool_use():
    assert message_of([calls(call("f", "{}", index=0, id="a"))], done=True).stop_reason == "tool_use"


def test_st_r1_neither_finish_reason_nor_done_is_interrupted():
    with pytest.raises(StreamInterruptedError):
        decoded(said("x"), done=False)


def test_st_r1_a_finish_reason_closes_without_done():
    assert message_of([*said("x"), STOP], done=False).stop_reason == "end_turn"


@pytest.mark.parametrize("odd", [{"type": "ping"}, {"type": "future_event", "choices": None}, {"object": "keepalive"}])
def test_st_06_pings_and_events_of_the_future_are_ignored(odd):
    assert message_of([odd, *said("a"), odd, *said("b"), STOP, odd]).text == "ab"


@pytest.mark.parametrize("broken", [{"choices": 3}, {"choices": [7]}, {"choices": [{"index": 0, "delta": "x"}]}])
@pytest.mark.parametrize("before", [[], said("x")])
def test_a_chunk_of_another_shape_is_a_protocol_error(broken, before):
    with pytest.raises(ProtocolError, match="not what chat completions send"):
        decoded([*before, broken])


def test_rt_01_an_overload_inside_the_stream_is_typed_by_its_type():
    with pytest.raises(OverloadedError) as raised:
        decoded([{"error": {"type": "overloaded_error", "message": "busy"}}])

    assert raised.value.retryable


@pytest.mark.parametrize("before", [[], said("x")])
def test_rt_09_an_error_chunk_is_no_text(before):
    with pytest.raises(OverloadedError) as raised:
        decoded([*before, {"error": {"message": "overloaded", "code": 503}}])

    assert raised.value.retryable
    assert raised.value.status == 503


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ({"error": {"code": 400, "message": "Token limit reached"}, "choices": []}, BadRequestError),
        ({"error": "something"}, ServerError),
        ({"object": "error", "message": "busy", "code": 503}, OverloadedError),
        ({"choices": [], "x_groq": {"error": "over_capacity"}}, ServerError),
    ],
)
def test_rt_09_errors_of_compatible_services(report, expected):
    with pytest.raises(expected):
        decoded([report])


def test_rt_09_an_error_names_the_request():
    decoder = ChatDecoder(headers={"x-request-id": "req_7"})

    with pytest.raises(ProviderError) as raised:
        decoder.decode({"error": {"message": "m"}})

    assert raised.value.request_id == "req_7"


@pytest.mark.parametrize("empty", [None, "", {}])
def test_oa_r4_an_empty_error_is_none(empty):
    assert message_of([chunk({"content": "x"}, error=empty), chunk(finish="stop", error=empty)]).text == "x"


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


def test_the_whole_completion_is_put_together():
    decoder = ChatDecoder()
    chunks = [
        chunk({"role": "assistant", "content": "", "odd": [1]}),
        *said("Hel", "lo"),
        calls(call("f", "{", index=0, id="a")),
        calls(call(None, "}", index=0)),
        chunk(finish="tool_calls"),
        {"choices": [], "usage": USAGE},
    ]

    for one in chunks:
        decoder.decode(one)

    assert decoder.completion() == {
        "id": "chatcmpl-1",
        "created": 1,
        "model": "gpt-test-1",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Hello",
                    "odd": [1],
                    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": USAGE,
    }


def test_w_msg_3_the_wires_seconds_never_become_a_timestamp():
    message = message_of([*said("x"), STOP])

    assert message.timestamp == 0
    assert message.content[0].timestamp == 0
