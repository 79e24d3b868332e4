"""Recorded answers of real services, and what holds for each of them, as tests that a vendor's test class inherits."""

from __future__ import annotations

import json
import os
import random
import re
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from simulacra.errors import ProtocolError, StreamInterruptedError
from simulacra.messages import AssistantMessage, TextContent, ToolResultContent, ToolSuccessResult, Usage, UserMessage
from simulacra.serialization import dump_message, load_message
from simulacra.testing import EmulatedReply
from simulacra.testing.driving import failure_of, reply_of
from simulacra.wire import EventSplitter

SHARED = Path(os.environ.get("SIMULACRA_SHARED") or Path(__file__).parents[2] / "shared")
RECORDINGS = SHARED / "data" / "wire.jsonl"
MISSING = f"no recordings at {RECORDINGS}; set SIMULACRA_SHARED to the folder that holds data/wire.jsonl"
SMALL = 16_000
"""Most bytes of a body that is written to a socket byte by byte."""
CUTS = 200
"""How often a body is cut at a place by chance."""


class Recordings:
    """The recorded exchanges with one API.

    Args:
        prefix: How their ids begin.
        failures: The error that each answer without a message becomes.
    """

    def __init__(self, prefix, failures):
        lines = RECORDINGS.read_text("utf-8").splitlines() if RECORDINGS.exists() else []
        self._found = {one["id"]: one for one in map(json.loads, lines) if one["id"].startswith(prefix)}
        self.failures = failures
        sizes = {name: len(self.bytes_of(name)) for name in self._found}
        self.kinds = {
            "exchange": [*self._found],
            "answer": [name for name in self._found if name not in failures],
            "failure": [name for name in self._found if name in failures],
            "stream": [name for name in self._found if self.is_stream(name)],
            "single": [name for name in self._found if not self.is_stream(name)],
            "small": [name for name, size in sizes.items() if size < SMALL],
            "large": [name for name, size in sizes.items() if size >= SMALL],
        }
        """The names of recordings, by the argument of a test that takes them."""

    def __getitem__(self, name):
        return self._found[name]

    def is_stream(self, name):
        return "event-stream" in self[name]["response"]["content_type"]

    def body(self, name):
        return self[name]["response"]["body"]

    def bytes_of(self, name):
        return self.body(name).encode()

    def lines_of(self, name):
        return [line.encode() for line in re.findall(r"[^\n]*\n+|[^\n]+$", self.body(name))]

    def cut(self, name):
        """The body cut off at every line and at places by chance."""
        body, chance = self.bytes_of(name), random.Random(name)
        lines = [line.end() for line in re.finditer(rb"\n", body)]

        return [body[:end] for end in (*lines, *(chance.randrange(len(body)) for _ in range(CUTS)))]

    def chunks_of(self, name):
        """The JSON objects of the answer: one, if it is no stream."""
        if not self.is_stream(name):
            return [json.loads(self.body(name))]

        return [json.loads(line[5:]) for line in self.body(name).splitlines() if re.match(r"data: ?\{", line)]

    def reply(self, name, pieces=None, **options):
        """The recorded answer from a server, its body as it is, or these pieces in its place."""
        answer = self[name]["response"]
        body = answer["body"] if pieces is None else pieces

        return EmulatedReply(status=answer["status"], content_type=answer["content_type"], body=body, **options)


class Replay(httpx2.AsyncBaseTransport):
    """Answers in this process, in place of a server, one request after another under the head of one recording.

    Args:
        answer: The recorded answer.
        bodies: The bodies of the answers.
        read_size: Bytes of one read.
    """

    def __init__(self, answer, bodies, read_size=1 << 20):
        self._answer, self._bodies, self._read_size = answer, iter(bodies), read_size

    async def handle_async_request(self, request):
        return httpx2.Response(
            self._answer["status"],
            headers={"content-type": self._answer["content_type"]},
            stream=_Reads(next(self._bodies), self._read_size),
        )


class _Reads(httpx2.AsyncByteStream):
    def __init__(self, body, size):
        self._body, self._size = body, size

    async def __aiter__(self):
        for start in range(0, len(self._body), self._size):
            yield self._body[start : start + self._size]


