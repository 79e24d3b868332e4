from __future__ import annotations

import pytest
from chat_wire import call, calls, chunk, decoded, folded, message_of
from simulacra_openai.decode import ChatDecoder

from simulacra.errors import (
    BadRequestError,
    OverloadedError,
    ProtocolError,
    ProviderError,
    ServerError,
    StreamInterruptedError,
)
from simulacra.messages import Usage
from simulacra.streaming import (
    MessageStop,
    TextDelta,
    UsageUpdate,
)

STOP = chunk(finish="stop")
USAGE = {"prompt_tokens": 3, "completion_tokens": 1}


def said(*pieces):
    return [chunk({"content": piece}) for piece in pieces]


def texts(events):
    return [event.text for event in events if isinstance(event, TextDelta)]


def test_oai_8_usage_is_read_in_the_engines_meaning():
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 6},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    message = message_of([*said("x"), STOP, {"choices": [], "usage": usage}])

    assert message.usage == Usage(input_tokens=10, output_tokens=4, cache_read_input_tokens=6, reasoning_tokens=3)


def test_us_r2_the_input_holds_what_was_cached():
    """Only what is left after cache reads and writes is uncached, whichever way a wire counts."""
    details = {"cached_tokens": 60, "cache_write_tokens": 30}
    usage = {"prompt_tokens": 100, "completion_tokens": 1, "prompt_tokens_details": details}
    found = message_of([*said("x"), STOP, {"choices": [], "usage": usage}]).usage

    assert (found.input_tokens, found.cache_read_input_tokens, found.cache_creation_input_tokens) == (100, 60, 30)


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
