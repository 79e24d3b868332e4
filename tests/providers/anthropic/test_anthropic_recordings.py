"""Real answers of the real service, replayed over loopback, cut in every way, and sent back to it."""

from __future__ import annotations

import json

import pytest
from anthropic import AsyncAnthropic
from messages_wire import params_of, user
from recordings import Recordings, ReplayedRecordings, answered, kept_reply
from simulacra_anthropic import AnthropicProvider
from simulacra_anthropic.rules import RULES

from simulacra.errors import AuthenticationError, BadRequestError
from simulacra.messages import RawContent, TextContent, ThinkingContent
from simulacra.testing.driving import reply_of

pytestmark = pytest.mark.anyio

RECORDED = Recordings("an-", {"an-error-3": AuthenticationError, "an-error-4": BadRequestError})


class TestAnthropic(ReplayedRecordings):
    recordings = RECORDED

    def provider(self, http):
        return AnthropicProvider(AsyncAnthropic(api_key="k", http_client=http), model="claude-test")

    async def test_a_recorded_answer_is_read_over_the_wire(self, serve, answer):
        expected = message_in(answer)

        async with serve([RECORDED.reply(answer)]) as (_, provider):
            message = await reply_of(provider)

        texts = [block["text"] for block in expected["content"] if block["type"] == "text" and block["text"]]
        thoughts = [block.get("thinking", "") for block in expected["content"] if "thinking" in block["type"]]
        calls = [(block["name"], block["input"]) for block in expected["content"] if block["type"] == "tool_use"]
        known = ("text", "thinking", "redacted_thinking", "tool_use")
        others = [block for block in expected["content"] if block["type"] not in known]
        raws = [json.loads(block.data) for block in message.content if isinstance(block, RawContent)]
        assert [block.text for block in message.content if isinstance(block, TextContent)] == texts
        assert [block.thought for block in message.content if isinstance(block, ThinkingContent)] == thoughts
        assert [(call.tool, call.params) for call in message.tool_calls] == calls
        assert [block for block in raws if "type" in block] == others
        assert [block["container"] for block in raws if "type" not in block] == containers(expected)
        assert (message.usage.input_tokens, message.usage.output_tokens) == expected_usage(expected["usage"])
        assert message.model == expected["model"]

    async def test_an_r3_a_recorded_answer_goes_back_as_it_came(self, serve, answer):
        async with serve([RECORDED.reply(answer)]) as (_, provider):
            message = await kept_reply(provider)

        params = params_of(user("q"), message, answered(message))
        asked, sent, told = params["messages"]
        content = message_in(answer)["content"]
        expected = [block for block in kept(content) if not is_lone(block, content)]

        assert (blocks(sent["content"]) if isinstance(sent["content"], str) else kept(sent["content"])) == expected
        assert asked["role"] == told["role"] == "user"
        assert RULES.check(params) == ()


def message_in(name):
    """The recorded message, put together in the plainest way."""
    events = RECORDED.chunks_of(name)

    if not RECORDED.is_stream(name):
        return events[0]

    message = next(event["message"] for event in events if event["type"] == "message_start")
    content, inputs = message["content"], {}

    for event in events:
        match event:
            case {"type": "content_block_start", "content_block": start}:
                content.append(start)
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                grow(content[index], delta, inputs.setdefault(index, []))
            case {"type": "message_delta", "delta": delta, "usage": usage}:
                message |= {key: value for key, value in delta.items() if value is not None}
                message["usage"] |= usage

    for index, pieces in inputs.items():
        if any(pieces):
            content[index]["input"] = json.loads("".join(pieces))

    return message


def grow(block, delta, pieces):
    match delta:
        case {"type": "text_delta", "text": piece}:
            block["text"] += piece
        case {"type": "thinking_delta", "thinking": piece}:
            block["thinking"] += piece
        case {"type": "signature_delta", "signature": signature}:
            block["signature"] += signature
        case {"type": "input_json_delta", "partial_json": piece}:
            pieces.append(piece)
        case {"type": "citations_delta", "citation": citation}:
            block["citations"] = [*(block.get("citations") or ()), citation]
        case {"type": "compaction_delta", "content": summary}:
            block["content"] = summary


def expected_usage(usage):
    passes = usage.get("iterations") or [usage]
    read = sum(
        one["input_tokens"] + one["cache_read_input_tokens"] + one["cache_creation_input_tokens"] for one in passes
    )

    return read, sum(one["output_tokens"] for one in passes)


def kept(blocks):
    """Blocks that go back: blank text never does, and fields that say nothing need not."""
    return [
        {key: value for key, value in block.items() if value is not None and (key, value) != ("citations", [])}
        for block in blocks
        if block["type"] != "text" or block["text"].strip()
    ]


def containers(message):
    return [message["container"]] if message.get("container") else []


def blocks(sent):
    return [{"type": "text", "text": sent}]


def is_lone(block, content):
    """A call of the service's own that has no result in the same reply: the next user message would be refused."""
    if block["type"] == "server_tool_use":
        return not any(other.get("tool_use_id") == block["id"] for other in content)

    called = [other["id"] for other in content if other["type"] in ("server_tool_use", "mcp_tool_use")]

    return block["type"].endswith("_tool_result") and block["tool_use_id"] not in called
