"""Chunks of Gemini as messages."""

from __future__ import annotations

import base64
import json

import pytest
from gemini_wire import STOP, call, chunk, events_of, message_of, text, thought
from simulacra_google.decode import GeminiDecoder

from simulacra.errors import ContentFilteredError, ProtocolError, StreamInterruptedError
from simulacra.messages import MediaContent, RawContent, TextContent, ThinkingContent, Usage
from simulacra.streaming import ToolCallStart

PNG = b"\x89PNG\r\n\x1a\n....."
DATA = base64.b64encode(PNG).decode()


def kinds(message):
    return [block.type for block in message.content]


def raw_of(message):
    return [json.loads(block.data) for block in message.content if isinstance(block, RawContent)]


def test_goo_3_parts_are_blocks():
    code = {"executableCode": {"code": "1", "language": "PYTHON"}}
    image = {"inlineData": {"mimeType": "image/png", "data": DATA}}
    file = {"fileData": {"mimeType": "video/mp4", "fileUri": "files/1"}}
    parts = [thought("hm"), text("hi"), text(""), call(args={"a": 1}, id="c1"), image, code, file]
    message = message_of(chunk(*parts, finish=STOP))

    assert kinds(message) == ["thinking", "text", "tool", "media", "raw", "raw"]
    assert message.role == "assistant"
    assert message.tool_calls[0].tool_request_id == "c1"
    assert isinstance(message.content[3], MediaContent)
    assert (message.content[3].media_type, message.content[3].data) == ("image/png", PNG)
    assert raw_of(message) == [code, file]


def test_goo_3_calls_without_an_id_get_one_for_the_whole_turn():
    message = message_of(chunk(call()), chunk(call(id="")), chunk(finish=STOP))
    first, second = (called.tool_request_id for called in message.tool_calls)

    assert first
    assert second
    assert first != second


def test_w_goo_4_the_id_of_a_call_is_the_same_from_its_start_on():
    events = events_of(chunk(call()), chunk(finish=STOP))
    [started] = [event for event in events if isinstance(event, ToolCallStart)]

    assert started.tool_request_id.startswith("gem_")
    assert len(started.tool_request_id) <= 40  # the shortest limit of another vendor


def test_w_goo_6_two_replies_never_share_an_id():
    first, second = (message_of(chunk(call(), finish=STOP)) for _ in range(2))

    assert first.tool_calls[0].tool_request_id != second.tool_calls[0].tool_request_id


def test_goo_5_texts_thoughts_and_code_join_across_chunks():
    code = [{"executableCode": {"code": piece, "language": "PYTHON"}} for piece in ("1 +", " 1")]
    parts = [thought("h"), thought("m"), text("Hel"), text("lo"), *code, text("!")]
    message = message_of(*(chunk(part) for part in parts), chunk(finish=STOP))

    assert kinds(message) == ["thinking", "text", "raw", "text"]
    assert (message.content[0].thought, message.content[1].text, message.content[3].text) == ("hm", "Hello", "!")
    assert raw_of(message) == [{"executableCode": {"code": "1 + 1", "language": "PYTHON"}}]


def test_goo_5_code_of_two_runs_stays_two():
    code = [{"executableCode": {"code": "1", "language": "PYTHON", "id": run}} for run in "ab"]

    assert raw_of(message_of(*(chunk(part) for part in code), chunk(finish=STOP))) == code


def test_goo_5_a_signed_part_is_a_block_of_its_own_also_without_text():
    parts = [text("a"), text("b", thoughtSignature="U0lH"), text("c"), text("", thoughtSignature="T1RI")]
    message = message_of(*(chunk(part) for part in parts), chunk(finish=STOP))

    assert [(block.text, (block.extended or {}).get("thought_signature")) for block in message.content] == [
        ("a", None),
        ("b", "U0lH"),
        ("c", None),
        ("", "T1RI"),
    ]
    assert message.text == "abc"


