"""Real answers of real services, replayed over loopback, cut in every way."""

from __future__ import annotations

import json
import os
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from chat_wire import folded
from simulacra_openai import COMPATIBLE, OPENAI, rules_for
from simulacra_openai.decode import ChatDecoder

from simulacra.errors import BadRequestError, NotFoundError, ProtocolError, StreamInterruptedError
from simulacra.messages import (
    AssistantMessage,
    TextContent,
    ThinkingContent,
    ToolResultContent,
    ToolSuccessResult,
    Usage,
    UserMessage,
)
from simulacra.serialization import dump_message, load_message
from simulacra.testing import EmulatedReply
from simulacra.testing.driving import failure_of, reply_of, request, user
from simulacra.wire import EventSplitter, read_event

pytestmark = pytest.mark.anyio

SHARED = Path(os.environ.get("SIMULACRA_SHARED", Path(__file__).parents[4] / "shared"))
RECORDINGS = SHARED / "data" / "wire.jsonl"
MISSING = f"no recordings at {RECORDINGS}; set SIMULACRA_SHARED to the folder that holds data/wire.jsonl"


def recordings():
    lines = RECORDINGS.read_text("utf-8").splitlines() if RECORDINGS.exists() else []

    return {entry["id"]: entry for entry in map(json.loads, lines) if entry["id"].startswith("oc-")}


FOUND = recordings()
STREAMS = [name for name, entry in FOUND.items() if "event-stream" in entry["response"]["content_type"]]
ERRORS = {"oc-error-1": BadRequestError, "oc-error-2": NotFoundError, "oc-stream-error-2": BadRequestError}
ANSWERS = [name for name in FOUND if name not in ERRORS]
needs_recordings = pytest.mark.skipif(not FOUND, reason=MISSING)


def recorded(name, *, pieces=None):
    answer = FOUND[name]["response"]
    body = [piece.encode() for piece in pieces] if pieces else answer["body"]

    return EmulatedReply(status=answer["status"], content_type=answer["content_type"], body=body)


def expected_of(name):
    """Text, thinking, calls and usage of a recording, read in the plainest way."""
    body = FOUND[name]["response"]["body"]
    lines = [line[6:] for line in body.splitlines() if line.startswith("data: {")] or [body]
    chunks = [json.loads(line) for line in lines]
    choices = [choice for one in chunks for choice in one["choices"] if choice["index"] == 0]
    deltas = [choice["delta"] if "delta" in choice else choice["message"] for choice in choices]
    parts = [part for delta in deltas for part in content_parts(delta)]
    calls = {}

    for delta in deltas:
        for place, call in enumerate(delta.get("tool_calls") or ()):
            entry = calls.setdefault(call.get("index", place), ["", ""])
            entry[0] += call["function"].get("name") or ""
            entry[1] += call["function"].get("arguments") or ""

    usage = [one["usage"] for one in chunks if one.get("usage")][-1]

    return {
        "text": "".join(text for kind, text in parts if kind == "text"),
        "thinking": "".join(text for kind, text in parts if kind == "thinking"),
        "calls": [(name, json.loads(arguments or "{}")) for name, arguments in calls.values()],
        "usage": (usage["prompt_tokens"], usage["completion_tokens"]),
    }


def content_parts(delta):
    yield "thinking", delta.get("reasoning_content") or delta.get("reasoning") or ""
    content = delta.get("content") or ""

    if isinstance(content, str):
        yield "text", content + (delta.get("refusal") or "")
        return

    for part in content:
        if part["type"] == "thinking":
            yield from (("thinking", thought["text"]) for thought in part["thinking"])
        else:
            yield "text", part["text"]


def seen_in(message):
    return {
        "text": "".join(block.text for block in message.content if isinstance(block, TextContent)),
        "thinking": "".join(block.thought for block in message.content if isinstance(block, ThinkingContent)),
        "calls": [(call.tool, call.params) for call in message.tool_calls],
        "usage": (message.usage.input_tokens, message.usage.output_tokens),
    }


@needs_recordings
@pytest.mark.parametrize("name", [name for name in FOUND if name not in ERRORS])
async def test_a_recorded_answer_is_read_over_the_wire(serve, name):
    async with serve([recorded(name)]) as (_, provider):
        message = await reply_of(provider)

    assert seen_in(message) == expected_of(name)
    assert message.stop_reason


@needs_recordings
@pytest.mark.parametrize("name", [name for name in FOUND if name in ERRORS])
async def test_a_recorded_failure_is_its_typed_error(serve, name):
    async with serve([recorded(name)]) as (_, provider):
        error, _ = await failure_of(provider)

    assert type(error) is ERRORS[name]
    assert str(error)


@needs_recordings
@pytest.mark.parametrize("name", STREAMS)
async def test_st_r2_a_recording_cut_at_every_line_is_the_same(serve, name):
    lines = re.findall(r"[^\n]*\n+|[^\n]+$", FOUND[name]["response"]["body"])

    async with serve([recorded(name), recorded(name, pieces=lines)]) as (_, provider):
        whole = await outcome_of(provider)
        assert await outcome_of(provider) == whole


