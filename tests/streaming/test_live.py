"""One block while it streams, and the strict reading of tool arguments."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from message_strategies import any_text

from simulacra.cleaning import clean_json
from simulacra.streaming import LiveContent, parse_arguments
from simulacra.streaming.live import ECHO_LIMIT, mend_escapes

finite = st.floats(allow_nan=False, allow_infinity=False)
documents = st.dictionaries(
    any_text,
    st.recursive(
        st.none() | st.booleans() | st.integers() | finite | any_text,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)


def live_tool(*pieces):
    block = LiveContent("tool", 0)

    for piece in pieces:
        block.push(piece)

    return block


@pytest.mark.parametrize("text", ["", "  ", "\n\t"])
def test_rx_8_no_text_is_no_arguments(text):
    assert parse_arguments(text) == ({}, None)


def test_tl_r2_json_inside_one_json_string_is_unwrapped_once():
    arguments = {"a": [1, "x"]}
    once = json.dumps(json.dumps(arguments))
    assert parse_arguments(once) == (arguments, None)
    params, error = parse_arguments(json.dumps(once))
    assert params == {}
    assert "object" in error


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("null", "null"),
        ("[]", "an array"),
        ("3", "a number"),
        ("1.5", "a number"),
        ('"x"', "a string"),
        ('""', "a string"),
        ("true", "a boolean"),
        ('"[1]"', "an array"),
    ],
)
def test_tl_04_valid_json_that_is_no_object_asks_for_one_and_echoes_what_came(text, kind):
    params, error = parse_arguments(text)
    assert params == {}
    assert "one JSON object" in error
    assert kind in error
    assert error.endswith(text)


def test_tl_04_the_echo_is_bounded():
    _, error = parse_arguments("[" + "1," * 10_000 + "1]")
    assert len(error) < ECHO_LIMIT + 100


@pytest.mark.parametrize(
    "text",
    [
        '{"path": "a.txt", "con',
        '{"a": 1,}',
        "{'a': 1}",
        '{"a": 1} {"b": 2}',
        '```json\n{"a": 1}\n```',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": ' + "1" * 5000 + "}",
        '{"a":' * 100_000,
        '{"a": "\x01"}',
    ],
)
def test_tl_r2_arguments_are_parsed_strictly_and_never_repaired(text):
    params, error = parse_arguments(text)
    assert params == {}
    assert "no valid JSON" in error


@given(documents)
def test_tl_r2_every_object_is_read_as_json_reads_it(document):
    text = json.dumps(document)
    assert parse_arguments(text) == (clean_json(json.loads(text)), None)


@given(documents, st.data())
def test_st_04_partial_views_never_raise_and_never_show_half_an_escape(document, data):
    text = json.dumps(document)
    cut = data.draw(st.integers(0, len(text)))
    view = live_tool(text[:cut]).partial_params()
    assert isinstance(view, dict)
    json.dumps(view, ensure_ascii=False).encode()
    assert set(list(view)[:-1]) <= set(clean_json(document))


@given(st.text(), st.data())
def test_st_04_the_text_of_a_partial_view_is_a_prefix_of_the_whole(value, data):
    text = json.dumps({"t": value})
    cut = data.draw(st.integers(0, len(text)))
    assert value.startswith(live_tool(text[:cut]).partial_params().get("t", ""))


@pytest.mark.parametrize("text", ['{"a": 1} x', "[1", "nul", '{"a" 1', "'"])
def test_st_04_a_partial_view_of_what_is_no_object_is_empty(text):
    assert live_tool(text).partial_params() == {}


def test_un_01_a_lone_half_does_not_hide_the_partial_view():
    assert live_tool(r'{"a": "\ud83dx", "b": "c').partial_params() == {"a": "\ufffdx", "b": "c"}


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        (r"\ud83d\ude00", r"\ud83d\ude00"),
        (r"\uD83D\uDE00", r"\uD83D\uDE00"),
        (r"\ud83d!", r"\ufffd!"),
        (r"\ud83d\ud83d\ude00", r"\ufffd\ud83d\ude00"),
        (r"\ude00", r"\ufffd"),
        (r"\\ud83d!", r"\\ud83d!"),
        (r"\\\ud83d!", r"\\\ufffd!"),
        (r"\ud83d\n", r"\ufffd\n"),
        (r"\u00e9", r"\u00e9"),
        (r"\ud83d", r"\ud83d"),
        (r"\ud83d\ud", r"\ud83d\ud"),
    ],
)
def test_un_01_only_escapes_of_lone_halves_are_replaced(text, mended):
    assert mend_escapes(text) == mended


def test_a_live_block_grows_and_is_finished_once():
    block = LiveContent("text", 2)
    assert (block.text, block.is_complete) == ("", False)
    block.push("a")
    block.push("b")
    assert block.text == "ab"
    value = block.finish(7, "vendor")
    assert (value.text, value.timestamp, block.is_complete) == ("ab", 7, True)
    assert block.finish(8, "vendor") is value


@pytest.mark.parametrize(
    ("media_type", "kind"),
    [("image/png", "image"), ("audio/wav", "audio"), ("video/mp4", "video"), ("application/pdf", "file"), ("", "file")],
)
def test_the_kind_of_media_follows_from_its_type(media_type, kind):
    block = LiveContent("media", 0)
    block.media_type = media_type
    block.push_media(b"x")
    assert block.finish(1, "vendor").kind == kind
