"""Real answers of real services, replayed over loopback, cut in every way."""

from __future__ import annotations

import json

import pytest
from chat_wire import folded
from openai import AsyncOpenAI
from recordings import Recordings, ReplayedRecordings, answered, kept_reply
from simulacra_openai import COMPATIBLE, OPENAI, OpenAIProvider, rules_for
from simulacra_openai.decode import ChatDecoder

from simulacra.errors import BadRequestError, NotFoundError
from simulacra.messages import TextContent, ThinkingContent
from simulacra.testing import EmulatedReply
from simulacra.testing.driving import reply_of, request, user
from simulacra.wire import EventSplitter, read_event

pytestmark = pytest.mark.anyio

RECORDED = Recordings(
    "oc-", {"oc-error-1": BadRequestError, "oc-error-2": NotFoundError, "oc-stream-error-2": BadRequestError}
)


class TestChat(ReplayedRecordings):
    recordings = RECORDED
    finish_is_enough = True

    def provider(self, http):
        return OpenAIProvider(AsyncOpenAI(api_key="k", http_client=http), model="gpt-test")

    async def test_a_recorded_answer_is_read_over_the_wire(self, serve, answer):
        async with serve([RECORDED.reply(answer)]) as (_, provider):
            message = await reply_of(provider)

        assert seen_in(message) == expected_of(answer)
        assert message.stop_reason

    async def test_a_recorded_answer_is_accepted_again_by_its_own_services_rules(self, serve, answer):
        async with serve([RECORDED.reply(answer), EmulatedReply(text="fine")], preset=preset_of(answer)) as served:
            emulator, provider = served
            emulator.rules = provider.profile.rules
            message = await kept_reply(provider)
            assert (await reply_of(provider, request(user("q"), message, answered(message)))).text == "fine"

        sent = emulator.requests[1].body["messages"]
        expected = expected_of(answer)
        assert emulator.refused == []
        assert [sent[0]["role"], sent[-1]["content"]] == ["user", "go on"]
        assert text_in(sent[1:-1]) == expected["text"]
        assert calls_in(sent) == expected["calls"]

    def test_a_request_that_a_service_took_breaks_none_of_its_rules(self, answer):
        """No demand is made up: what was answered once is accepted as it was."""
        table = rules_for(preset_of(answer))
        taken = RECORDED[answer]["request"]["body"]

        assert [str(found) for found in table.check(taken)] == []
        assert table.repair(taken) is taken

    @pytest.mark.parametrize("name", [name for name in RECORDED.kinds["stream"] if name == "oc-compat-quirk-3"])
    def test_st_r1_a_stream_that_only_done_closes_is_an_answer(self, name):
        splitter, decoder = EventSplitter(), ChatDecoder()
        events = []

        for event_name, data in splitter.feed(RECORDED.bytes_of(name)):
            chunk = read_event(event_name, data)
            events += decoder.decode(chunk) if chunk is not None else decoder.end(done=True)

        assert seen_in(folded(events)) == expected_of(name)
        assert folded(events).stop_reason == "other"


def preset_of(name):
    return OPENAI if RECORDED[name]["vendor"] == "openai" else COMPATIBLE


def expected_of(name):
    """Text, thinking, calls and usage of a recording, read in the plainest way."""
    chunks = RECORDED.chunks_of(name)
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


def text_in(messages):
    """What the assistant said, refusals included."""
    contents = [
        message.get("content") or message.get("refusal") or "" for message in messages if message["role"] == "assistant"
    ]

    return "".join(one if isinstance(one, str) else "".join(part["text"] for part in one) for one in contents)


def calls_in(messages):
    functions = [call["function"] for message in messages for call in message.get("tool_calls", ())]

    return [(function["name"], json.loads(function["arguments"])) for function in functions]
