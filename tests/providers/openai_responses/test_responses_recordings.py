"""Recorded responses, served on loopback to the official SDK."""

from __future__ import annotations

import json

import pytest
from openai import AsyncOpenAI
from recordings import Recordings, ReplayedRecordings, answered, kept_reply
from simulacra_openai.responses import OpenAIResponsesProvider
from simulacra_openai.responses.drafting import Settings
from simulacra_openai.responses.encode import encode_request
from simulacra_openai.responses.rules import RULES

from simulacra.errors import BadRequestError
from simulacra.messages import RawContent, TextContent, ThinkingContent
from simulacra.provider import ModelRequest
from simulacra.testing.driving import reply_of, user

pytestmark = pytest.mark.anyio

RECORDED = Recordings("or-", {"or-error-2": BadRequestError})


class TestResponses(ReplayedRecordings):
    recordings = RECORDED

    def provider(self, http):
        return OpenAIResponsesProvider(AsyncOpenAI(api_key="k", http_client=http), model="gpt-test")

    async def test_a_recorded_answer_is_read_over_the_wire(self, serve, answer):
        expected = response_in(answer)

        async with serve([RECORDED.reply(answer)]) as (_, provider):
            message = await reply_of(provider)

        items = expected["output"]
        known = ("message", "reasoning", "function_call")
        raws = [json.loads(block.data)["id"] for block in message.content if isinstance(block, RawContent)]
        assert [block.text for block in message.content if isinstance(block, TextContent)] == [
            text for item in items if item["type"] == "message" for text in texts_in(item) if text
        ]
        assert [(call.tool_request_id, call.tool, call.params) for call in message.tool_calls] == [
            (item["call_id"], item["name"], json.loads(item["arguments"]))
            for item in items
            if item["type"] == "function_call"
        ]
        assert sum(isinstance(block, ThinkingContent) for block in message.content) == sum(
            item["type"] == "reasoning" for item in items
        )
        assert sorted(raws) == sorted(item["id"] for item in items if item["type"] not in known)
        assert message.usage.input_tokens == expected["usage"]["input_tokens"]
        assert message.usage.output_tokens == expected["usage"]["output_tokens"]
        assert message.model == expected["model"]
        assert message.stop_reason == ("tool_use" if message.tool_calls else "end_turn")

    async def test_oa_10_a_recorded_answer_goes_back_as_it_came(self, serve, answer):
        async with serve([RECORDED.reply(answer)]) as (_, provider):
            message = await kept_reply(provider)

        asked = ModelRequest(messages=(user("q"), message, answered(message)))
        params = encode_request(asked, Settings(model="m"))
        sent = {item["id"]: item for item in params["input"] if "id" in item}
        own = {item["id"]: item for item in response_in(answer)["output"]}

        assert RULES.check(params) == ()
        assert all(item == own[key] for key, item in sent.items() if item["type"] in ("reasoning", "function_call"))
        assert all(texts_in(item) == texts_in(own[key]) for key, item in sent.items() if item["type"] == "message")


def response_in(name):
    """The response, as its closing event tells it."""
    chunks = RECORDED.chunks_of(name)

    if not RECORDED.is_stream(name):
        return chunks[0]

    return next(chunk["response"] for chunk in chunks if chunk.get("type") == "response.completed")


def texts_in(item):
    return [part.get("text", part.get("refusal")) for part in item["content"]]
