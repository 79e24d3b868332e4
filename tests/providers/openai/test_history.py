from __future__ import annotations

import json

import pytest
from simulacra_openai.drafting import Settings
from simulacra_openai.encode import encode_request
from simulacra_openai.exchanges import NO_RESULT
from simulacra_openai.message_drafts import json_text, wire_id
from simulacra_openai.presets import COMPATIBLE, OPENAI, Preset

from simulacra.errors import ConfigurationError
from simulacra.messages import (
    AssistantMessage,
    MediaContent,
    RawContent,
    TextContent,
    ThinkingContent,
    ToolContent,
    ToolErrorResult,
    ToolResultContent,
    ToolSuccessResult,
    UnknownContent,
    UserMessage,
)
from simulacra.provider import ModelRequest

PNG = MediaContent(kind="image", media_type="image/png", data=b"\x89PNG")
PNG_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}


def user(*blocks):
    return UserMessage(tuple(TextContent(block) if isinstance(block, str) else block for block in blocks))


def assistant(*blocks):
    return AssistantMessage(tuple(TextContent(block) if isinstance(block, str) else block for block in blocks))


def call(call_id, tool="f", **params):
    return ToolContent(tool_request_id=call_id, tool=tool, params=params)


def result(call_id, *content, **fields):
    return ToolResultContent(
        tool_request_id=call_id, tool="f", result=ToolSuccessResult.model_validate(fields), content=content
    )


def encoded(*messages, preset=OPENAI, raw_kinds=("openai",), media_types=OPENAI.media_types):
    settings = Settings(model="m", preset=preset, raw_kinds=frozenset(raw_kinds), media_types=media_types)

    return encode_request(ModelRequest(messages=messages), settings)["messages"]


def test_oai_4_one_text_is_a_string_and_several_are_parts():
    assert encoded(user("a")) == [{"role": "user", "content": "a"}]
    assert encoded(user("a", "b")) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]


def test_oai_4_media_are_parts_in_their_place():
    sound = MediaContent(kind="audio", media_type="audio/mpeg", data=b"ID3")
    paper = MediaContent(kind="file", media_type="application/pdf", data=b"%PDF", name="a.pdf")
    stored = MediaContent(kind="file", media_type="application/pdf", file_id="file-1")
    far = MediaContent(kind="image", media_type="image/webp", url="https://example.com/x.webp")

    assert encoded(user(PNG, "what?", sound, paper, stored, far))[0]["content"] == [
        PNG_PART,
        {"type": "text", "text": "what?"},
        {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/x.webp"}},
    ]


def test_oai_4_results_come_first_and_in_the_order_of_the_calls():
    sent = encoded(
        user("go"),
        assistant(call("a"), call("b")),
        user("and?", result("b", n=2), result("a", n=1)),
    )

    assert sent[2:] == [
        {"role": "tool", "tool_call_id": "a", "content": '{"result":true,"n":1}'},
        {"role": "tool", "tool_call_id": "b", "content": '{"result":true,"n":2}'},
        {"role": "user", "content": "and?"},
    ]


def test_oai_4_an_error_result_is_json_text_as_well():
    failed = ToolResultContent(tool_request_id="a", tool="f", result=ToolErrorResult(message="no"))
    sent = encoded(user("go"), assistant(call("a")), user(failed))

    assert json.loads(sent[2]["content"]) == {"result": False, "message": "no", "error": None}


def test_oai_4_raw_parts_of_an_accepted_kind_stay_in_their_place():
    raw = RawContent(model_kind="openai", data='{"type": "video_url", "video_url": {"url": "u"}}')

    assert encoded(user("a", raw, "b"), preset=COMPATIBLE)[0]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "video_url", "video_url": {"url": "u"}},
        {"type": "text", "text": "b"},
    ]


@pytest.mark.parametrize("data", ["", "{", "3", "[" * 5000])
def test_w_oai_3_unreadable_raw_never_breaks_a_request(data):
    assert encoded(user("a", RawContent(model_kind="openai", data=data))) == [{"role": "user", "content": "a"}]


def test_w_oai_3_text_next_to_media_keeps_both():
    assert encoded(user("a", PNG))[0]["content"] == [{"type": "text", "text": "a"}, PNG_PART]


def test_msg_2_raw_of_another_kind_is_left_out():
    raw = RawContent(model_kind="google", data='{"type": "x"}')

    assert encoded(user("a", raw), assistant(raw, "b")) == [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
    ]


