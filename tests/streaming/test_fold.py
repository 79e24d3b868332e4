"""The fold: stream events in, one message out, at a cost that grows with the number of deltas and no faster."""

from __future__ import annotations

import dataclasses
import typing

import pytest
from fold_events import call, fold_all, message_of, new_fold

from simulacra import streaming
from simulacra.errors import ProtocolError
from simulacra.messages import (
    MediaContent,
    RawContent,
    TextContent,
    ThinkingContent,
    ToolContent,
    Usage,
)
from simulacra.streaming import (
    ContentExtended,
    ContentStop,
    MediaDelta,
    MessageStart,
    MessageStop,
    RawBlock,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ThinkingStart,
    ToolArgumentsDelta,
    ToolCallStart,
    UsageUpdate,
    live,
)


def test_rx_4_a_provider_can_say_exactly_these_things():
    said = {event.__name__ for event in typing.get_args(StreamEvent)}
    assert said == {
        "MessageStart",
        "TextDelta",
        "ThinkingStart",
        "ThinkingDelta",
        "ToolCallStart",
        "ToolArgumentsDelta",
        "MediaDelta",
        "ContentExtended",
        "RawBlock",
        "ContentStop",
        "UsageUpdate",
        "MessageStop",
    }
    assert said <= set(streaming.__all__)


def test_rx_4_content_stop_closes_a_block_and_message_stop_the_message():
    fold, changes = fold_all(TextDelta(0, "a"), ContentStop(0))
    assert [change.kind for change in changes] == ["start", "update", "complete"]
    assert not fold.is_closed
    fold.apply(MessageStop("stop_sequence", "END"))
    assert fold.is_closed
    assert (fold.message().stop_reason, fold.message().stop_details) == ("stop_sequence", "END")


def test_rx_4_missing_starts_and_stops_of_blocks_are_supplied_but_never_the_end():
    fold, changes = fold_all(ThinkingDelta(0, "hm"), TextDelta(1, "a"))
    assert [(change.kind, change.block.type) for change in changes] == [
        ("start", "thinking"),
        ("update", "thinking"),
        ("start", "text"),
        ("update", "text"),
    ]
    assert not fold.is_closed
    assert [change.kind for change in fold.apply(MessageStop())] == ["complete", "complete"]


def test_rx_4_events_have_defaults_where_they_make_sense():
    assert MessageStart() == MessageStart(None, None, None)
    assert MessageStop() == MessageStop("end_turn", None)
    assert ThinkingStart(0) == ThinkingStart(0, redacted=False)
    assert ContentExtended(0).extended == {}


def test_rx_7_updates_carry_the_delta_and_the_same_live_block():
    fold, changes = fold_all(TextDelta(3, "Hel"), TextDelta(3, "lo"))
    updates = [change for change in changes if change.kind == "update"]
    assert [change.delta for change in updates] == ["Hel", "lo"]
    assert updates[0].block is updates[1].block is fold.blocks[0]
    assert updates[0].block.text == "Hello"


def test_rx_7_stream_events_are_deltas_never_snapshots():
    message = message_of(TextDelta(0, "a"), TextDelta(0, "a"))
    assert message.text == "aa"


def test_w_rx_3_every_update_carries_its_delta():
    _, changes = fold_all(
        TextDelta(0, "x"), ThinkingDelta(1, "y"), *call(2, "f", "{", "}"), ContentStop(0), MessageStop()
    )
    assert [change.delta for change in changes if change.kind == "update"] == ["x", "y", "{", "}"]
    assert all(change.delta for change in changes if change.kind == "update")


def test_rx_8_arguments_are_parsed_once_at_the_end():
    fold, _ = fold_all(*call(0, "add", '{"a": 1, ', '"b": [2]}'))
    assert fold.blocks[0].value is None
    fold.apply(ContentStop(0))
    assert fold.blocks[0].value == ToolContent(
        tool_request_id="t1", tool="add", params={"a": 1, "b": [2]}, timestamp=1_700_000_000_000
    )


@pytest.mark.parametrize("pieces", [(), ("",), ("", "")])
def test_rx_8_empty_argument_text_means_no_arguments(pieces):
    assert message_of(*call(0, "f", *pieces)).content[0].params == {}


def test_st_r4_a_call_without_argument_text_has_the_empty_object():
    content = message_of(ToolCallStart(0, "t1", "now")).content[0]
    assert (content.params, content.error) == ({}, None)