def test_w_goo_9_inline_data_of_one_part_appends():
    pieces = [PNG[:5], PNG[5:]]
    parts = [{"inlineData": {"mimeType": "image/png", "data": base64.b64encode(one).decode()}} for one in pieces]
    message = message_of(*(chunk(part) for part in parts), chunk(finish=STOP))

    assert [block.data for block in message.content] == [PNG]


def test_w_goo_9_data_that_is_more_than_data_stays_as_it_came():
    shown = {"inlineData": {"mimeType": "image/png", "data": DATA}, "thought": True}

    assert raw_of(message_of(chunk(shown, finish=STOP))) == [shown]


def test_w_goo_9_a_missing_role_is_an_assistant_and_only_candidate_0_is_read():
    other = {"content": {"parts": [text("no")]}, "index": 1}
    first = {"content": {"parts": [text("yes")]}, "finishReason": STOP}
    message = message_of({"candidates": [other, first]}, {"candidates": [other]})

    assert (message.role, message.text) == ("assistant", "yes")


def test_w_goo_1_two_calls_in_two_chunks_stay_two_calls():
    message = message_of(chunk(call(args={"a": 1}, id="x")), chunk(call(args={"a": 2}, id="y")), chunk(finish=STOP))

    assert [(one.tool_request_id, one.params) for one in message.tool_calls] == [("x", {"a": 1}), ("y", {"a": 2})]


def test_gm_07_two_calls_of_one_tool_without_ids_stay_two():
    message = message_of(chunk(call("w", {"city": "A"})), chunk(call("w", {"city": "B"})), chunk(finish=STOP))

    assert [one.params["city"] for one in message.tool_calls] == ["A", "B"]
    assert len({one.tool_request_id for one in message.tool_calls}) == 2


def test_goo_6_the_last_usage_replaces_the_ones_before():
    early = {"promptTokenCount": 9, "candidatesTokenCount": 3, "cachedContentTokenCount": 5, "thoughtsTokenCount": 4}
    last = {"promptTokenCount": 8, "candidatesTokenCount": 2, "thoughtsTokenCount": 1, "toolUsePromptTokenCount": 7}
    message = message_of(chunk(text("x"), usage=early), chunk(finish=STOP, usage=last))

    assert message.usage == Usage(input_tokens=15, output_tokens=3, reasoning_tokens=1)


