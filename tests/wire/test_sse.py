from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulacra.errors import ProtocolError
from simulacra.wire import EventSplitter, read_event


def split(*pieces):
    splitter = EventSplitter()
    events = [event for piece in pieces for event in splitter.feed(piece)]

    return [*events, *splitter.flush()]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_st_r2_each_line_end_ends_a_line(end):
    stream = end.join([b": ping", b"", b"data: 1", b"", b"event: error", b"data:2", b"data: 3", b"", b""])

    assert split(stream) == [("", b"1"), ("error", b"2\n3")]


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e", "\x00"])
def test_st_r2_no_other_character_ends_a_line(character):
    text = f"a{character}b"

    assert split(f"data: {text}\n\n".encode()) == [("", text.encode())]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@given(data=st.data())
def test_st_r2_where_the_bytes_are_cut_changes_nothing(end, data):
    texts = data.draw(st.lists(st.text(st.characters(exclude_characters="\r\n")), max_size=5))
    quoted = [json.dumps(text, ensure_ascii=False) for text in texts]
    lines = [
        line for text in quoted for line in (": x", "event: e", f"data: {text}", "data:2", "", f"data: {text}", "")
    ]
    stream = "".join(line + end for line in lines).encode("utf-8", "replace")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    assert split(*pieces) == split(stream)
    assert split(*(stream[place : place + 1] for place in range(len(stream)))) == split(stream)


def test_st_r2_a_cr_at_the_end_of_a_read_ends_the_event_at_once():
    splitter = EventSplitter()

    assert splitter.feed(b"data: 1\r\n\r") == [("", b"1")]
    assert splitter.feed(b"\ndata: 2\r\n\r\n") == [("", b"2")]


@pytest.mark.parametrize(
    ("pieces", "events"),
    [
        ([b"event: error\n", b"data: 1\n\n"], [("error", b"1")]),
        ([b"data: 1\n\ndata: 2\n\n"], [("", b"1"), ("", b"2")]),
        ([b"data: 1\ndata: 2\n\n"], [("", b"1\n2")]),
        ([b"data: 1\n", b"\n"], [("", b"1")]),
        ([b"data: 1\n\n\n", b"data: 2\n\n"], [("", b"1"), ("", b"2")]),
    ],
)
def test_st_r2_the_short_path_reads_what_the_long_one_reads(pieces, events):
    splitter = EventSplitter()
    splitter.feed(b": begun\n\n")

    assert [event for piece in pieces for event in splitter.feed(piece)] == events


def test_a_byte_order_mark_is_no_content():
    assert split(b"\xef", b"\xbb\xbfdata: 1\n\n") == [("", b"1")]


def test_an_event_line_may_stand_after_its_data():
    assert split(b"data: 1\nevent: error\n\n") == [("error", b"1")]


def test_an_event_without_the_empty_line_comes_at_the_end():
    splitter = EventSplitter()

    assert splitter.feed(b"data: [DONE]") == []
    assert splitter.flush() == [("", b"[DONE]")]


def test_w_rx_2_an_unfinished_line_is_not_joined_per_read():
    splitter = EventSplitter()
    splitter.feed(b"data: 1\n\n")

    for _ in range(1000):
        splitter.feed(b"x")

    assert len(splitter._rest) == 1000


def test_un_r1_half_a_surrogate_pair_is_handed_on():
    assert read_event("", b'{"t": "\\ud83d"}') == {"t": "\ud83d"}


@pytest.mark.parametrize("data", [b"[DONE]", b" [DONE] "])
def test_oai_10_done_is_no_json(data):
    assert read_event("", data) is None


@pytest.mark.parametrize("data", [b'{"broken', b"overloaded", b"\xff"])
def test_broken_json_is_a_protocol_error_that_shows_its_start(data):
    with pytest.raises(ProtocolError, match="no JSON"):
        read_event("", data)


@pytest.mark.parametrize("data", [b"null", b"1", b"[]", b'"ping"'])
def test_st_r5_json_that_is_no_object_says_nothing(data):
    assert read_event("", data) == {}


def test_an_error_event_has_the_shape_of_an_error_chunk():
    assert read_event("error", b'{"message": "m"}') == {"error": {"message": "m"}}
    assert read_event("error", b'{"error": {"message": "m"}}') == {"error": {"message": "m"}}