def test_st_r5_an_empty_delta_is_present_and_does_no_harm():
    message = message_of(TextDelta(0, ""), *call(1, "f", "", "{}"), TextDelta(2, "0"))
    assert [block.type for block in message.content] == ["tool", "text"]
    assert message.content[0].params == {}
    assert message.text == "0"


def test_st_r5_zero_is_a_number_of_tokens():
    fold, _ = fold_all(UsageUpdate(Usage(output_tokens=5)), UsageUpdate(Usage(output_tokens=0)), MessageStop())
    assert fold.message().usage.output_tokens == 0


def test_rx_8_what_cannot_be_read_is_kept_as_text_and_marked():
    content = message_of(*call(0, "f", '{"a": ')).content[0]
    assert content.params == {}
    assert "no valid JSON" in content.error
    assert content.extended["arguments"] == '{"a": '


def test_st_04_fragments_are_joined_before_they_are_parsed():
    fold = new_fold()
    fold.apply(ToolCallStart(0, "t1", "f"))
    views = []

    for fragment in (r'{"t":"\ud8', r"3d\ude", r"00 x" + "\\", r'"y"}'):
        fold.apply(ToolArgumentsDelta(0, fragment))
        views.append(fold.blocks[0].partial_params())

    assert views == [{"t": ""}, {"t": ""}, {"t": "\U0001f600 x"}, {"t": '\U0001f600 x"y'}]
    fold.apply(MessageStop())
    assert fold.message().content[0].params == {"t": '\U0001f600 x"y'}


def test_msg_2_a_part_without_a_word_for_it_becomes_raw_content_of_the_providers_kind():
    part = '{"type":"web_search","n":[1,2.0,null]}'
    fold, changes = fold_all(RawBlock(0, part), MessageStop())
    assert [change.kind for change in changes] == ["start", "complete"]
    assert fold.message().content == (RawContent(model_kind="vendor", data=part, timestamp=1_700_000_000_000),)


@pytest.mark.parametrize("vendors_word", ["end_turn", "other"])
def test_msg_11_a_reply_with_a_call_asks_for_tools(vendors_word):
    fold, _ = fold_all(*call(), MessageStop(vendors_word))
    assert fold.message().stop_reason == "tool_use"


@pytest.mark.parametrize(
    "vendors_word",
    ["max_tokens", "stop_sequence", "refusal", "content_filter", "context_window", "error", "cancelled", "pause"],
)
def test_msg_11_other_reasons_are_never_overwritten(vendors_word):
    fold, _ = fold_all(*call(), MessageStop(vendors_word, "why"))
    assert (fold.message().stop_reason, fold.message().stop_details) == (vendors_word, "why")


def test_msg_11_tool_use_without_a_call_is_something_else():
    fold, _ = fold_all(TextDelta(0, "a"), MessageStop("tool_use"))
    assert fold.message().stop_reason == "other"
    assert fold.message().stop_details


def test_msg_6_the_reply_has_its_id_from_the_start_and_keeps_the_vendors_beside_it():
    fold, _ = fold_all(MessageStart("msg_vendor", "model-2"), TextDelta(0, "a"))
    assert (fold.message_id, fold.provider_message_id) == ("m1", "msg_vendor")
    fold.apply(MessageStop())
    assert (fold.message().id, fold.message().model) == ("m1", "model-2")


def test_w_msg_3_every_timestamp_is_the_engines_in_milliseconds():
    message = message_of(TextDelta(0, "a"), *call(1), RawBlock(2, "{}"), MediaDelta(3, "image/png", b"x"))
    assert {message.timestamp, *(block.timestamp for block in message.content)} == {1_700_000_000_000}


def test_the_model_asked_for_stands_until_the_vendor_names_one():
    fold, _ = fold_all(MessageStart(), MessageStop(), fold=new_fold("asked"))
    assert fold.message().model == "asked"


def test_us_r1_usage_is_a_running_total():
    fold, _ = fold_all(
        MessageStart(usage=Usage(input_tokens=25, cache_read_input_tokens=100, output_tokens=1)),
        UsageUpdate(Usage(input_tokens=25, cache_read_input_tokens=100, output_tokens=15)),
        MessageStop(),
    )
    assert fold.message().usage == Usage(input_tokens=25, cache_read_input_tokens=100, output_tokens=15)


def test_us_r3_usage_nobody_reported_is_unknown():
    assert message_of(TextDelta(0, "a")).usage == Usage()


