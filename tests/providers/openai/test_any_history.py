"""Any history of 60 blocks becomes a request that every service takes, and what a service gave goes back as it came."""

from __future__ import annotations

import json
from itertools import groupby

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulacra_openai import COMPATIBLE, FIREWORKS, OPENAI, Preset, rules_for
from simulacra_openai.drafting import Settings
from simulacra_openai.encode import encode_request
from simulacra_openai.media_reading import AUDIO_MARK

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

DEEPSEEK = Preset(
    kind="deepseek",
    limit_field="max_tokens",
    strict_flag=False,
    system_role="system",
    replayed_thinking="reasoning_content",
)
PRESETS = [OPENAI, COMPATIBLE, FIREWORKS, DEEPSEEK]
words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).filter(str.strip)
texts = st.one_of(words, st.sampled_from(["", " ", "\n\t", "\u2003", "🙂", "<|endoftext|>"])).map(TextContent)
ids = st.one_of(st.sampled_from(["a", "b", "", "x" * 41, "functions.read:0", "toolu_01"]), words)
values = st.one_of(st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False, allow_infinity=False), words)
refusals = words.map(lambda text: TextContent(text, extended={"openai_refusal": True}))
calls = st.builds(
    lambda call_id, tool, params, extended: ToolContent(
        tool_request_id=call_id, tool=tool, params=params, extended=extended
    ),
    ids,
    st.sampled_from(["f", "files.read", "", "n" * 80]),
    st.dictionaries(words, values, max_size=2),
    st.sampled_from([None, {"openai_call": {"extra_content": {"s": 1}}}, {"signature": "s"}]),
)
media = st.sampled_from(
    [
        MediaContent(kind="image", media_type="image/png", data=b"\x89PNG"),
        MediaContent(kind="image", media_type="image/tiff", data=b"II*"),
        MediaContent(kind="image", media_type="image/png", url="https://example.com/x.png"),
        MediaContent(kind="audio", media_type="audio/pcm", data=b"xx", extended={AUDIO_MARK: {"id": "audio_1"}}),
        MediaContent(kind="audio", media_type="audio/wav", data=b"RIFF"),
        MediaContent(kind="video", media_type="video/mp4", url="https://example.com/v.mp4"),
        MediaContent(kind="file", media_type="application/pdf", data=b"%PDF", name="a.pdf"),
        MediaContent(kind="file", media_type="application/pdf", file_id="file-1"),
    ]
)
results = st.builds(
    lambda call_id, outcome, content: ToolResultContent(
        tool_request_id=call_id, tool="f", result=outcome, content=tuple(content)
    ),
    ids,
    st.sampled_from([ToolSuccessResult(), ToolErrorResult(message="no")]),
    st.lists(st.one_of(texts, media), max_size=2),
)
thoughts = st.builds(
    lambda extended: ThinkingContent("hidden thought", extended=extended),
    st.sampled_from([None, {"signature": "s"}, {"openai_thinking": "reasoning_content"}]),
)
raws = st.builds(
    lambda kind, data: RawContent(model_kind=kind, data=data),
    st.sampled_from(["openai", "anthropic", "google", "fireworksai"]),
    st.sampled_from(['{"type": "odd", "n": [1]}', '{"annotations": [1]}', '{"type": "server_tool_use"}', "{", "3"]),
)
unknown = st.just(UnknownContent({"type": "hologram"}))
blocks = st.one_of(
    st.tuples(st.just("user"), st.one_of(texts, media, results, raws, unknown)),
    st.tuples(st.just("assistant"), st.one_of(texts, refusals, calls, thoughts, raws, media, unknown)),
)


@st.composite
def histories(draw):
    """Up to 60 blocks in messages of any order, cut off and unanswered as it comes, and a prompt."""
    drawn = draw(st.lists(blocks, max_size=59))
    messages = [
        (UserMessage if role == "user" else AssistantMessage)(tuple(block for _, block in group))
        for role, group in groupby(drawn, key=lambda pair: pair[0])
    ]

    return (*messages, UserMessage((TextContent("and now?"),)))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(history=histories(), preset=st.sampled_from(PRESETS))
def test_any_history_becomes_a_request_that_the_service_takes(history, preset):
    sent = encode_request(
        ModelRequest(messages=history),
        Settings(model="m", preset=preset, raw_kinds=preset.raw_kinds, media_types=preset.media_types),
    )
    said = [
        block.text
        for message in history
        if message.role == "user"
        for block in message.content
        if isinstance(block, TextContent) and block.text.strip()
    ]
    written = json.dumps(sent, ensure_ascii=False)

    assert [str(found) for found in rules_for(preset).check(sent)] == []
    assert all(json.dumps(text, ensure_ascii=False)[1:-1] in written for text in said)
    assert "anthropic" not in written
    assert ("hidden thought" in written) <= (preset is DEEPSEEK)


part = st.fixed_dictionaries({"type": st.sampled_from(["odd", "video_url"]), "value": st.lists(values, max_size=2)})


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(part, min_size=1, max_size=3), text=words, extras=st.dictionaries(words, values, max_size=2))
def test_what_a_service_gave_goes_back_the_same(parts, text, extras):
    extras = {f"x_{key}": value for key, value in extras.items()}
    own = [RawContent(model_kind="openai", data=json.dumps(one)) for one in parts]
    call = ToolContent(tool_request_id="a", tool="f", extended={"openai_call": extras})
    reply = AssistantMessage((*own, TextContent(text), call))
    answer = ToolResultContent(tool_request_id="a", tool="f", result=ToolSuccessResult())
    sent = encode_request(
        ModelRequest(messages=(UserMessage((TextContent("q"),)), reply, UserMessage((answer,)))),
        Settings(model="m", preset=COMPATIBLE),
    )["messages"][1]

    assert sent["content"] == [*parts, {"type": "text", "text": text}]
    assert {key: value for key, value in sent["tool_calls"][0].items() if key.startswith("x_")} == extras


@pytest.mark.parametrize("preset", PRESETS)
def test_mu_r1_media_of_the_prompt_are_refused_with_vendor_place_and_remedy(preset):
    video = MediaContent(kind="video", media_type="video/mp4", url="https://example.com/v.mp4")

    with pytest.raises(ConfigurationError, match=rf"the prompt's video cannot be sent to {preset.kind}.*Convert it"):
        encode_request(
            ModelRequest(messages=(UserMessage((video,)),)),
            Settings(model="m", preset=preset, raw_kinds=preset.raw_kinds),
        )
