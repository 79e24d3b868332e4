from __future__ import annotations

import json

import pytest
from messages_wire import START, STOP, block, call, decoded, ending, folded, message_of, reply, text
from simulacra_anthropic.decode import MessagesDecoder, events_of, read_usage

from simulacra.errors import OverloadedError, ProtocolError, RateLimitError, ServerError, StreamInterruptedError
from simulacra.messages import RawContent, TextContent, ThinkingContent, Usage
from simulacra.serialization import dump_message, load_message
from simulacra.streaming import (
    ContentExtended,
    ContentStop,
    MessageStart,
    MessageStop,
    TextDelta,
    ThinkingDelta,
    ThinkingStart,
    ToolArgumentsDelta,
    ToolCallStart,
    UsageUpdate,
)

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
CITATION = {"type": "web_search_result_location", "url": "u", "title": "t", "cited_text": "c", "encrypted_index": "e"}


def signed(thought, signature, **fields):
    deltas = [*([thought] if thought else []), {"type": "signature_delta", "signature": signature}]

    return block({"type": "thinking", "thinking": "", "signature": ""}, *deltas, **fields)


def test_ant_7_each_event_is_its_stream_event():
    events = decoded(
        reply(
            signed("hm", "SIG", index=0),
            text("Hel", "lo", index=1),
            call("t1", "add", "", '{"a"', ":1}", index=2),
            reason="tool_use",
            usage={"output_tokens": 7},
        )
    )

    assert events == [
        MessageStart("msg_1", "claude-1", Usage()),
        ThinkingStart(0),
        ThinkingDelta(0, "hm"),
        ContentExtended(0, {"signature": "SIG"}),
        ContentStop(0),
        TextDelta(1, "Hel"),
        TextDelta(1, "lo"),
        ContentStop(1),
        ToolCallStart(2, "t1", "add"),
        ToolArgumentsDelta(2, '{"a"'),
        ToolArgumentsDelta(2, ":1}"),
        ContentStop(2),
        UsageUpdate(Usage(output_tokens=7)),
        MessageStop("tool_use"),
    ]


def test_ant_11_the_vendors_message_id_is_told():
    assert decoded(reply(text("x")))[0].provider_message_id == "msg_1"


def test_ant_6_text_keeps_its_citations_and_what_else_the_api_says_of_it():
    cited = block(
        {"type": "text", "text": "", "mood": "fine"}, {"type": "citations_delta", "citation": CITATION}, "Sunny"
    )
    (said,) = message_of(reply(cited)).content

    assert said == TextContent("Sunny", timestamp=0, extended={"citations": [CITATION], "anthropic": {"mood": "fine"}})


def test_ant_6_redacted_thinking_is_no_text():
    (hidden,) = message_of(reply(block({"type": "redacted_thinking", "data": "ErEB+/="}))).content

    assert (hidden.thought, hidden.redacted, hidden.extended) == ("", True, {"data": "ErEB+/="})


def test_ant_6_what_the_engine_has_no_word_for_is_raw_and_whole():
    fallback = {"type": "future_block", "a": [1.5, None], "b": {"c": "\u2028"}}
    (raw,) = message_of(reply(block(fallback))).content

    assert isinstance(raw, RawContent)
    assert raw.model_kind == "anthropic"
    assert json.loads(raw.data) == fallback


def test_w_ant_3_the_input_of_a_server_tool_is_put_together():
    (raw,) = message_of(reply(block(SEARCH, "", '{"que', 'ry": "\\ud83d', '\\ude00"}'))).content

    assert json.loads(raw.data) == {**SEARCH, "input": {"query": "\U0001f600"}}


def test_compaction_is_carried_untouched():
    start = {"type": "compaction", "content": None}
    deltas = [{"type": "compaction_delta", "content": "sum"}, {"type": "compaction_delta", "content": "mary"}]
    (raw,) = message_of(reply(block(start, *deltas))).content

    assert json.loads(raw.data) == {"type": "compaction", "content": "summary"}


def test_the_container_of_a_reply_is_kept_without_being_a_block():
    container = {"id": "container_1", "expires_at": "2026-01-01T00:00:00Z"}
    said, kept = message_of(reply(text("x"), container=container)).content

    assert said.text == "x"
    assert json.loads(kept.data) == {"container": container}


def test_an_07_a_signature_without_thoughts_is_stored():
    message = message_of(reply(signed("", "SIG"), call("t1", index=1), reason="tool_use"))
    thinking = load_message(dump_message(message)).content[0]

    assert isinstance(thinking, ThinkingContent)
    assert (thinking.thought, thinking.extended) == ("", {"signature": "SIG"})


def test_an_r1_a_reply_without_content_is_a_reply():
    for events in (reply(), reply(text()), reply(text("", ""))):
        message = message_of(events)
        assert (message.content, message.stop_reason) == ((), "end_turn")


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", "end_turn"),
        ("max_tokens", "max_tokens"),
        ("stop_sequence", "stop_sequence"),
        ("refusal", "refusal"),
        ("pause_turn", "pause"),
        ("model_context_window_exceeded", "context_window"),
        (None, "end_turn"),
    ],
)
def test_ant_9_stop_reasons_are_mapped_by_a_table(word, reason):
    assert decoded(reply(text("x"), reason=word))[-1].stop_reason == reason


def test_an_r5_an_unknown_stop_reason_is_other_and_told():
    assert decoded(reply(text("x"), reason="compaction"))[-1] == MessageStop("other", "compaction")