def test_w_goo_7_thought_tokens_model_and_vendor_id_are_kept():
    usage = {"promptTokenCount": 1, "thoughtsTokenCount": 4}
    message = message_of(chunk(text("x"), finish=STOP, usage=usage), model="asked")

    assert message.usage == Usage(input_tokens=1, output_tokens=4, reasoning_tokens=4)
    assert message.model == "gemini-2.5-pro"
    assert events_of(chunk(text("x"), finish=STOP))[0].provider_message_id == "resp_1"


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("STOP", "end_turn"),
        ("MAX_TOKENS", "max_tokens"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("LANGUAGE", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("SPII", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
        ("IMAGE_PROHIBITED_CONTENT", "content_filter"),
        ("IMAGE_RECITATION", "content_filter"),
        ("MODEL_ARMOR", "content_filter"),
        ("ESCALATION", "content_filter"),
        ("CONTINUATION", "max_tokens"),
        ("NO_IMAGE", "other"),
        ("UNEXPECTED_TOOL_CALL", "other"),
        ("MALFORMED_RESPONSE", "other"),
        ("MISSING_THOUGHT_SIGNATURE", "other"),
        ("PUP_LIMITED_DISABLED", "other"),
        ("IMAGE_OTHER", "other"),
        ("OTHER", "other"),
        ("FINISH_REASON_UNSPECIFIED", "other"),
        ("TOO_MANY_TOOL_CALLS", "other"),
        ("A_FUTURE_REASON", "other"),
    ],
)
def test_goo_7_every_finish_reason_has_its_meaning(word, reason):
    message = message_of(chunk(text("x"), finish=word))
    told = message_of(chunk(text("x"), finish=word, finishMessage="because"))

    assert message.stop_reason == told.stop_reason == reason
    assert message.stop_details == (None if word == "STOP" else word)
    assert told.stop_details == "because"


def test_goo_7_a_stop_with_a_call_is_tool_use():
    assert message_of(chunk(call(), finish=STOP)).stop_reason == "tool_use"


@pytest.mark.parametrize("content", [{}, {"parts": None}, None, {"role": "model", "parts": [call()]}])
def test_gm_03_a_malformed_call_is_an_error_and_nothing_of_it_is_told(content):
    decoder = GeminiDecoder()
    candidate = {"content": content, "finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "bad: print(1)"}

    with pytest.raises(ProtocolError, match=r"MALFORMED_FUNCTION_CALL.*print\(1\)") as raised:
        decoder.decode({"candidates": [candidate]})

    assert raised.value.retryable


@pytest.mark.parametrize("content", [{}, {"role": "model"}, {"parts": None}, {"parts": []}, None])
@pytest.mark.parametrize(("word", "reason"), [("STOP", "end_turn"), ("SAFETY", "content_filter")])
def test_w_goo_2_a_reply_without_content_or_parts_tells_why_it_stopped(content, word, reason):
    message = message_of({"candidates": [{"content": content, "finishReason": word}]})

    assert message.content == ()
    assert message.stop_reason == reason


def test_gm_05_a_closing_chunk_without_parts_ends_the_call_before_it():
    message = message_of(chunk(call("f")), chunk(finish=STOP))

    assert [one.tool for one in message.tool_calls] == ["f"]
    assert message.stop_reason == "tool_use"


@pytest.mark.parametrize("candidates", [{}, {"candidates": []}, {"candidates": None}])
def test_gm_r2_a_blocked_prompt_is_told_with_its_reason(candidates):
    feedback = {"blockReason": "PROHIBITED_CONTENT", "safetyRatings": [{"category": "HARM"}]}

    with pytest.raises(ContentFilteredError, match=r"PROHIBITED_CONTENT.*HARM") as raised:
        events_of({**candidates, "promptFeedback": feedback})

    assert not raised.value.retryable


def test_goo_8_without_a_candidate_there_is_no_data():
    with pytest.raises(ProtocolError, match="no data"):
        events_of({"usageMetadata": {"promptTokenCount": 3}})


def test_goo_8_without_a_finish_reason_the_stream_was_interrupted():
    with pytest.raises(StreamInterruptedError):
        events_of(chunk(text("hel")))


def test_gm_r3_what_comes_after_the_finish_reason_counts():
    message = message_of(chunk(text("a"), finish=STOP), chunk(text("b")), chunk(usage={"promptTokenCount": 7}))

    assert message.text == "ab"
    assert message.usage.input_tokens == 7


def test_what_is_said_of_the_whole_reply_is_kept():
    message = message_of(
        chunk(text("a"), groundingMetadata={}),
        chunk(text("b"), groundingMetadata={"webSearchQueries": ["q"]}),
        chunk(finish=STOP, citationMetadata={"citationSources": [{"uri": "u"}]}),
    )

    assert message.text == "ab"
    assert raw_of(message) == [
        {"groundingMetadata": {"webSearchQueries": ["q"]}, "citationMetadata": {"citationSources": [{"uri": "u"}]}}
    ]


@pytest.mark.parametrize(
    "part",
    [
        {"functionCall": {"args": {}}},
        {"functionCall": 3},
        {"text": 3},
        {"inlineData": {"mimeType": "image/png"}},
        {"inlineData": {"mimeType": "image/png", "data": "A"}},
        3,
    ],
)
def test_a_chunk_that_is_none_is_a_protocol_error(part):
    with pytest.raises(ProtocolError, match="not what Gemini sends"):
        events_of(chunk(part, finish=STOP))


def test_thoughts_and_texts_alternate_as_they_came():
    message = message_of(chunk(thought("a"), text("b"), thought("c"), text("d")), chunk(finish=STOP))

    assert [type(block) for block in message.content] == [ThinkingContent, TextContent] * 2
