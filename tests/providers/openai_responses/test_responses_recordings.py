"""Recorded responses, served on loopback to the official SDK. Skipped where the recordings are not at hand."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path

import pytest
from simulacra_openai.responses.drafting import Settings
from simulacra_openai.responses.encode import encode_request
from simulacra_openai.responses.rules import RULES

from simulacra.errors import BadRequestError, ProtocolError, StreamInterruptedError
from simulacra.messages import (
    RawContent,
    TextContent,
    ThinkingContent,
    ToolResultContent,
    ToolSuccessResult,
    UserMessage,
)
from simulacra.provider import ModelRequest
from simulacra.serialization import dump_message, load_message
from simulacra.testing import EmulatedReply
from simulacra.testing.driving import failure_of, reply_of, user

pytestmark = pytest.mark.anyio

SHARED = Path(os.environ.get("SIMULACRA_SHARED") or Path(__file__).parents[4] / "shared")
WIRE = SHARED / "data" / "wire.jsonl"


def recordings():
    if not WIRE.exists():
        return {}

    lines = [json.loads(line) for line in WIRE.read_text("utf-8").splitlines()]

    return {one["id"]: one for one in lines if one["request"]["path"].endswith("/responses")}


FOUND = recordings()
ANSWERS = [name for name, one in FOUND.items() if one["response"]["status"] == 200]
STREAMS = [name for name in ANSWERS if FOUND[name]["stream"]]
needs_recordings = pytest.mark.skipif(
    not FOUND, reason=f"no recordings at {WIRE}; set SIMULACRA_SHARED to the folder that holds data/wire.jsonl"
)


def recorded(name, body=None):
    """The recorded answer, or another body under its head."""
    response = FOUND[name]["response"]
    kind = "text/event-stream" if FOUND[name]["stream"] else "application/json"

    return EmulatedReply(
        status=response["status"],
        body=[response["body"].encode()] if body is None else body,
        content_type=kind,
    )


def response_in(name):
    """The response, as its closing event tells it."""
    body = FOUND[name]["response"]["body"]

    if not FOUND[name]["stream"]:
        return json.loads(body)

    events = [json.loads(line[5:]) for line in body.splitlines() if line.startswith("data:") and "[DONE]" not in line]

    return next(event["response"] for event in events if event.get("type") == "response.completed")


def texts_in(item):
    return [part.get("text", part.get("refusal")) for part in item["content"]]


@needs_recordings
@pytest.mark.parametrize("name", ANSWERS)
async def test_a_recorded_answer_is_read_over_the_wire(serve, name):
    expected = response_in(name)

    async with serve([recorded(name)]) as (_, provider):
        message = await reply_of(provider)

    items = expected["output"]
    known = ("message", "reasoning", "function_call")
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
    assert sorted(json.loads(block.data)["id"] for block in message.content if isinstance(block, RawContent)) == sorted(
        item["id"] for item in items if item["type"] not in known
    )
    assert message.usage.input_tokens == expected["usage"]["input_tokens"]
    assert message.usage.output_tokens == expected["usage"]["output_tokens"]
    assert message.model == expected["model"]
    assert message.stop_reason == ("tool_use" if message.tool_calls else "end_turn")


@needs_recordings
@pytest.mark.parametrize("name", ANSWERS)
async def test_oa_10_a_recorded_answer_goes_back_as_it_came(serve, name):
    async with serve([recorded(name)]) as (_, provider):
        message = load_message(dump_message(await reply_of(provider)))

    results = tuple(
        ToolResultContent(tool_request_id=call.tool_request_id, tool=call.tool, result=ToolSuccessResult(result=True))
        for call in message.tool_calls
    )
    asked = ModelRequest(messages=(user("q"), message, UserMessage((*results, TextContent("go on")))))
    params = encode_request(asked, Settings(model="m"))
    sent = {item["id"]: item for item in params["input"] if "id" in item}
    own = {item["id"]: item for item in response_in(name)["output"]}

    assert RULES.check(params) == ()
    assert all(item == own[key] for key, item in sent.items() if item["type"] in ("reasoning", "function_call"))
    assert all(texts_in(item) == texts_in(own[key]) for key, item in sent.items() if item["type"] == "message")


@needs_recordings
@pytest.mark.parametrize("name", [name for name in FOUND if name not in ANSWERS])
async def test_a_recorded_failure_is_its_typed_error(serve, name):
    async with serve([recorded(name)]) as (_, provider):
        error, _ = await failure_of(provider)

    assert type(error) is BadRequestError
    assert str(error)


@needs_recordings
@pytest.mark.parametrize("name", STREAMS)
async def test_st_r2_a_recording_written_line_by_line_is_the_same(serve, name):
    lines = re.findall(r"[^\n]*\n+|[^\n]+$", FOUND[name]["response"]["body"])

    async with serve([recorded(name), recorded(name, [line.encode() for line in lines])]) as (_, provider):
        assert await reply_of(provider) == await reply_of(provider)


@needs_recordings
@pytest.mark.parametrize("name", [name for name in STREAMS if len(FOUND[name]["response"]["body"]) < 16_000])
async def test_st_r2_a_recording_written_byte_by_byte_is_the_same(serve, name):
    body = FOUND[name]["response"]["body"].encode()
    bytewise = EmulatedReply(body=[body], content_type="text/event-stream", write_size=1)

    async with serve([recorded(name), bytewise]) as (_, provider):
        assert await reply_of(provider) == await reply_of(provider)


@needs_recordings
@pytest.mark.parametrize("name", STREAMS)
async def test_st_r1_a_recording_that_ends_too_early_is_interrupted_or_the_same(serve, name):
    body = FOUND[name]["response"]["body"].encode()
    chance = random.Random(name)
    ends = [*(line.end() for line in re.finditer(rb"\n", body)), *(chance.randrange(len(body)) for _ in range(200))]

    async with serve([recorded(name), *(recorded(name, [body[:end]]) for end in ends)]) as (_, provider):
        whole = await reply_of(provider)
        outcomes = [await outcome_of(provider) for _ in ends]

    assert all(found == whole or type(found) in (StreamInterruptedError, ProtocolError) for found in outcomes)
    assert any(isinstance(found, StreamInterruptedError) for found in outcomes)


async def outcome_of(provider):
    """The message, or the error, of one request."""
    try:
        return await reply_of(provider)
    except Exception as error:
        return error