@needs_recordings
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_st_r2_a_recording_fed_byte_by_byte_is_the_same(name, end):
    body = FOUND[name]["response"]["body"].replace("\r\n", "\n").replace("\n", end).encode()
    whole, bytewise = EventSplitter(), EventSplitter()
    expected = [*whole.feed(body), *whole.flush()]
    fed = [event for place in range(len(body)) for event in bytewise.feed(body[place : place + 1])]

    assert [*fed, *bytewise.flush()] == expected
    assert expected


@needs_recordings
def test_st_r1_a_stream_that_only_done_closes_is_an_answer():
    name = "oc-compat-quirk-3"
    splitter, decoder = EventSplitter(), ChatDecoder()
    body = FOUND[name]["response"]["body"].encode()
    events = []

    for event_name, data in splitter.feed(body):
        chunk = read_event(event_name, data)
        events += decoder.decode(chunk) if chunk is not None else decoder.end(done=True)

    assert seen_in(folded(events)) == expected_of(name)
    assert folded(events).stop_reason == "other"


@needs_recordings
@pytest.mark.parametrize("name", ANSWERS)
async def test_st_r1_a_recording_that_ends_too_early_is_interrupted_or_the_same(serve, name):
    """Cut at every line and at 200 places by chance: what is lost after the finish reason is usage at most."""
    body = FOUND[name]["response"]["body"].encode()
    chance = random.Random(name)
    ends = [*(line.end() for line in re.finditer(rb"\n", body)), *(chance.randrange(len(body)) for _ in range(200))]
    cut = [EmulatedReply(**{**vars_of(name), "body": [body[:end]]}) for end in ends]

    async with serve([recorded(name), *cut]) as (_, provider):
        whole = await reply_of(provider)
        outcomes = [await outcome_of(provider) for _ in ends]

    for found in outcomes:
        if isinstance(found, AssistantMessage):
            assert plain(found) == plain(whole)
            assert found.usage in (whole.usage, Usage())
        else:
            assert found[0] in (StreamInterruptedError, ProtocolError)

    assert any(not isinstance(found, AssistantMessage) for found in outcomes)


@needs_recordings
@pytest.mark.parametrize("name", [name for name in ANSWERS if len(FOUND[name]["response"]["body"]) < 8_000])
async def test_st_r2_a_recording_written_byte_by_byte_is_the_same(serve, name):
    body = FOUND[name]["response"]["body"].encode()
    bytewise = EmulatedReply(**{**vars_of(name), "body": [body], "write_size": 1})

    async with serve([recorded(name), bytewise]) as (_, provider):
        assert plain(await reply_of(provider)) == plain(await reply_of(provider))


@needs_recordings
@pytest.mark.parametrize("name", ANSWERS)
async def test_a_recorded_answer_is_accepted_again_by_its_own_services_rules(serve, name):
    entry = FOUND[name]
    preset = OPENAI if entry["vendor"] == "openai" else COMPATIBLE

    async with serve([recorded(name), EmulatedReply(text="fine")], preset=preset) as (emulator, provider):
        emulator.rules = provider.profile.rules
        message = load_message(dump_message(await reply_of(provider)))
        answers = [result(call) for call in message.tool_calls]
        again = UserMessage((*answers, TextContent("go on")))
        assert (await reply_of(provider, request(user("q"), message, again))).text == "fine"

    sent = emulator.requests[1].body["messages"]
    expected = expected_of(name)
    assert emulator.refused == []
    assert [sent[0]["role"], sent[-1]["content"]] == ["user", "go on"]
    assert text_in(sent[1:-1]) == expected["text"]
    assert calls_in(sent) == expected["calls"]


@needs_recordings
@pytest.mark.parametrize("name", ANSWERS)
def test_a_request_that_a_service_took_breaks_none_of_its_rules(name):
    """No demand is made up: what was answered once is accepted as it was."""
    entry = FOUND[name]
    table = rules_for(OPENAI if entry["vendor"] == "openai" else COMPATIBLE)
    taken = entry["request"]["body"]

    assert [str(found) for found in table.check(taken)] == []
    assert table.repair(taken) is taken


def text_in(messages):
    """What the assistant said, refusals included."""
    contents = [
        message.get("content") or message.get("refusal") or "" for message in messages if message["role"] == "assistant"
    ]

    return "".join(one if isinstance(one, str) else "".join(part["text"] for part in one) for one in contents)


def calls_in(messages):
    functions = [call["function"] for message in messages for call in message.get("tool_calls", ())]

    return [(function["name"], json.loads(function["arguments"])) for function in functions]


def result(call):
    return ToolResultContent(tool_request_id=call.tool_request_id, tool=call.tool, result=ToolSuccessResult())


def plain(message):
    """A message without usage, its ids of calls that the engine had to make up left out."""
    return re.sub(r"call_01[0-9a-f]{30}", "made up", repr(replace(message, usage=None)))


def vars_of(name):
    answer = FOUND[name]["response"]

    return {"status": answer["status"], "content_type": answer["content_type"]}


async def outcome_of(provider):
    """The message, or the error, of one request."""
    try:
        return await reply_of(provider)
    except Exception as error:
        return type(error), str(error)
