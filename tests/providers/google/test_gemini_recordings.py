"""Real answers of the real service, replayed over loopback, cut in every way, and sent back to it."""

from __future__ import annotations

import json
import re
from itertools import groupby

import pytest
from google.genai import Client
from google.genai.types import HttpOptions
from recordings import Recordings, ReplayedRecordings, answered, kept_reply
from simulacra_google import GoogleProvider
from simulacra_google.drafting import Settings
from simulacra_google.encode import encode_request
from simulacra_google.rules import RULES

from simulacra.errors import BadRequestError, ContentFilteredError
from simulacra.messages import RawContent, TextContent, ThinkingContent
from simulacra.provider import ModelRequest
from simulacra.testing.driving import failure_of, reply_of, user

pytestmark = pytest.mark.anyio

METADATA = ("groundingMetadata", "citationMetadata", "urlContextMetadata")
RECORDED = Recordings("ge-", {"ge-error-1": BadRequestError, "ge-blocked-2": ContentFilteredError})
STOPPED = "ge-blocked-1"


class TestGemini(ReplayedRecordings):
    recordings = RECORDED

    def provider(self, http):
        client = Client(api_key="k", http_options=HttpOptions(httpx_async_client=http))

        return GoogleProvider(client, model="gemini-test")

    async def test_a_recorded_answer_is_read_over_the_wire(self, serve, answer):
        parts = parts_in(answer)

        async with serve([RECORDED.reply(answer)]) as (_, provider):
            message = await reply_of(provider)

        raws = [json.loads(block.data) for block in message.content if isinstance(block, RawContent)]
        told = [part for part in parts if "text" in part]
        assert [block.text for block in message.content if isinstance(block, TextContent)] == [
            part["text"] for part in told if not part.get("thought")
        ]
        assert [block.thought for block in message.content if isinstance(block, ThinkingContent)] == [
            part["text"] for part in told if part.get("thought")
        ]
        assert [(call.tool, call.params) for call in message.tool_calls] == [
            (part["functionCall"]["name"], part["functionCall"]["args"]) for part in parts if "functionCall" in part
        ]
        assert [raw for raw in raws if not raw.keys() & set(METADATA)] == [
            part for part in parts if not part.keys() & {"text", "functionCall"}
        ]
        assert [raw for raw in raws if raw.keys() & set(METADATA)] == sources_in(answer)
        assert message.model == model_of(answer)
        assert message.stop_reason == ("content_filter" if answer == STOPPED else ending(parts))

    async def test_the_last_usage_counts(self, serve, answer):
        usage = RECORDED.chunks_of(answer)[-1]["usageMetadata"]

        async with serve([RECORDED.reply(answer)]) as (_, provider):
            counted = (await reply_of(provider)).usage

        assert counted.input_tokens == usage["promptTokenCount"] + usage.get("toolUsePromptTokenCount", 0)
        assert counted.cache_read_input_tokens == usage.get("cachedContentTokenCount")
        assert counted.reasoning_tokens == usage.get("thoughtsTokenCount")
        assert (counted.output_tokens or 0) == usage["totalTokenCount"] - counted.input_tokens

    @pytest.mark.parametrize("name", [name for name in RECORDED.kinds["answer"] if name != STOPPED])
    async def test_a_recorded_answer_goes_back_as_it_came(self, serve, name):
        model = model_of(name)

        async with serve([RECORDED.reply(name)], model=model) as (_, provider):
            message = await kept_reply(provider)

        asked = ModelRequest(messages=[user("q"), message, answered(message, output=3)])
        params = encode_request(asked, Settings(model=model))
        _, replied, told = params["contents"]
        sent = replied["parts"]
        ids = [part["functionCall"].get("id") for part in sent if "functionCall" in part]
        assert sent == parts_in(name)
        assert ids == [part["functionResponse"].get("id") for part in told["parts"] if "text" not in part]
        assert RULES.check(params) == ()

    async def test_goo_8_a_recorded_failure_tells_what_the_service_said(self, serve, failure):
        async with serve([RECORDED.reply(failure)]) as (_, provider):
            error, _ = await failure_of(provider)

        assert not error.retryable
        assert "URL" in str(error) or "Prompt Injection and Jailbreak" in str(error)

    def test_a_recorded_request_keeps_the_rules(self, answer):
        body = snake_keys_undone(RECORDED[answer]["request"]["body"])
        model = RECORDED[answer]["request"]["path"].split("/models/")[1].split(":")[0]

        assert RULES.check({**body, "model": model}) == ()


def model_of(name):
    return RECORDED.chunks_of(name)[-1]["modelVersion"]


def candidates_in(name):
    return [chunk["candidates"][0] for chunk in RECORDED.chunks_of(name) if chunk.get("candidates")]


def parts_in(name):
    """The recorded parts, put together in the plainest way: neighbours of one kind without a signature are one."""
    parts = [part for one in candidates_in(name) for part in one["content"].get("parts") or ()]
    joined = []

    for kind, group in groupby(parts, key=kind_of):
        found = list(group)
        joined += [{**found[0], "text": "".join(part["text"] for part in found)}] if kind else found

    return [part for part in joined if part.get("text", "x") or part.get("thoughtSignature")]


def kind_of(part):
    if "text" not in part or part.get("thoughtSignature"):
        return None

    return "thought" if part.get("thought") else "text"


def ending(parts):
    return "tool_use" if any("functionCall" in part for part in parts) else "end_turn"


def sources_in(name):
    said = {key: one[key] for one in candidates_in(name) for key in METADATA if one.get(key)}

    return [said] if said else []


def snake_keys_undone(body):
    """The recorder wrote some keys in the other spelling that the service takes."""
    return json.loads(re.sub(r'"parameters_json_schema"', '"parametersJsonSchema"', json.dumps(body)))
