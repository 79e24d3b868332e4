from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from simulacra.checkpoints import write_transcript
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


def answer(*, tool: str = "look", content=(), **facts) -> UserMessage:
    result = ToolSuccessResult(**facts)

    return UserMessage((ToolResultContent(tool_request_id="1", tool=tool, result=result, content=content),))


def test_cp_11_texts_stand_as_they_are():
    messages = [UserMessage((TextContent(" a\n b "), TextContent("c"))), AssistantMessage((TextContent("d"),))]

    assert write_transcript(messages) == "User:\n a\n b \nc\n\nAssistant:\nd"


def test_w_cp_7_arguments_are_in_the_transcript():
    call = ToolContent(tool_request_id="1", tool="find", params={"größe": 3, "deep": {"x": [1, None]}})

    assert write_transcript([AssistantMessage((call,))]) == (
        'Assistant:\n[called find with {"größe":3,"deep":{"x":[1,null]}}]'
    )


def test_w_cp_7_arguments_that_could_not_be_read_are_shown_as_they_came():
    call = ToolContent(
        tool_request_id="1", tool="find", error="no JSON", extended={"arguments": '{"path": "a.txt", "con'}
    )

    assert '{"path": "a.txt", "con' in write_transcript([AssistantMessage((call,))])


def test_cp_11_results_are_json():
    failed = ToolErrorResult(message="no such place", error={"code": 7})
    transcript = write_transcript(
        [answer(seen="a thing"), UserMessage((ToolResultContent(tool_request_id="2", tool="look", result=failed),))]
    )
    written = [json.loads(found) for found in re.findall(r"^\[result of look: (.*)\]$", transcript, re.MULTILINE)]

    assert written == [
        {"result": True, "seen": "a thing"},
        {"result": False, "message": "no such place", "error": {"code": 7}},
    ]


def test_w_cp_7_media_are_placeholders():
    image = MediaContent(kind="image", media_type="image/png", data=b"x" * 2048, name="cat.png")
    link = MediaContent(kind="file", media_type="application/pdf", url="https://example.org/a.pdf")
    transcript = write_transcript([UserMessage((image, link)), answer(content=(image, TextContent("a cat")))])

    assert transcript.count("[image: image/png, cat.png, 2048 bytes]") == 2
    assert "[file: application/pdf, https://example.org/a.pdf]" in transcript
    assert "a cat" in transcript
    assert "xxxx" not in transcript


def test_w_cp_7_thinking_is_left_out():
    reply = AssistantMessage((ThinkingContent("secret doubts"), TextContent("yes")))

    assert write_transcript([reply]) == "Assistant:\nyes"


def test_cp_11_messages_with_nothing_to_tell_are_left_out():
    messages = [
        UserMessage((TextContent("  "),)),
        AssistantMessage((ThinkingContent("hm"),)),
        UserMessage((UnknownContent({"type": "new"}),)),
        AssistantMessage(()),
    ]

    assert write_transcript(messages) == ""
    assert write_transcript([AssistantMessage((RawContent(model_kind="acme", data="{}"),))]) == (
        "Assistant:\n[acme content]"
    )


def test_cp_r6_a_large_result_is_cut_with_a_marker_and_small_ones_stay():
    transcript = write_transcript([answer(page="x" * 10_000), answer(small="tiny")], result_limit=500)

    assert "x" * 501 not in transcript
    assert re.search(r"… \(\d+ more characters left out\)\]", transcript)
    assert '[result of look: {"result":true,"small":"tiny"}]' in transcript


def test_cp_r6_large_arguments_and_texts_beside_a_result_are_cut_too():
    call = ToolContent(tool_request_id="1", tool="write", params={"text": "y" * 10_000})
    messages = [AssistantMessage((call,)), answer(content=(TextContent("z" * 10_000),))]
    transcript = write_transcript(messages, result_limit=500)

    assert "y" * 501 not in transcript
    assert "z" * 501 not in transcript
    assert transcript.count("more characters left out") == 2


def test_cp_r6_the_sum_is_bounded_too_wherever_results_stand():
    transcript = write_transcript(
        [answer(n=number, page="x" * 3_000) for number in range(100)], result_limit=4_000, total_limit=50_000
    )

    assert len(transcript) < 50_000 + 100 * 80
    assert transcript.count("[result of look:") == 100


@given(
    lengths=st.lists(st.integers(0, 300), min_size=1, max_size=12),
    result_limit=st.integers(1, 200),
    total_limit=st.integers(1, 1000),
)
def test_cp_r6_every_call_keeps_a_result_within_the_bounds(lengths, result_limit, total_limit):
    messages = [answer(tool=f"t{place}", page="x" * length) for place, length in enumerate(lengths)]
    transcript = write_transcript(messages, result_limit=result_limit, total_limit=total_limit)
    shown = [
        re.split(r"…| \(", found)[0] for found in re.findall(r"^\[result of t\d+: (.*)\]$", transcript, re.MULTILINE)
    ]
    whole = [len(json.dumps({"result": True, "page": "x" * length}, separators=(",", ":"))) for length in lengths]
    cut = [length for length, text in zip(whole, shown, strict=True) if len(text) < length]

    assert len(shown) == len(lengths)
    assert all(len(text) <= result_limit for text in shown)
    assert sum(map(len, shown)) <= total_limit
    assert all(length >= max(map(len, shown)) for length in cut)  # only the longest lose
