"""The values of a conversation: what they accept, what they refuse, what they mean."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from message_strategies import any_text, messages, usages
from pydantic import BaseModel, TypeAdapter, ValidationError

from simulacra.cleaning import clean_json, clean_text
from simulacra.clock import Clock, clock
from simulacra.messages import (
    STOP_REASONS,
    AssistantMessage,
    CheckpointState,
    MediaContent,
    RawContent,
    Response,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolContent,
    ToolErrorResult,
    ToolResultContent,
    ToolSuccessResult,
    UnknownContent,
    Usage,
    UserMessage,
)

TEXT = TextContent("x")
CALL = ToolContent(tool_request_id="t1", tool="add")
RESULT = ToolResultContent(tool_request_id="t1", tool="add", result=ToolSuccessResult())


@pytest.mark.parametrize("source", [{"data": b"\x00\xff"}, {"url": "https://host/a.png"}, {"file_id": "file-1"}])
def test_msg_1_media_has_exactly_one_source(source):
    media = MediaContent(kind="image", media_type="image/png", **source)
    assert {name: getattr(media, name) for name in source} == source


@pytest.mark.parametrize("sources", [{}, {"data": b"", "url": "u"}, {"url": "u", "file_id": "f"}])
def test_msg_1_no_source_or_two_are_refused(sources):
    with pytest.raises(ValidationError, match="exactly one of data, url, file_id"):
        MediaContent(kind="image", media_type="image/png", **sources)


def test_msg_1_empty_bytes_are_a_source():
    assert MediaContent(kind="file", media_type="text/plain", data=b"").data == b""


def test_msg_1_base64_text_is_not_taken_for_bytes():
    with pytest.raises(ValidationError, match="bytes are expected"):
        MediaContent(kind="image", media_type="image/png", data="iVBORw0KGgo=")


@pytest.mark.parametrize("foreign", [ThinkingContent("hm"), CALL])
def test_msg_3_a_user_message_holds_no_block_of_the_model(foreign):
    with pytest.raises(ValidationError, match=foreign.type):
        UserMessage((TEXT, foreign))


def test_msg_3_an_assistant_message_holds_no_tool_result():
    with pytest.raises(ValidationError, match="tool_result"):
        AssistantMessage((RESULT,))


@pytest.mark.parametrize("owner", [UserMessage, AssistantMessage])
def test_msg_3_a_role_is_what_its_class_says(owner):
    with pytest.raises(ValidationError, match="role"):
        owner((TEXT,), role="system")


def test_msg_3_blocks_may_be_given_as_json_values():
    assert UserMessage(({"type": "text", "text": "x"},)).content == (TEXT,)

    with pytest.raises(ValidationError):
        UserMessage(("just text",))


def test_msg_4_messages_carry_id_timestamp_role_and_a_tuple_of_blocks():
    message = UserMessage([TEXT], id="m1", timestamp=5)
    assert (message.id, message.timestamp, message.role, message.content) == ("m1", 5, "user", (TEXT,))
    assert isinstance(message.content, tuple)
    assert AssistantMessage([TEXT]).role == "assistant"


def test_msg_4_there_is_no_system_message():
    with pytest.raises(ValidationError, match="system"):
        UserMessage((TEXT,), role="system")


def test_msg_9_usage_adds_and_unknown_is_not_zero():
    known, partly = Usage(input_tokens=1, output_tokens=2), Usage(output_tokens=3, reasoning_tokens=0)
    assert known + partly == Usage(input_tokens=1, output_tokens=5, reasoning_tokens=0)
    assert (Usage() + Usage()).input_tokens is None
    assert (Usage() + Usage(input_tokens=3)).input_tokens == 3
    assert [field.name for field in dataclasses.fields(Usage)][:5] == [
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "reasoning_tokens",
    ]


@given(usages, usages, usages)
def test_msg_9_addition_has_no_order_and_a_neutral_value(a, b, c):
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + Usage() == dataclasses.replace(a, unknown=None)


def test_msg_10_stop_reasons_are_these():
    words = (
        "end_turn max_tokens stop_sequence tool_use refusal content_filter context_window pause cancelled error other"
    )
    assert set(words.split()) == STOP_REASONS
    assert all(TypeAdapter(StopReason).validate_python(word) == word for word in words.split())

    with pytest.raises(ValidationError):
        AssistantMessage((TEXT,), stop_reason="done")

    assert AssistantMessage((TEXT,), stop_reason="other", stop_details="weird").stop_details == "weird"


@given(messages)
def test_msg_13_values_are_frozen(message):
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.id = "other"

    for block in message.content:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(block, dataclasses.fields(block)[0].name, "other")


def test_msg_13_results_are_frozen_and_values_take_no_misspelt_argument():
    with pytest.raises(ValidationError, match="frozen"):
        ToolErrorResult(message="x").message = "y"

    with pytest.raises(ValidationError, match="txet"):
        TextContent(txet="x")


def test_msg_13_values_hold_no_instance_dictionary():
    for value in (TEXT, CALL, RESULT, UserMessage((TEXT,)), AssistantMessage((TEXT,)), Usage()):
        assert not hasattr(value, "__dict__")


def test_msg_13_a_value_keeps_its_own_copy_of_what_it_was_given():
    inner = {"list": [1]}
    call = ToolContent(tool_request_id="t", tool="f", params=inner, extended=inner)
    inner["list"].append(2)
    assert call.params == call.extended == {"list": [1]}


@pytest.mark.parametrize("bad", [math.nan, math.inf, {1}, object(), {1: 2}, {"a": [math.nan]}])
def test_msg_13_what_no_json_can_hold_is_refused_at_construction(bad):
    for build in (
        lambda: ToolContent(tool_request_id="t", tool="f", params={"x": bad}),
        lambda: TextContent("x", extended={"x": bad}),
        lambda: ToolSuccessResult(x=bad),
        lambda: ToolErrorResult(message="m", error=bad),
    ):
        with pytest.raises(ValidationError, match="JSON"):
            build()


def test_msg_15_results_serialise_to_the_original_shape():
    assert ToolSuccessResult(result=True, sum=3, parts=[1, {"a": None}]).model_dump() == {
        "result": True,
        "sum": 3,
        "parts": [1, {"a": None}],
    }
    assert ToolErrorResult(result=False, message="no", error={"code": 5}, hint="try").model_dump() == {
        "result": False,
        "message": "no",
        "error": {"code": 5},
        "hint": "try",
    }


def test_msg_15_the_flag_decides_which_result_it_is():
    success = ToolResultContent(tool_request_id="t", tool="f", result={"result": True, "message": "fine"})
    failure = ToolResultContent(tool_request_id="t", tool="f", result={"result": False, "message": "no"})
    assert isinstance(success.result, ToolSuccessResult)
    assert isinstance(failure.result, ToolErrorResult)

    with pytest.raises(ValidationError):
        ToolResultContent(tool_request_id="t", tool="f", result={"result": 1})

    with pytest.raises(ValidationError, match="message"):
        ToolErrorResult()


def test_w_msg_1_media_citations_and_vendor_parts_are_values_or_extras():
    cited = TextContent("see", extended={"citations": [{"url": "u", "cited_text": "t"}]})
    media = MediaContent(kind="file", media_type="application/pdf", data=b"%PDF")
    server = RawContent(model_kind="anthropic", data='{"type":"server_tool_use"}')
    message = AssistantMessage((cited, media, server))
    assert message.content[0].extended["citations"][0]["url"] == "u"
    assert message.text == "see"
    assert message.content[1].data == b"%PDF"


def test_w_msg_2_ids_never_collide_and_are_ordered_by_time():
    ids = [clock().new_id() for _ in range(10_000)]
    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids)


def test_msg_7_an_id_says_nothing_about_content():
    class Frozen(Clock):
        def now_ms(self):
            return 1_700_000_000_000

    one, other = Frozen(), Frozen()
    same_millisecond = [source.new_id() for source in (one, other) for _ in range(100)]
    assert len(set(same_millisecond)) == 200


def test_w_msg_4_a_reply_says_who_wrote_it_and_what_it_cost():
    usage = Usage(input_tokens=100, output_tokens=30, cache_read_input_tokens=80, reasoning_tokens=20)
    message = AssistantMessage((TEXT,), model="m-1", usage=usage)
    assert (message.model, message.usage.cache_read_input_tokens, message.usage.reasoning_tokens) == ("m-1", 80, 20)


def test_us_r1_a_running_total_keeps_the_last_value_of_each_field():
    first = Usage(input_tokens=25, output_tokens=1, cache_read_input_tokens=100)
    assert first.replaced_by(Usage(output_tokens=15)) == Usage(
        input_tokens=25, output_tokens=15, cache_read_input_tokens=100
    )
    assert first.replaced_by(Usage(input_tokens=0)).input_tokens == 0


def test_un_01_lone_surrogates_are_replaced_where_text_enters():
    assert TextContent("a\udc9d").text == "a\ufffd"
    assert ThinkingContent("\ud83d").thought == "\ufffd"
    assert ToolSuccessResult(output="\ud800").output == "\ufffd"
    assert ToolErrorResult(message="\ud800", error=["\udfff"]).error == ["\ufffd"]
    assert UnknownContent(data={"type": "new", "x": "\ud800"}).data["x"] == "\ufffd"
    assert AssistantMessage((TEXT,), model="\ud800", stop_details="\ud800").stop_details == "\ufffd"
    call = ToolContent(tool_request_id="\ud800", tool="\ud800", params={"\ud800": ["\ud800"]}, error="\ud800")
    assert (call.tool_request_id, call.tool, call.params, call.error) == (
        "\ufffd",
        "\ufffd",
        {"\ufffd": ["\ufffd"]},
        "\ufffd",
    )


def test_un_01_pairs_and_emoji_stay():
    assert clean_text("\U0001f600é\u2028\x00") == "\U0001f600é\u2028\x00"
    assert clean_text("\ud83d\ude00") == "\U0001f600"
    assert clean_json({"\ud83d\ude00": "\ud83d\ude00"}) == {"\U0001f600": "\U0001f600"}


@given(any_text)
def test_un_01_clean_text_can_be_encoded_and_is_stable(text):
    cleaned = clean_text(text)
    cleaned.encode()
    assert clean_text(cleaned) == cleaned
    assert cleaned == text or not text.isascii()


@given(st.text())
def test_un_01_text_without_lone_surrogates_is_unchanged(text):
    assert clean_text(text) is text


def test_text_and_calls_of_a_reply():
    message = AssistantMessage((TextContent("a"), CALL, TextContent("b")))
    assert (message.text, message.tool_calls) == ("ab", (CALL,))


def test_a_response_without_a_message_has_empty_text():
    response = Response(message=None, stop_reason="cancelled")
    assert (response.text, response.cancelled) == ("", True)
    done = Response(message=AssistantMessage((TEXT,)), stop_reason="end_turn")
    assert (done.text, done.cancelled) == ("x", False)


def test_a_checkpoint_names_its_boundary():
    state = CheckpointState(message_id="m1", summary="so far \ud800")
    assert (state.message_id, state.summary) == ("m1", "so far \ufffd")


def test_gen_2_field_names_are_snake_case():
    for owner in (TextContent, MediaContent, ToolContent, ToolResultContent, UserMessage, AssistantMessage, Usage):
        assert all(name == name.lower() for name in owner.__dataclass_fields__ if name != "_")


def test_stored_values_are_no_models_but_slotted_dataclasses():
    assert not isinstance(TEXT, BaseModel)
    assert dataclasses.is_dataclass(TEXT)
