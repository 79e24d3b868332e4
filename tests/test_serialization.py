"""Messages as JSON and back: exact, forward compatible, and clear about what is wrong."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from message_strategies import messages
from pydantic import ValidationError

from simulacra.messages import (
    AssistantMessage,
    MediaContent,
    TextContent,
    ThinkingContent,
    ToolContent,
    ToolErrorResult,
    ToolSuccessResult,
    UnknownContent,
    Usage,
    UserMessage,
)
from simulacra.serialization import dump_message, dump_message_json, load_message, load_message_json

slow_to_draw = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)


@slow_to_draw
@given(messages)
def test_msg_13_load_of_dump_is_the_same_value(message):
    assert load_message(dump_message(message)) == message


@slow_to_draw
@given(messages)
def test_msg_13_json_text_is_strict_utf8_on_one_line_and_loads_as_the_same_value(message):
    text = dump_message_json(message)
    assert "\n" not in text
    assert load_message_json(text.encode()) == message


@slow_to_draw
@given(messages)
def test_msg_13_dumping_what_was_loaded_changes_nothing(message):
    dumped = dump_message(message)
    assert dump_message(load_message(json.loads(json.dumps(dumped)))) == dumped


def test_se_r4_bytes_survive_at_any_depth():
    signature = {"thought_signature": b"\x00\xff", "deep": [{"er": [b"", {"est": b"\x01"}]}]}
    message = AssistantMessage(
        (
            ThinkingContent("", extended=signature),
            ToolContent(tool_request_id="t", tool="f", extended={"thought_signature": b"\xfe"}),
            MediaContent(kind="image", media_type="image/png", data=bytes(range(256))),
        )
    )
    assert load_message_json(dump_message_json(message)) == message


@pytest.mark.parametrize(
    "bag",
    [
        {"$bytes": "AA=="},
        {"$bytes": "not base64"},
        {"$bytes": 5},
        {"$object": {"$bytes": "AA=="}},
        {"$object": "x"},
        {"$bytes": "AA==", "more": 1},
        {"x": {"$object": {"$object": {}}}},
    ],
)
def test_se_r4_what_looks_like_a_tag_is_told_from_a_tag(bag):
    message = AssistantMessage((ToolContent(tool_request_id="t", tool="f", params={"p": bag}),))
    assert load_message_json(dump_message_json(message)) == message


def test_se_r4_a_tool_result_is_data_even_when_it_looks_like_a_tag():
    stored = {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_request_id": "t", "tool": "f", "result": {"result": True, "$bytes": "AA=="}}
        ],
    }
    message = load_message(stored)
    assert message.content[0].result == ToolSuccessResult(**{"$bytes": "AA=="})
    assert dump_message(message)["content"][0]["result"] == stored["content"][0]["result"]
    assert load_message(dump_message(message)) == message


def test_msg_13_unknown_fields_survive_load_and_save():
    data = {
        "role": "assistant",
        "mood": {"level": [1, 2]},
        "content": [
            {"type": "text", "text": "x", "colour": "red", "content": ["not ours"], "usage": {"a": 1}},
            {"type": "tool", "tool_request_id": "t", "tool": "f", "params": {}, "lane": 2},
        ],
        "usage": {"input_tokens": 1, "audio_tokens": 7},
    }
    message = load_message(data)
    assert message.unknown == {"mood": {"level": [1, 2]}}
    assert message.content[0].unknown == {"colour": "red", "content": ["not ours"], "usage": {"a": 1}}
    assert message.usage == Usage(input_tokens=1, unknown={"audio_tokens": 7})
    saved = dump_message(message)
    assert saved["mood"] == data["mood"]
    assert saved["content"][0].items() >= data["content"][0].items()
    assert saved["content"][1].items() >= data["content"][1].items()
    assert saved["usage"] == data["usage"]


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_msg_13_unknown_blocks_survive_load_and_save(role):
    future = {"type": "hologram", "layers": [{"type": "text", "text": "inside"}], "blob": {"$bytes": "AAE="}}
    message = load_message({"role": role, "content": [future]})
    assert message.content == (UnknownContent(data={**future, "blob": b"\x00\x01"}),)
    assert message.content[0].type == "hologram"
    assert dump_message(message)["content"] == [future]


def test_msg_14_the_originals_json_loads_unchanged():
    user = {
        "role": "user",
        "id": "abc",
        "timestamp": 1_700_000_000_000,
        "content": [
            {"type": "text", "text": "hi", "extended": {"a": 1}},
            {"type": "tool_result", "tool_request_id": "t1", "tool": "f", "result": {"result": True, "n": 1}},
            {
                "type": "tool_result",
                "tool_request_id": "t2",
                "tool": "f",
                "result": {"result": False, "message": "no", "error": {"code": 5}},
            },
            {"type": "raw", "model_kind": "openai", "data": '{"type":"image_url"}'},
        ],
    }
    assistant = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thought": "hm", "extended": {"signature": "S"}},
            {"type": "text", "text": "yes", "id": "b1", "timestamp": 1_700_000_000_001},
            {"type": "tool", "tool_request_id": "t1", "tool": "f", "params": {"x": [1, None]}},
        ],
    }
    loaded = load_message(user)
    assert loaded.content[1].result == ToolSuccessResult(n=1)
    assert loaded.content[2].result == ToolErrorResult(message="no", error={"code": 5})
    assert [block.type for block in load_message(assistant).content] == ["thinking", "text", "tool"]

    for original in (user, assistant):
        saved = dump_message(load_message(original))

        for before, after in zip(original["content"], saved["content"], strict=True):
            assert after.items() >= before.items()


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({"role": "user", "content": [{"type": "text"}]}, r"content\.0\.text\.text"),
        ({"role": "user", "content": [{"type": "text", "text": None}]}, r"content\.0\.text\.text"),
        ({"role": "user", "content": [{"type": "thinking", "thought": "x"}]}, r"content\.0"),
        ({"role": "assistant", "content": [{"type": "tool", "tool": "f"}]}, r"content\.0\.tool\.tool_request_id"),
        (
            {"role": "user", "content": [{"type": "media", "kind": "image", "media_type": "m", "data": "%%"}]},
            r"content\.0\.media\.data",
        ),
        ({"role": "system", "content": []}, "system"),
        ({"content": []}, "role"),
        ({"role": "user"}, "content"),
        ({"role": "user", "content": "text"}, "content"),
        ({"role": "assistant", "content": [], "usage": {"input_tokens": "many"}}, r"usage\.input_tokens"),
        (["no object"], "dictionary"),
    ],
)
def test_w_msg_5_loading_validates_and_names_what_is_wrong_and_where(data, place):
    with pytest.raises(ValidationError, match=place):
        load_message(data)


@pytest.mark.parametrize("text", ["[]", '"text"', "{", "3"])
def test_w_msg_5_json_that_is_no_message_is_refused(text):
    with pytest.raises(ValueError):
        load_message_json(text)


def test_un_r2_stored_text_is_utf8_and_keeps_every_character():
    text = "a\u2028b\x85c\x00d\U0001f600é"
    message = UserMessage((TextContent(text),))
    stored = dump_message_json(message).encode("utf-8")
    assert "\U0001f600é".encode() in stored
    assert load_message_json(stored).content[0].text == text


def test_un_01_a_file_with_lone_surrogates_loads_as_what_would_be_sent():
    message = load_message_json('{"role":"user","content":[{"type":"text","text":"a\\ud83d"}]}')
    assert message.content[0].text == "a\ufffd"
    assert load_message_json(dump_message_json(message)) == message


def test_missing_values_are_left_out_of_the_json():
    assert dump_message(UserMessage((TextContent("x"),))) == {
        "role": "user",
        "content": [{"type": "text", "text": "x"}],
    }
