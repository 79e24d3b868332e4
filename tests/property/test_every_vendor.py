"""Whatever a history holds, every vendor gets a request that keeps its rules, and no word of the user is lost."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulacra import registry
from simulacra.messages import (
    AssistantMessage,
    MediaContent,
    Message,
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
from simulacra.rules import RuleTable
from simulacra.schema import ToolDefinition, ToolParameter

MOST_BLOCKS = 60
TABLES: dict[str, RuleTable] = {
    vendor: rules for vendor in registry.installed() if (rules := registry.plugin(vendor).rules) is not None
}
KINDS = ["anthropic", "openai", "openai_responses", "google"]
ADD = ToolDefinition(
    name="add", description="Add.", parameters=(ToolParameter(name="a", type="number", required=True),)
)

ids = st.sampled_from(["t1", "t2", "call.1|fc_2", "", "x" * 70, "ü"])
texts = st.sampled_from(["a", " b ", "c\n", "", " ", "\n\t", "half \ud83d", "🙂"]).map(TextContent)
media = st.sampled_from(
    [
        MediaContent(kind="image", media_type="image/png", data=b"\x89PNG\r\n"),
        MediaContent(kind="image", media_type="image/tiff", data=b"II*"),
        MediaContent(kind="audio", media_type="audio/wav", data=b"RIFF"),
        MediaContent(kind="video", media_type="video/mp4", url="https://example.org/v.mp4"),
        MediaContent(kind="file", media_type="application/pdf", data=b"%PDF", name="a.pdf"),
        MediaContent(kind="file", media_type="application/zip", file_id="file_1"),
    ]
)
thoughts = st.builds(
    lambda redacted, extended: ThinkingContent("thought", redacted=redacted, extended=extended),
    st.booleans(),
    st.sampled_from([None, {"signature": "SIG"}, {"data": "D"}, {"signature": ""}, {"thought_signature": "c2ln"}]),
)
calls = st.builds(
    lambda call_id, tool, error: ToolContent(tool_request_id=call_id, tool=tool, params={"a": 1}, error=error),
    ids,
    st.sampled_from(["add", "my tool", "n" * 90, ""]),
    st.sampled_from([None, "cut off"]),
)
results = st.builds(
    lambda call_id, result, content: ToolResultContent(
        tool_request_id=call_id, tool="add", result=result, content=content
    ),
    ids,
    st.sampled_from([ToolSuccessResult(result=True, output=3), ToolErrorResult(result=False, message="no")]),
    st.lists(texts | media, max_size=2).map(tuple),
)
raws = st.builds(
    lambda kind, data: RawContent(model_kind=kind, data=data),
    st.sampled_from(KINDS),
    st.sampled_from(
        [
            json.dumps({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}),
            json.dumps({"type": "web_search_call", "id": "ws_1", "status": "completed"}),
            json.dumps({"executableCode": {"code": "1", "language": "PYTHON"}}),
            json.dumps({"container": {"id": "c"}}),
            json.dumps({"type": "tool_use"}),
            "[]",
            "no JSON",
        ]
    ),
)
unknown = st.just(UnknownContent(data={"type": "hologram", "depth": 3}))
blocks = st.one_of(
    st.tuples(st.just("user"), texts | media | results | unknown),
    st.tuples(st.just("assistant"), texts | media | thoughts | calls | raws | unknown),
)
statuses = st.sampled_from(["complete", "complete", "interrupted"])


def message_of(role: str, content: tuple[Any, ...], status: Any) -> Message:
    return UserMessage(content) if role == "user" else AssistantMessage(content, status=status)


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Messages of random roles with 60 blocks at most, some of them empty, the prompt last."""
    drawn = draw(st.lists(blocks, max_size=MOST_BLOCKS - 1))
    messages = [
        message_of(role, tuple(block for _, block in group), draw(statuses))
        for (role, _), group in groupby(drawn, key=lambda pair: (pair[0], isinstance(pair[1], ToolContent)))
    ]

    return [*messages, UserMessage((TextContent("and now?"),))]


def words_of_user(messages: list[Message]) -> list[str]:
    return [
        block.text
        for message in messages
        if message.role == "user"
        for block in message.content
        if isinstance(block, TextContent) and block.text.strip()
    ]


@pytest.mark.parametrize("vendor", TABLES)
@pytest.mark.parametrize("tools", [(), (ADD,)], ids=["without tools", "with a tool"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(history=histories())
def test_any_history_becomes_a_request_without_violations(
    vendor: str, tools: tuple[ToolDefinition, ...], history: list[Message]
) -> None:
    table = TABLES[vendor]
    wire = table.repair(table.draft(ModelRequest(messages=tuple(history), tools=tools)))

    assert [str(violation) for violation in table.check(wire)] == []
    assert table.repair(wire) is wire
    written = json.dumps(wire, ensure_ascii=False)
    assert all(json.dumps(text, ensure_ascii=False)[1:-1] in written for text in words_of_user(history))