def test_blocks_may_interleave_and_keep_their_order():
    message = message_of(
        ToolCallStart(5, "a", "f"),
        ToolCallStart(9, "b", "g"),
        ToolArgumentsDelta(9, '{"x":'),
        ToolArgumentsDelta(5, "{}"),
        ToolArgumentsDelta(9, "1}"),
    )
    assert [(block.tool, block.params) for block in message.content] == [("f", {}), ("g", {"x": 1})]


def test_media_pieces_append():
    message = message_of(MediaDelta(0, "audio/wav", b"RI"), MediaDelta(0, "audio/wav", b"FF"))
    assert message.content == (
        MediaContent(kind="audio", media_type="audio/wav", data=b"RIFF", timestamp=1_700_000_000_000),
    )


def test_extras_are_merged_into_their_block():
    message = message_of(
        ThinkingStart(0),
        ThinkingDelta(0, "hm"),
        ContentExtended(0, {"signature": "S"}),
        ContentExtended(0, {"more": 1}),
        ThinkingStart(1, redacted=True),
        ContentExtended(1, {"data": "blob"}),
    )
    assert [(block.thought, block.redacted, block.extended) for block in message.content] == [
        ("hm", False, {"signature": "S", "more": 1}),
        ("", True, {"data": "blob"}),
    ]


@pytest.mark.parametrize(
    "events",
    [
        [ToolArgumentsDelta(0, "{")],
        [TextDelta(0, "a"), ThinkingDelta(0, "b")],
        [ToolCallStart(0, "a", "f"), ToolCallStart(0, "b", "g")],
        [ToolCallStart(0, "a", "f"), ContentStop(0), ToolArgumentsDelta(0, "{}")],
        [TextDelta(0, "a"), ThinkingStart(0)],
    ],
)
def test_events_that_do_not_fit_together_are_protocol_errors(events):
    with pytest.raises(ProtocolError, match=r"\d"):
        fold_all(*events)


def test_a_stop_of_an_unknown_block_is_ignored():
    assert fold_all(ContentStop(7))[1] == []


def count_work(monkeypatch, deltas):
    """Parses and joined characters of one reply with this many argument deltas and text deltas."""
    parsed = []
    original = live.from_json
    monkeypatch.setattr(
        live, "from_json", lambda text, **options: parsed.append(len(text)) or original(text, **options)
    )
    joined = []
    read_text = live.LiveContent.text.fget
    monkeypatch.setattr(
        live.LiveContent, "text", property(lambda block: joined.append(len(block.pieces)) or read_text(block))
    )
    events = [
        ToolCallStart(0, "t", "f"),
        ToolArgumentsDelta(0, '{"x": "'),
        *(ToolArgumentsDelta(0, "y") for _ in range(deltas)),
        ToolArgumentsDelta(0, '"}'),
        *(TextDelta(1, "z") for _ in range(deltas)),
    ]
    message = message_of(*events)
    monkeypatch.undo()
    assert len(message.content[0].params["x"]) == len(message.text) == deltas

    return parsed, joined


def test_w_rx_2_the_number_of_parses_and_copies_does_not_depend_on_the_number_of_deltas(monkeypatch):
    for deltas in (500, 4000):
        parsed, joined = count_work(monkeypatch, deltas)
        assert parsed == [deltas + len('{"x": ""}')]
        assert sum(joined) == 2 * deltas + 2


def test_w_rx_2_folding_one_delta_copies_nothing():
    fold, _ = fold_all(TextDelta(0, "a" * 1000))
    pieces = fold.blocks[0].pieces
    delta = "bc"
    (change,) = fold.apply(TextDelta(0, delta))
    assert change.delta is delta
    assert fold.blocks[0].pieces is pieces
    assert pieces[1] is delta


def test_stream_events_are_slotted_dataclasses():
    for event in typing.get_args(StreamEvent):
        assert dataclasses.is_dataclass(event)
        assert not hasattr(event(*[None] * len(dataclasses.fields(event))), "__dict__")


def test_a_reply_of_every_kind_of_block():
    message = message_of(
        MessageStart("v"),
        ThinkingDelta(0, "t"),
        TextDelta(1, "x"),
        *call(2, "f", "{}"),
        MediaDelta(3, "image/png", b"p"),
        RawBlock(4, "{}"),
    )
    assert [type(block) for block in message.content] == [
        ThinkingContent,
        TextContent,
        ToolContent,
        MediaContent,
        RawContent,
    ]
