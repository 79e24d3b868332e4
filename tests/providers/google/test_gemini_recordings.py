"""Real answers of the real service, replayed over loopback, cut in every way, and sent back to it."""

from __future__ import annotations

import json
import os
import random
import re
from itertools import groupby
from pathlib import Path

import pytest
from simulacra_google.drafting import Settings
from simulacra_google.encode import encode_request
from simulacra_google.rules import RULES

from simulacra.errors import BadRequestError, ContentFilteredError, ProtocolError, StreamInterruptedError
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

SHARED = Path(os.environ.get("SIMULACRA_SHARED", Path(__file__).parents[4] / "shared"))
RECORDINGS = SHARED / "data" / "wire.jsonl"
MISSING = f"no recordings at {RECORDINGS}; set SIMULACRA_SHARED to the folder that holds data/wire.jsonl"
METADATA = ("groundingMetadata", "citationMetadata", "urlContextMetadata")


def recordings():
    lines = RECORDINGS.read_text("utf-8").splitlines() if RECORDINGS.exists() else []

    return {entry["id"]: entry for entry in map(json.loads, lines) if entry["id"].startswith("ge-")}


FOUND = recordings()
FAILURES = {"ge-error-1": BadRequestError, "ge-blocked-2": ContentFilteredError}
ANSWERS = [name for name in FOUND if name not in FAILURES]
STREAMS = [name for name in FOUND if "event-stream" in FOUND[name]["response"]["content_type"]]
needs_recordings = pytest.mark.skipif(not FOUND, reason=MISSING)


def recorded(name, body=None):
    answer = FOUND[name]["response"]

    return EmulatedReply(
        status=answer["status"], content_type=answer["content_type"], body=answer["body"] if body is None else body
    )


def chunks_in(name):
    body = FOUND[name]["response"]["body"]

    return [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")] or [json.loads(body)]


def candidates_in(name):
    return [chunk["candidates"][0] for chunk in chunks_in(name) if chunk.get("candidates")]


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


@needs_recordings
@pytest.mark.parametrize("name", ANSWERS)
async def test_a_recorded_answer_is_read_over_the_wire(serve, name):
    parts = parts_in(name)

    async with serve([recorded(name)]) as (_, provider):
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
    assert [raw for raw in raws if raw.keys() & set(METADATA)] == sources_in(name)
    assert message.model == chunks_in(name)[-1]["modelVersion"]
    assert message.stop_reason == ("content_filter" if name == "ge-blocked-1" else ending(parts))


def ending(parts):
    return "tool_use" if any("functionCall" in part for part in parts) else "end_turn"


def sources_in(name):
    said = {key: one[key] for one in candidates_in(name) for key in METADATA if one.get(key)}

    return [said] if said else []


@needs_recordings
@pytest.mark.parametrize("name", ANSWERS)
async def test_the_last_usage_counts(serve, name):
    usage = chunks_in(name)[-1]["usageMetadata"]

    async with serve([recorded(name)]) as (_, provider):
        counted = (await reply_of(provider)).usage

    assert counted.input_tokens == usage["promptTokenCount"] + usage.get("toolUsePromptTokenCount", 0)
    assert counted.cache_read_input_tokens == usage.get("cachedContentTokenCount")
    assert counted.reasoning_tokens == usage.get("thoughtsTokenCount")
    assert (counted.output_tokens or 0) == usage["totalTokenCount"] - counted.input_tokens


@needs_recordings
@pytest.mark.parametrize("name", [name for name in ANSWERS if name != "ge-blocked-1"])
async def test_a_recorded_answer_goes_back_as_it_came(serve, name):
    model = chunks_in(name)[-1]["modelVersion"]

    async with serve([recorded(name)], model=model) as (_, provider):
        message = load_message(dump_message(await reply_of(provider)))

    params = encode_request(ModelRequest(messages=[user("q"), message, answered(message)]), Settings(model=model))
    sent = params["contents"][1]["parts"]
    ids = [part["functionCall"].get("id") for part in sent if "functionCall" in part]
    assert sent == parts_in(name)
    assert ids == [part["functionResponse"].get("id") for part in params["contents"][2]["parts"] if "text" not in part]
    assert RULES.check(params) == ()


def answered(message):
    results = [
        ToolResultContent(
            tool_request_id=call.tool_request_id, tool=call.tool, result=ToolSuccessResult(result=True, output=3)
        )
        for call in message.tool_calls
    ]

    return UserMessage((*results, TextContent("go on")))


@needs_recordings
@pytest.mark.parametrize("name", FAILURES)
async def test_goo_8_a_recorded_failure_is_its_typed_error(serve, name):
    async with serve([recorded(name)]) as (_, provider):
        error, _ = await failure_of(provider)

    assert type(error) is FAILURES[name]
    assert not error.retryable
    assert "URL" in str(error) or "Prompt Injection and Jailbreak" in str(error)


@needs_recordings
@pytest.mark.parametrize("name", [name for name in FOUND if name not in FAILURES])
def test_a_recorded_request_keeps_the_rules(name):
    body = snake_keys_undone(FOUND[name]["request"]["body"])
    model = FOUND[name]["request"]["path"].split("/models/")[1].split(":")[0]

    assert RULES.check({**body, "model": model}) == ()


def snake_keys_undone(body):
    """The recorder wrote some keys in the other spelling that the service takes."""
    return json.loads(re.sub(r'"parameters_json_schema"', '"parametersJsonSchema"', json.dumps(body)))


@needs_recordings
@pytest.mark.parametrize("name", STREAMS)
async def test_st_r2_a_recorded_stream_cut_line_by_line_is_the_same(serve, name):
    lines = re.findall(r"[^\n]*\n+|[^\n]+$", FOUND[name]["response"]["body"])

    async with serve([recorded(name), recorded(name, [line.encode() for line in lines])]) as (_, provider):
        assert same(await reply_of(provider)) == same(await reply_of(provider))


@needs_recordings
@pytest.mark.parametrize("name", [name for name in STREAMS if len(FOUND[name]["response"]["body"]) < 3_000])
async def test_st_r2_a_recorded_stream_written_byte_by_byte_is_the_same(serve, name):
    body = FOUND[name]["response"]["body"].encode()
    bytewise = EmulatedReply(body=[body], content_type="text/event-stream", write_size=1)

    async with serve([recorded(name), bytewise]) as (_, provider):
        assert same(await reply_of(provider)) == same(await reply_of(provider))


@needs_recordings
@pytest.mark.parametrize("name", STREAMS)
async def test_st_r1_a_recorded_stream_that_ends_too_early_is_interrupted_or_the_same(serve, name):
    body = FOUND[name]["response"]["body"].encode()
    chance = random.Random(name)
    ends = [*(line.end() for line in re.finditer(rb"\n", body)), *(chance.randrange(len(body)) for _ in range(200))]

    async with serve([recorded(name), *(recorded(name, [body[:end]]) for end in ends)]) as (_, provider):
        whole = same(await reply_of(provider))
        outcomes = [await outcome_of(provider) for _ in ends]

    assert all(found == whole or type(found) in (StreamInterruptedError, ProtocolError) for found in outcomes)
    assert any(isinstance(found, StreamInterruptedError) for found in outcomes)


async def outcome_of(provider):
    """The message, or the error, of one request."""
    try:
        return same(await reply_of(provider))
    except Exception as error:
        return error


def same(message):
    """A message without the ids that are made where the vendor gives none."""
    dumped = dump_message(message)

    return re.sub(r'"tool_request_id": "[^"]*"', "", json.dumps(dumped))