class ReplayedRecordings(ABC):
    """What every recording of a vendor must do, however its body arrives.

    A test takes the recordings of one kind as the argument of that name: see `Recordings.kinds`.
    """

    recordings: Recordings
    finish_is_enough = False
    """Whether a reply is whole once its finish reason came, so that the usage or the error behind it may be lost."""

    @abstractmethod
    def provider(self, http):
        """A provider on the SDK's client over this HTTP client."""

    def pytest_generate_tests(self, metafunc):
        for kind, names in self.recordings.kinds.items():
            if kind in metafunc.fixturenames:
                missing = pytest.param("none", marks=pytest.mark.skip(reason=MISSING))
                metafunc.parametrize(kind, names or [missing])

    async def test_a_recorded_failure_is_its_typed_error(self, serve, failure):
        async with serve([self.recordings.reply(failure)]) as (_, provider):
            error, _ = await failure_of(provider)

        assert type(error) is self.recordings.failures[failure]
        assert str(error)

    async def test_st_r2_a_recording_written_line_by_line_is_the_same(self, serve, exchange):
        lines = self.recordings.lines_of(exchange)

        async with serve([self.recordings.reply(exchange), self.recordings.reply(exchange, lines)]) as (_, provider):
            assert told(await outcome_of(provider)) == told(await outcome_of(provider))

    async def test_st_r2_a_recording_written_byte_by_byte_is_the_same(self, serve, small):
        bytewise = self.recordings.reply(small, [self.recordings.bytes_of(small)], write_size=1)

        async with serve([self.recordings.reply(small), bytewise]) as (_, provider):
            assert told(await outcome_of(provider)) == told(await outcome_of(provider))

    async def test_st_r2_a_recording_read_byte_by_byte_is_the_same(self, large):
        """A socket would take minutes for bodies of this size; all that reads them is the same."""
        body = self.recordings.bytes_of(large)
        whole, bytewise = [*await self._outcomes(large, [body]), *await self._outcomes(large, [body], read_size=1)]

        assert isinstance(whole, AssistantMessage)
        assert told(bytewise) == told(whole)

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_st_r2_a_recording_fed_byte_by_byte_is_the_same(self, stream, end):
        body = self.recordings.body(stream).replace("\r\n", "\n").replace("\n", end).encode()
        whole, bytewise = EventSplitter(), EventSplitter()
        expected = [*whole.feed(body), *whole.flush()]
        fed = [event for place in range(len(body)) for event in bytewise.feed(body[place : place + 1])]

        assert [*fed, *bytewise.flush()] == expected
        assert expected

    async def test_st_r1_a_stream_that_ends_too_early_is_interrupted_or_the_same(self, serve, stream):
        cut = [self.recordings.reply(stream, [body]) for body in self.recordings.cut(stream)]

        async with serve([self.recordings.reply(stream), *cut]) as (_, provider):
            whole = await outcome_of(provider)
            self._check_cut(whole, [await outcome_of(provider) for _ in cut])

    async def test_st_r1_an_object_that_ends_too_early_is_no_answer(self, single):
        bodies = [self.recordings.bytes_of(single), *self.recordings.cut(single)]
        whole, *outcomes = await self._outcomes(single, bodies)
        self._check_cut(whole, outcomes)

    def _check_cut(self, whole, outcomes):
        broken = [found for found in outcomes if not self._is_same(found, whole)]
        assert all(type(found) in (StreamInterruptedError, ProtocolError) for found in broken)
        assert broken or isinstance(whole, Exception)

    def _is_same(self, found, whole):
        if isinstance(found, Exception):  # the words of an error may be among what was cut off
            return type(found) is type(whole)

        if isinstance(whole, Exception):
            return self.finish_is_enough and found.stop_reason is not None

        return plain(found) == plain(whole) and found.usage in (whole.usage, *[Usage()] * self.finish_is_enough)

    async def _outcomes(self, name, bodies, **options):
        """What the answers with these bodies become, read from the SDK's own client without a server."""
        transport = Replay(self.recordings[name]["response"], bodies, **options)

        async with httpx2.AsyncClient(transport=transport) as http:
            provider = self.provider(http)

            return [await outcome_of(provider) for _ in bodies]


async def outcome_of(provider):
    """The message, or the error, of one request."""
    try:
        return await reply_of(provider)
    except Exception as error:
        return error


def told(outcome):
    """All that an outcome tells, to be compared."""
    if isinstance(outcome, Exception):
        return type(outcome), str(outcome)

    return plain(outcome), outcome.usage


def plain(message):
    """A message without usage, its ids of calls that had to be made up left out."""
    return re.sub(r"(call|gem)_01[0-9a-f-]{30,34}", "made up", repr(replace(message, usage=None)))


async def kept_reply(provider):
    """The message of one request, as it comes back from where it was saved."""
    return load_message(dump_message(await reply_of(provider)))


def answered(message, **output):
    """Results for all calls of a message, and some words."""
    results = [
        ToolResultContent(tool_request_id=one.tool_request_id, tool=one.tool, result=ToolSuccessResult(**output))
        for one in message.tool_calls
    ]

    return UserMessage((*results, TextContent("go on")))