def test_msg_2_raw_of_the_own_kind_goes_back_as_the_same_value():
    part = {"type": "odd", "n": [1]}
    sent = encoded(
        user("a"),
        assistant(
            "b",
            RawContent(model_kind="openai", data=json.dumps(part)),
            RawContent(model_kind="openai", data='{"annotations": [1]}'),
        ),
        preset=COMPATIBLE,
    )

    assert sent[1] == {"role": "assistant", "content": [{"type": "text", "text": "b"}, part], "annotations": [1]}


def test_oai_5_text_is_a_string_or_parts():
    assert encoded(user("q"), assistant("a"))[1]["content"] == "a"
    assert encoded(user("q"), assistant("a", "b"))[1]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]


def test_oai_5_a_refusal_goes_back_as_one():
    refusal = TextContent("No.", extended={"openai_refusal": True})

    assert encoded(user("q"), assistant(refusal))[1] == {"role": "assistant", "content": None, "refusal": "No."}


def test_oai_5_calls_without_text_have_no_content():
    sent = encoded(user("q"), assistant(call("a", "f", x="ä")), user(result("a")))

    assert sent[1] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":"ä"}'}}],
    }


def test_w_oai_7_thinking_is_not_sent_as_text():
    thought = ThinkingContent("secret", extended={"signature": "s"})

    assert encoded(user("q"), assistant(thought, "a")) == [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
    ]


def test_oai_5_thinking_goes_back_where_the_preset_takes_it():
    preset = Preset(replayed_thinking="reasoning_content")
    own = ThinkingContent("hm", extended={"openai_thinking": "reasoning_content"})
    foreign = ThinkingContent("other", extended={"signature": "s"})

    assert encoded(user("q"), assistant(own, foreign, "a"), preset=preset)[1] == {
        "role": "assistant",
        "content": "a",
        "reasoning_content": "hm",
    }


def test_tl_09_a_call_with_unreadable_arguments_goes_back_as_valid_json():
    broken = ToolContent(tool_request_id="a", tool="f", error="cut", extended={"arguments": '{"q":"abc'})
    sent = encoded(user("q"), assistant(broken), user(result("a")))

    assert json.loads(sent[1]["tool_calls"][0]["function"]["arguments"]) == {}


def test_fields_of_the_service_go_back_with_the_call():
    own = ToolContent(tool_request_id="a", tool="f", extended={"openai_call": {"extra_content": {"s": 1}}})
    sent = encoded(user("q"), assistant(own), user(result("a")), preset=COMPATIBLE)

    assert sent[1]["tool_calls"][0]["extra_content"] == {"s": 1}
    assert "extra_content" not in encoded(user("q"), assistant(own), user(result("a")))[1]["tool_calls"][0]


@pytest.mark.parametrize("blank", ["", " ", "\n\t", "\u2003"])
def test_an_r1_blank_texts_are_left_out_and_messages_left_with_nothing_dropped(blank):
    sent = encoded(user("a", blank), assistant(blank), user(blank), user("b"), assistant(blank, call("t")))

    assert sent[0] == {
        "role": "user",
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
    }
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert sent[1]["content"] is None
    assert sent[2]["content"] == NO_RESULT


@pytest.mark.parametrize(
    "nothing",
    [
        ThinkingContent("hm"),
        PNG,
        RawContent(model_kind="openai", data='{"annotations": []}'),
        UnknownContent({"type": "hologram"}),
    ],
)
def test_an_r1_a_reply_without_words_or_calls_is_dropped_and_its_neighbours_joined(nothing):
    assert encoded(user("a"), assistant(nothing), user("b")) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]


def test_an_r1_white_space_of_the_users_text_is_content():
    assert encoded(user("  a\n"))[0]["content"] == "  a\n"


def test_an_r1_stored_messages_are_not_changed():
    messages = (user("a", " "), assistant(call("x" * 50)), user(result("x" * 50)))
    before = repr(messages)
    encoded(*messages)

    assert repr(messages) == before


def test_oa_r5_ids_that_fit_are_not_touched():
    assert [wire_id(each) for each in ("a", "x" * 40, "functions.read:0")] == ["a", "x" * 40, "functions.read:0"]


@pytest.mark.parametrize("bad", ["", "x" * 41, "x" * 500])
def test_oa_r5_ids_that_do_not_fit_are_mapped_always_to_the_same(bad):
    mapped = wire_id(bad)
    sent = [encoded(user("q"), assistant(call(bad)), user(result(bad))) for _ in range(2)]

    assert 0 < len(mapped) <= 40
    assert mapped != wire_id(bad + "y" * 50)
    assert sent[0] == sent[1]
    assert sent[0][1]["tool_calls"][0]["id"] == sent[0][2]["tool_call_id"] == mapped


