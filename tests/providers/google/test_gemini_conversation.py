"""Whole turns on Gemini, as its emulator sees them."""

from __future__ import annotations

import base64

import pytest
from gemini_wire import STOP, call, chunk, text, thought

from simulacra.conversation import Conversation
from simulacra.errors import ContentFilteredError, ProtocolError
from simulacra.policies import NoopPolicy
from simulacra.provider import RequestOptions
from simulacra.serialization import dump_message, load_message
from simulacra.testing import EmulatedCall, EmulatedReply, gemini_stream
from simulacra.tools import tool

pytestmark = pytest.mark.anyio

SIGNATURE = base64.b64encode(b"S").decode()
PNG = b"\x89PNG\r\n\x1a\n....."


def streamed(*chunks):
    return EmulatedReply(body=gemini_stream(chunks), content_type="text/event-stream")


def weather():
    """A tool, and where it was asked for."""
    asked = []

    @tool
    def w(city: str) -> str:
        """The weather."""
        asked.append(city)

        return f"sun in {city}"

    return w, asked


async def test_gm_01_parallel_calls_are_answered_together_and_keep_their_one_signature(serve):
    w, asked = weather()
    calls = [
        call("w", {"city": "A"}, id="a", thoughtSignature=SIGNATURE),
        call("w", {"city": "B"}, id="b"),
    ]
    chunks = [{**one, "modelVersion": "gemini-3-pro"} for one in (*map(chunk, calls), chunk(finish=STOP))]

    async with serve([streamed(*chunks), EmulatedReply(text="fine")], model="gemini-3-pro") as (emulator, provider):
        await Conversation(provider, toolkit=[w]).prompt("weather?")

    _, called, answered = emulator.requests[1].body["contents"]
    assert sorted(asked) == ["A", "B"]
    assert called == {"role": "model", "parts": calls}
    assert [part["functionResponse"]["id"] for part in answered["parts"]] == ["a", "b"]


async def test_gm_05_a_call_is_run_when_the_closing_chunk_has_no_parts(serve):
    w, asked = weather()
    script = [streamed(chunk(call("w", {"city": "A"})), chunk(finish=STOP)), EmulatedReply(text="fine")]

    async with serve(script) as (_, provider):
        response = await Conversation(provider, toolkit=[w]).prompt("weather?")

    assert asked == ["A"]
    assert response.stop_reason == "end_turn"


async def test_gm_07_calls_without_ids_are_run_once_each_and_answered_in_order(serve):
    w, asked = weather()
    calls = [EmulatedCall(tool="w", arguments={"city": city}, id="") for city in "ABC"]

    async with serve([EmulatedReply(calls=calls), EmulatedReply(text="fine")]) as (emulator, provider):
        await Conversation(provider, toolkit=[w]).prompt("weather?")

    [_, _, answered] = emulator.requests[1].body["contents"]
    told = [part["functionResponse"] for part in answered["parts"]]
    assert sorted(asked) == ["A", "B", "C"]
    assert [one["response"]["output"]["output"] for one in told] == [f"sun in {city}" for city in "ABC"]
    assert all("id" not in one for one in told)


@pytest.mark.parametrize("content", [{}, {"parts": None}, {"parts": [call("w", {"city": "A"})]}])
async def test_gm_03_a_malformed_call_is_never_run(serve, content):
    w, asked = weather()
    broken = {"candidates": [{"content": content, "finishReason": "MALFORMED_FUNCTION_CALL"}]}

    async with serve([streamed(broken)]) as (_, provider):
        with pytest.raises(ProtocolError, match="MALFORMED_FUNCTION_CALL"):
            await Conversation(provider, toolkit=[w], policy=NoopPolicy()).prompt("weather?")

    assert asked == []


async def test_gm_r2_a_blocked_prompt_ends_the_turn_with_its_reason(serve):
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}

    async with serve([streamed(blocked)]) as (emulator, provider):
        with pytest.raises(ContentFilteredError, match="SAFETY"):
            await Conversation(provider).prompt("hi")

    assert len(emulator.requests) == 1


async def test_w_goo_3_signatures_survive_history_storage_and_replay(serve):
    parts = [thought("hm"), text("a"), text("", thoughtSignature=SIGNATURE)]

    async with serve([streamed(*(chunk(part) for part in parts), chunk(finish=STOP)), EmulatedReply(text="b")]) as (
        emulator,
        provider,
    ):
        first = Conversation(provider)
        await first.prompt("hi")
        second = Conversation(provider)
        second.load([load_message(dump_message(message)) for message in first.messages])
        await second.prompt("and?")

    assert emulator.requests[1].body["contents"][1] == {"role": "model", "parts": parts}


async def test_a_picture_of_the_model_is_kept_and_goes_back(serve):
    data = {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(PNG).decode()}}
    script = [streamed(chunk(data), chunk(finish=STOP)), EmulatedReply(text="a dot")]

    async with serve(script) as (emulator, provider):
        conversation = Conversation(provider)
        await conversation.prompt("draw")
        await conversation.prompt("what is it?")

    assert conversation.messages[1].content[0].data == PNG
    assert emulator.requests[1].body["contents"][1]["parts"] == [data]


async def test_us_04_thoughts_are_part_of_the_output_and_counted_once(serve):
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 40, "totalTokenCount": 55}

    async with serve([streamed(chunk(text("x")), chunk(finish=STOP, usage=usage))]) as (_, provider):
        response = await Conversation(provider).prompt("hi")

    assert (response.usage.input_tokens, response.usage.output_tokens) == (10, 45)
    assert response.usage.reasoning_tokens == 40


async def test_thinking_is_asked_for_by_the_conversations_options(serve):
    async with serve([EmulatedReply(thinking="hm", text="42")]) as (emulator, provider):
        options = RequestOptions(thinking={"enable": True, "budget_tokens": 256})
        await Conversation(provider, options=options).prompt("6 times 7?")

    assert emulator.requests[0].body["generationConfig"] == {
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 256}
    }
