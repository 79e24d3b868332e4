"""What the fold keeps of a reply that was cut, and how characters that come in pieces are put together."""

from __future__ import annotations

import pytest
from fold_events import call, fold_all, message_of
from hypothesis import given
from hypothesis import strategies as st
from message_strategies import any_text

from simulacra.cleaning import clean_text
from simulacra.streaming import ContentExtended, ContentStop, MessageStop, RawBlock, TextDelta, ThinkingDelta


def show_all(fold):
    """What the turn does when every listener was given every piece."""
    for block in fold.blocks:
        block.delivered = len(block.pieces)


def test_cx_r1_a_call_that_was_still_streaming_is_dropped_and_a_complete_one_kept():
    fold, _ = fold_all(TextDelta(0, "so"), ContentStop(0), *call(1, "f", "{}"), ContentStop(1), *call(2, "g", '{"x"'))
    show_all(fold)
    partial = fold.partial("interrupted")
    assert [block.type for block in partial.content] == ["text", "tool"]
    assert (partial.status, partial.id) == ("interrupted", "m1")


@pytest.mark.parametrize(
    "events",
    [
        [],
        [TextDelta(0, " \n")],
        [TextDelta(0, " \n"), ContentStop(0)],
        [ThinkingDelta(0, "hm")],
        [ThinkingDelta(0, "hm"), ContentStop(0)],
        [*call(0, "f", "{}")],
    ],
)
def test_cx_r2_blank_text_and_unsigned_thinking_are_not_delivered(events):
    fold, _ = fold_all(*events)
    show_all(fold)
    assert fold.partial("interrupted") is None


def test_cx_r2_signed_thinking_stays_only_before_a_kept_call():
    signed = [ThinkingDelta(0, "hm"), ContentExtended(0, {"signature": "S"}), ContentStop(0)]
    fold, _ = fold_all(*signed, *call(1, "f", "{}"), ContentStop(1))
    assert [block.type for block in fold.partial("interrupted").content] == ["thinking", "tool"]
    fold, _ = fold_all(*signed, TextDelta(1, "a"), ContentStop(1))
    assert [block.type for block in fold.partial("interrupted").content] == ["text"]


def test_only_what_listeners_were_given_counts_as_delivered():
    fold, _ = fold_all(TextDelta(0, "Hel"), TextDelta(0, "lo"), TextDelta(0, " never shown"))
    fold.blocks[0].delivered = 2
    assert fold.partial("interrupted").text == "Hello"


def test_un_r1_a_character_in_two_deltas_is_put_together():
    fold, changes = fold_all(TextDelta(0, "a\ud83d"), TextDelta(0, "\ude00b"), MessageStop())
    assert [change.delta for change in changes if change.kind == "update"] == ["a", "\U0001f600b"]
    assert fold.message().text == "a\U0001f600b"


def test_un_r1_half_a_character_at_the_end_is_shown_as_it_is_stored():
    fold, changes = fold_all(TextDelta(0, "a\ud83d"), MessageStop())
    assert [(change.kind, change.delta) for change in changes] == [
        ("start", ""),
        ("update", "a"),
        ("update", "\ufffd"),
        ("complete", ""),
    ]
    assert fold.message().text == "a\ufffd"


def test_un_01_escaped_halves_in_arguments_are_replaced():
    content = message_of(*call(0, "f", r'{"a": "x\ud83d", "b": "\ude00\ud83d\ude00", "c": "\\ud83d"}')).content[0]
    assert content.params == {"a": "x\ufffd", "b": "\ufffd\U0001f600", "c": r"\ud83d"}


def test_un_01_names_ids_and_raw_parts_are_clean_too():
    fold, changes = fold_all(*call(0, "f\ud800", tool_request_id="t\ud800"), RawBlock(1, r'{"x":"\ud800"}'))
    assert changes[0].block.tool == "f\ufffd"
    fold.apply(MessageStop())
    tool, raw = fold.message().content
    assert (tool.tool_request_id, raw.data) == ("t\ufffd", r'{"x":"\ufffd"}')


@given(st.lists(any_text, max_size=6))
def test_un_r1_deltas_add_up_to_the_stored_text_however_it_was_cut(pieces):
    fold, changes = fold_all(*(TextDelta(0, piece) for piece in pieces), MessageStop())
    shown = "".join(change.delta for change in changes if change.kind == "update")
    assert shown == fold.message().text == clean_text("".join(pieces))
    assert all(change.delta.encode() for change in changes if change.kind == "update")


@given(st.text(max_size=30), st.data())
def test_where_deltas_are_cut_changes_nothing(text, data):
    cut = data.draw(st.integers(0, len(text)))
    whole, parts = message_of(TextDelta(0, text)), message_of(TextDelta(0, text[:cut]), TextDelta(0, text[cut:]))
    assert whole == parts