def test_tl_r4_equal_ids_in_one_reply_are_told_apart_by_place():
    sent = encoded(
        user("q"), assistant(call("a"), call("a"), call("")), user(result("a", n=1), result("a", n=2), result("", n=3))
    )
    ids = [one["id"] for one in sent[1]["tool_calls"]]

    assert ids[0] == "a"
    assert len(set(ids)) == 3
    assert [(one["tool_call_id"], json.loads(one["content"])["n"]) for one in sent[2:]] == [
        (ids[0], 1),
        (ids[1], 2),
        (ids[2], 3),
    ]


def test_tl_r4_an_id_used_again_in_a_later_reply_answers_the_later_call():
    sent = encoded(
        user("q"),
        assistant(call("a"), call("a")),
        user(result("a", n=1), result("a", n=2)),
        assistant(call("a")),
        user(result("a", n=3)),
    )

    assert sent[-1]["tool_call_id"] == sent[-2]["tool_calls"][0]["id"] == "a"


def test_tl_r5_results_and_arguments_pass_a_strict_parser():
    sent = encoded(user("q"), assistant(call("a", x=1e300, y="\ud83d\ude00")), user(result("a", x=10**30, y="\ud800")))
    texts = (sent[1]["tool_calls"][0]["function"]["arguments"], sent[2]["content"])

    assert [json.loads(text, parse_constant=pytest.fail) for text in texts] == [
        {"x": 1e300, "y": "\U0001f600"},
        {"result": True, "x": 10**30, "y": "\ufffd"},
    ]

    with pytest.raises(ValueError, match="JSON"):
        json_text(float("nan"))


def test_mu_03_an_image_of_a_tool_comes_in_a_user_message_after_the_results():
    sent = encoded(
        user("q"),
        assistant(call("a"), call("b")),
        user(result("a", TextContent("a cat"), PNG), result("b", n=1), "thanks"),
    )

    assert sent[2]["role"] == sent[3]["role"] == "tool"
    assert sent[2]["content"].endswith("\na cat")
    assert "base64" not in sent[2]["content"]
    assert sent[4] == {"role": "user", "content": [PNG_PART, {"type": "text", "text": "thanks"}]}


def test_mu_r2_media_of_several_results_come_in_one_message_after_the_last():
    sent = encoded(user("q"), assistant(call("a"), call("b")), user(result("b", PNG), result("a", PNG)))

    assert [message["role"] for message in sent[2:]] == ["tool", "tool", "user"]
    assert sent[4]["content"] == [PNG_PART, PNG_PART]


def test_mu_01_an_image_is_sent_as_what_its_bytes_say():
    photo = MediaContent(kind="image", media_type="image/svg+xml", data=b"\xff\xd8\xff\xe0", name="logo.svg")
    (message,) = encoded(user(photo))

    assert message["content"][0]["image_url"]["url"].startswith("data:image/jpeg;base64,")


@pytest.mark.parametrize(
    ("media_type", "sent_as"),
    [("IMAGE/JPG; q=1", "image/jpeg"), ("image/pjpeg", "image/jpeg"), (" image/PNG", "image/png")],
)
def test_mu_r1_media_types_are_normalised(media_type, sent_as):
    (message,) = encoded(user(MediaContent(kind="image", media_type=media_type, data=b"x")))

    assert message["content"][0]["image_url"]["url"].startswith(f"data:{sent_as};base64,")


@pytest.mark.parametrize(
    "media",
    [
        MediaContent(kind="image", media_type="image/svg+xml", data=b"<svg/>"),
        MediaContent(kind="video", media_type="video/mp4", data=b"x"),
        MediaContent(kind="audio", media_type="audio/flac", data=b"x"),
        MediaContent(kind="audio", media_type="audio/wav", url="https://example.com/x.wav"),
        MediaContent(kind="file", media_type="application/pdf", url="https://example.com/x.pdf"),
    ],
)
@pytest.mark.parametrize("media_types", [OPENAI.media_types, None])
def test_mu_r1_what_is_not_taken_is_refused_in_a_prompt_and_named_in_history(media, media_types):
    if media.kind == "image" and media_types is None:
        return  # a service that says nothing about its types is given the image

    with pytest.raises(ConfigurationError, match=media.kind):
        encoded(user("look", media), media_types=media_types)

    (parts,) = [
        message["content"]
        for message in encoded(user("look", media), assistant("ok"), user("so?"), media_types=media_types)
    ][:1]

    assert parts[1]["type"] == "text"
    assert media.media_type in parts[1]["text"]


def test_mu_r1_media_of_a_tool_that_are_not_taken_never_break_the_loop():
    video = MediaContent(kind="video", media_type="video/mp4", data=b"x")
    sent = encoded(user("q"), assistant(call("a")), user(result("a", video)))

    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert "video/mp4" in sent[2]["content"]
