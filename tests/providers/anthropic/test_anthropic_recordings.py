"""Real answers of the real service, replayed over loopback, cut in every way, and sent back to it."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path

import pytest
from messages_wire import params_of, result, turns_of, user
from simulacra_anthropic.rules import RULES

from simulacra.errors import AuthenticationError, BadRequestError, ProtocolError, StreamInterruptedError
from simulacra.messages import RawContent, TextContent, ThinkingContent
from simulacra.serialization import dump_message, load_message
from simulacra.testing import EmulatedReply
from simulacra.testing.driving import failure_of, reply_of
from simulacra.wire import EventSplitter

pytestmark = pytest.mark.anyio

SHARED = Path(os.environ.get("SIMULACRA_SHARED", Path(__file__).parents[4] / "shared"))
RECORDINGS = SHARED / "data" / "wire.jsonl"
MISSING = f"no recordings at {RECORDINGS}; set SIMULACRA_SHARED to the folder that holds data/wire.jsonl"


def recordings():
    lines = RECORDINGS.read_text("utf-8").splitlines() if RECORDINGS.exists() else []

    return {entry["id"]: entry for entry in map(json.loads, lines) if entry["id"].startswith("an-")}


FOUND = recordings()
ERRORS = {"an-error-3": AuthenticationError, "an-error-4": BadRequestError}
ANSWERS = [name for name in FOUND if name not in ERRORS]
STREAMS = [name for name in FOUND if "event-stream" in FOUND[name]["response"]["content_type"]]
needs_recordings = pytest.mark.skipif(not FOUND, reason=MISSING)


def recorded(name, body=None):
    answer = FOUND[name]["response"]

    return EmulatedReply(
        status=answer["status"], content_type=answer["content_type"], body=answer["body"] if body is None else body
    )


def message_in(name):
    """The recorded message, put together in the plainest way."""
    body = FOUND[name]["response"]["body"]

    if name not in STREAMS:
        return json.loads(body)

    events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")]
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


@needs_recordings
@pytest.mark.parametrize("name", ANSWERS)
async def test_a_recorded_answer_is_read_over_the_wire(serve, name):
    expected = message_in(name)

    async with serve([recorded(name)]) as (_, provider):
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


def containers(message):
    return [message["container"]] if message.get("container") else []


@needs_recordings
@pytest.mark.parametrize("name", ANSWERS)
async def test_an_r3_a_recorded_answer_goes_back_as_it_came(serve, name):
    async with serve([recorded(name)]) as (_, provider):
        message = load_message(dump_message(await reply_of(provider)))

    results = [result(one.tool_request_id, one.tool) for one in message.tool_calls]
    turns = turns_of(user("q"), message, user(*results, "go on"))
    sent = turns[1][1]
    expected = [block for block in kept(message_in(name)["content"]) if not is_lone(block, message_in(name)["content"])]

    assert (blocks(sent) if isinstance(sent, str) else kept(sent)) == expected
    assert turns[0][0] == turns[2][0] == "user"
    assert RULES.check(params_of(user("q"), message, user(*results, "go on"))) == ()


def blocks(sent):
    return [{"type": "text", "text": sent}]


def is_lone(block, content):
    """A call of the service's own that has no result in the same reply: the next user message would be refused."""
    if block["type"] == "server_tool_use":
        return not any(other.get("tool_use_id") == block["id"] for other in content)

    called = [other["id"] for other in content if other["type"] in ("server_tool_use", "mcp_tool_use")]

    return block["type"].endswith("_tool_result") and block["tool_use_id"] not in called


@needs_recordings
@pytest.mark.parametrize("name", ERRORS)
async def test_a_recorded_failure_is_its_typed_error(serve, name):
    async with serve([recorded(name)]) as (_, provider):
        error, _ = await failure_of(provider)

    assert type(error) is ERRORS[name]
    assert str(error)


@needs_recordings
@pytest.mark.parametrize("name", STREAMS)
async def test_st_r2_a_recording_written_line_by_line_is_the_same(serve, name):
    lines = re.findall(r"[^\n]*\n+|[^\n]+$", FOUND[name]["response"]["body"])

    async with serve([recorded(name), recorded(name, [line.encode() for line in lines])]) as (_, provider):
        assert await reply_of(provider) == await reply_of(provider)


@needs_recordings
@pytest.mark.parametrize("name", [name for name in STREAMS if len(FOUND[name]["response"]["body"]) < 6_000])
async def test_st_r2_a_recording_written_byte_by_byte_is_the_same(serve, name):
    body = FOUND[name]["response"]["body"].encode()
    bytewise = EmulatedReply(body=[body], content_type="text/event-stream", write_size=1)

    async with serve([recorded(name), bytewise]) as (_, provider):
        assert await reply_of(provider) == await reply_of(provider)


@needs_recordings
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_st_r2_a_recording_fed_byte_by_byte_is_the_same(name, end):
    body = FOUND[name]["response"]["body"].replace("\n", end).encode()
    whole, bytewise = EventSplitter(), EventSplitter()
    expected = [*whole.feed(body), *whole.flush()]
    fed = [event for place in range(len(body)) for event in bytewise.feed(body[place : place + 1])]

    assert [*fed, *bytewise.flush()] == expected
    assert expected


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
