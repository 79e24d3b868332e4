from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from simulacra.schema import ToolDefinition, ToolParameter
from simulacra.tokens import MEDIA_TOKENS, MESSAGE_TOKENS, TokenCounter, count_frame_tokens, estimate_tokens

COUNTER = TokenCounter()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("😀😀😀", 2),
        ("é" * 8, 2),
        (None, 0),
        (12345678, 0),
        (b"abc", 0),
        (["a"], 0),
    ],
)
def test_estimate_tokens_is_a_quarter_of_the_utf_16_units(text, tokens):
    assert estimate_tokens(text) == tokens


def test_estimate_tokens_takes_lone_surrogates():
    assert estimate_tokens("\ud800" * 5) == 2


def test_count_frame_tokens_sums_blocks_messages_and_mappings():
    message = AssistantMessage((TextContent("abcde"), ThinkingContent("not counted"), TextContent("abc")))
    frames = [TextContent("abcd"), message, {"content": {"text": "abcde"}}]

    assert count_frame_tokens(frames) == 1 + (2 + 1) + 2
    assert count_frame_tokens(tuple(frames)) == 6


@pytest.mark.parametrize(
    "frames",
    [
        None,
        "text",
        5,
        {"content": {"text": "abcd"}},
        [],
        [None],
        ["text"],
        [{"text": "abcd"}],
        [{"content": "abcd"}],
        [{"content": {"text": 5}}],
        [ThinkingContent("abcd")],
    ],
)
def test_count_frame_tokens_of_anything_else_is_zero(frames):
    assert count_frame_tokens(frames) == 0


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("hello", 1),
        ("hello world", 2),
        ("internationalization", 5),
        ("1234567", 3),
        ("a b", 2),
        ("a\nb", 3),
        ("a  b", 3),
        ("привет", 3),
        ("да", 1),
        ("안녕", 3),
        ("你好世界", 5),
        ("ひらがな", 5),
        ("naïve", 3),
        ("😀", 2),
        ("!?.,", 3),
    ],
)
def test_count_text_goes_by_script(text, tokens):
    assert COUNTER.count_text(text) == tokens


@given(text=st.text())
def test_count_text_takes_any_text_and_counts_each_character_once(text):
    tokens = COUNTER.count_text(text)

    assert 0 <= tokens <= math.ceil(2 * len(text))
    assert tokens > 0 or not text.strip(" ")


@given(code=st.integers(0x21, 0x10FFFF))
def test_count_text_weighs_every_sign(code):
    sign = chr(code)
    weight = COUNTER.count_text(sign * 1000)

    assert sign.isspace() or 200 <= weight <= 2000


@pytest.mark.parametrize("text", ["<|endoftext|>", "<|im_start|>system", "<s>[INST]", "<start_of_turn>"])
def test_un_03_text_like_a_special_token_is_text(text):
    plain = text.translate(str.maketrans("<|>[]", "(:)()"))

    assert COUNTER.count_text(text) == COUNTER.count_text(plain) > 1
    assert COUNTER.count_messages([UserMessage((TextContent(text),))]) == MESSAGE_TOKENS + COUNTER.count_text(plain)


def test_count_messages_counts_every_kind_of_block():
    picture = MediaContent(kind="image", media_type="image/png", data=b"x" * 10_000)
    result = ToolResultContent(
        tool_request_id="1", tool="find", result=ToolSuccessResult(answer="forty two"), content=(picture,)
    )
    without = COUNTER.count_messages([UserMessage((TextContent("go"),))])

    assert without == MESSAGE_TOKENS + 1
    assert COUNTER.count_messages([]) == 0
    assert COUNTER.count_messages([UserMessage((picture,))]) == MESSAGE_TOKENS + MEDIA_TOKENS
    assert COUNTER.count_messages([UserMessage((result,))]) > MESSAGE_TOKENS + MEDIA_TOKENS + 5
    assert COUNTER.count_messages([UserMessage((RawContent(model_kind="x", data='{"a": 1}'),))]) > MESSAGE_TOKENS + 3
    assert COUNTER.count_messages([AssistantMessage((ThinkingContent("let me think"),))]) == MESSAGE_TOKENS + 3
    assert COUNTER.count_messages([UserMessage((UnknownContent({"type": "new"}),))]) == MESSAGE_TOKENS


def test_count_messages_counts_arguments_and_failures():
    short = AssistantMessage((ToolContent(tool_request_id="1", tool="find", params={"q": "x"}),))
    long = AssistantMessage((ToolContent(tool_request_id="1", tool="find", params={"q": "word " * 500}),))
    failed = ToolErrorResult(message="it is broken in many ways " * 100)
    answer = UserMessage((ToolResultContent(tool_request_id="1", tool="find", result=failed),))

    assert COUNTER.count_messages([long]) - COUNTER.count_messages([short]) >= 490
    assert COUNTER.count_messages([answer]) >= 600


def test_count_request_adds_tools_and_system():
    messages = [UserMessage((TextContent("hello"),))]
    tool = ToolDefinition(
        name="search",
        description="Search the web for a phrase",
        parameters=[ToolParameter(name="phrase", type="string", description="What to look for", required=True)],
    )
    bare = COUNTER.count_request(messages)

    assert bare == COUNTER.count_messages(messages)
    assert COUNTER.count_request(messages, system=("be brief and kind",)) == bare + 4
    assert COUNTER.count_request(messages, [tool]) >= bare + 20
    assert COUNTER.count_request(messages, [tool], ("be brief and kind",)) >= bare + 24


def test_the_work_of_counting_grows_with_the_text_not_faster():
    worst = [
        " " * 100_000,
        "a" * 100_000,
        "9" * 100_000,
        "\n" * 100_000,
        "é" * 100_000,
        "。" * 100_000,
        "a1 é你 " * 16_000,
    ]

    for text in worst:
        assert COUNTER.count_text(text) <= 2 * len(text)