def test_w_ant_6_the_details_of_a_refusal_and_the_stop_sequence_are_kept():
    details = {"type": "refusal", "category": "cyber", "explanation": "no exploits"}

    assert decoded(reply(reason="refusal", stop_details=details))[-1] == MessageStop("refusal", "cyber: no exploits")
    assert decoded(reply(reason="refusal", stop_details=None))[-1] == MessageStop("refusal")
    assert decoded(reply(reason="stop_sequence", stop_sequence="END"))[-1] == MessageStop("stop_sequence", "END")


def test_w_ant_2_arguments_cut_at_the_token_limit_keep_the_text():
    message = message_of(reply(text("Let me."), call("t1", "add", '{"a": 1', index=1), reason="max_tokens"))

    assert message.text == "Let me."
    assert message.tool_calls[0].params == {}
    assert message.tool_calls[0].error
    assert message.stop_reason == "max_tokens"


def test_us_01_running_totals_are_not_added():
    start = {
        **START,
        "message": {
            **START["message"],
            "usage": {"input_tokens": 25, "cache_read_input_tokens": 100, "output_tokens": 1},
        },
    }
    last = {"input_tokens": 25, "cache_read_input_tokens": 100, "output_tokens": 15}
    usage = message_of(reply(text("x"), start=start, usage=last)).usage

    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (125, 100, 15)


def test_ant_8_later_numbers_overwrite_and_nulls_do_not():
    first = {"input_tokens": 3, "cache_read_input_tokens": 55_096, "cache_creation_input_tokens": 4, "output_tokens": 1}
    start = {**START, "message": {**START["message"], "usage": first}}
    last = {"input_tokens": 181, "cache_read_input_tokens": 0, "cache_creation_input_tokens": None, "output_tokens": 8}
    usage = message_of(reply(text("x"), start=start, usage=last)).usage

    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (185, 0, 4)


def test_us_r1_passes_of_the_model_within_a_reply_are_all_counted():
    passes = [
        {"type": "compaction", "input_tokens": 100, "cache_read_input_tokens": 50, "output_tokens": 83},
        {"type": "message", "input_tokens": 181, "cache_read_input_tokens": 0, "output_tokens": 8},
    ]
    usage = read_usage({"input_tokens": 181, "output_tokens": 8, "iterations": passes})

    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (331, 50, 91)


def test_us_r3_what_is_not_reported_is_unknown():
    assert message_of(reply(text("x"))).usage == Usage()
    assert read_usage({"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}}) == Usage(
        output_tokens=9, reasoning_tokens=4
    )


def test_st_04_fragments_are_parsed_together():
    fragments = ['{"t":"\\ud8', "3d\\ude", "00 x\\", '"y"}']

    assert message_of(reply(call("t1", "add", *fragments), reason="tool_use")).tool_calls[0].params == {
        "t": '\U0001f600 x"y'
    }


def test_st_06_pings_and_events_of_the_future_are_ignored():
    noise = [{"type": "ping"}, {"type": "future_event", "index": 9}]
    events = [*noise, START, *noise, *call("t1", "add", "", "{}"), *noise, *ending("tool_use")]
    message = message_of(events)

    assert [one.params for one in message.tool_calls] == [{}]


def test_st_r4_a_call_without_any_arguments_has_the_empty_object():
    for fragments in ((), ("",)):
        assert message_of(reply(call("t1", "add", *fragments), reason="tool_use")).tool_calls[0].params == {}


def test_st_r1_a_stream_without_message_stop_is_interrupted():
    for events in (reply(text("x"))[:-1], [START], [START, *text("The answer")]):
        with pytest.raises(StreamInterruptedError):
            decoded(events)


def test_st_r3_an_answer_that_opens_no_message_is_an_error():
    for events in ([], [{"type": "ping"}], [STOP]):
        with pytest.raises(ProtocolError, match="no message"):
            decoded(events)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("overloaded_error", OverloadedError), ("rate_limit_error", RateLimitError), ("api_error", ServerError)],
)
def test_ant_10_an_error_event_is_typed_by_its_own_word(kind, expected):
    decoder = MessagesDecoder()

    with pytest.raises(expected, match="busy") as raised:
        decoder.decode({"type": "error", "error": {"type": kind, "message": "busy"}, "request_id": "req_9"})

    assert raised.value.request_id == "req_9"


@pytest.mark.parametrize(
    "event",
    [
        {"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_stop", "index": 3},
        {"type": "content_block_start", "index": 0, "content_block": {}},
        {"type": "content_block_start"},
        {"type": "message_start"},
        {"type": "message_delta", "delta": None},
    ],
)
def test_an_event_that_breaks_the_wire_format_is_a_protocol_error(event):
    decoder = MessagesDecoder()

    with pytest.raises(ProtocolError):
        decoder.decode(event)


def test_a_block_that_starts_twice_is_a_protocol_error():
    with pytest.raises(ProtocolError, match="still open"):
        decoded([START, *text("x")[:1], *text("x")[:1]])


def test_a_message_that_was_not_streamed_says_the_same():
    events = reply(
        signed("hm", "SIG", index=0),
        text("Hel", "lo", index=1),
        call("t1", "add", '{"a": 1}', index=2, caller={"type": "direct"}),
        block({"type": "redacted_thinking", "data": "D"}, index=3),
        reason="tool_use",
        usage={"input_tokens": 2, "output_tokens": 1},
    )
    decoder = MessagesDecoder()

    for event in events:
        decoder.decode(event)

    whole = decoder.message()
    assert [one["type"] for one in whole["content"]] == ["thinking", "text", "tool_use", "redacted_thinking"]
    assert folded(decoded(events_of(whole))) == message_of(events)


def test_an_answer_that_is_no_message_says_what_it_is():
    with pytest.raises(OverloadedError):
        decoded(events_of({"type": "error", "error": {"type": "overloaded_error"}}))

    with pytest.raises(ProtocolError, match="no message"):
        decoded(events_of({}))
