"""What OpenAI's chat emulator tells beside its replies, and every fault that it can play."""

from __future__ import annotations

import httpx2
import openai
import pytest
from chat_requests import BROKEN, asking

from simulacra.testing import EmulatedCall, EmulatedReply, OpenAIEmulator, http_error

pytestmark = pytest.mark.anyio

LONG = "a word " * 2_000
"""14,000 characters: 3,500 tokens as the emulator counts them."""


def client(emulator):
    return openai.AsyncOpenAI(base_url=emulator.base_url, api_key="k", max_retries=0)


async def usage_of(sdk, *texts, **fields):
    wire = {
        **asking({"role": "system", "content": texts[0]}, *({"role": "user", "content": one} for one in texts[1:])),
        **fields,
    }

    return (await sdk.chat.completions.create(**wire)).usage


async def test_a_prompt_that_begins_like_an_earlier_one_is_read_from_the_cache():
    async with OpenAIEmulator([EmulatedReply(text="x")] * 4, caches_prompts=True) as emulator, client(emulator) as sdk:
        first = await usage_of(sdk, LONG, "a")
        again = await usage_of(sdk, LONG, "b")
        other = await usage_of(sdk, f"x{LONG}", "b")
        keyed = await usage_of(sdk, LONG, "a", prompt_cache_key="mine")

    assert first.prompt_tokens == again.prompt_tokens > 3_500
    assert first.prompt_tokens_details.cached_tokens == 0
    assert 3_000 < again.prompt_tokens_details.cached_tokens <= again.prompt_tokens
    assert (again.prompt_tokens_details.cached_tokens - 1024) % 128 == 0
    assert other.prompt_tokens_details.cached_tokens == keyed.prompt_tokens_details.cached_tokens == 0


async def test_a_short_prompt_is_never_cached():
    async with OpenAIEmulator([EmulatedReply(text="x")] * 2, caches_prompts=True) as emulator, client(emulator) as sdk:
        found = [await usage_of(sdk, "s", "hello") for _ in range(2)]

    assert [usage.prompt_tokens_details.cached_tokens for usage in found] == [0, 0]


async def test_usage_is_the_scripts_unless_prompts_are_cached():
    async with OpenAIEmulator([EmulatedReply(text="x")] * 2) as emulator, client(emulator) as sdk:
        assert [(await usage_of(sdk, LONG, "a")).prompt_tokens for _ in range(2)] == [10, 10]


async def test_every_answer_tells_what_is_left_of_the_limits():
    async with OpenAIEmulator([EmulatedReply(text="x"), http_error(500)]) as emulator, client(emulator) as sdk:
        first = await sdk.chat.completions.with_raw_response.create(**asking())

        with pytest.raises(openai.InternalServerError) as failed:
            await sdk.chat.completions.create(**asking())

    second = failed.value.response.headers
    assert first.headers["x-ratelimit-limit-requests"] == "10000"
    assert first.headers["x-ratelimit-remaining-requests"] == "9999"
    assert second["x-ratelimit-remaining-requests"] == "9998"
    assert int(second["x-ratelimit-remaining-tokens"]) < int(first.headers["x-ratelimit-remaining-tokens"]) <= 2_000_000
    assert first.headers["x-ratelimit-reset-requests"].endswith("ms")
    assert first.headers["x-request-id"] == "req_1"


async def test_a_refusal_names_the_parameter():
    async with OpenAIEmulator([]) as emulator, client(emulator) as sdk:
        with pytest.raises(openai.BadRequestError) as refused:
            await sdk.chat.completions.create(**BROKEN["call-ids-fit"])

    assert refused.value.body["param"] == refused.value.param == "messages[1].tool_calls[0].id"
    assert refused.value.body["code"] == "string_above_max_length"


FAULTS = {
    "status": (http_error(503, "down", code="server_error"), openai.InternalServerError),
    "rate limit": (http_error(429, retry_after=3), openai.RateLimitError),
    "hang up": (EmulatedReply(hangs_up=True), openai.APIConnectionError),
    "silence": (EmulatedReply(is_silent=True), openai.APITimeoutError),
    "error inside the stream": (EmulatedReply(text="x", error={"message": "no"}, error_after=1), openai.APIError),
    "cut": (EmulatedReply(text=["a", "b"], cut_after=1), httpx2.RemoteProtocolError),
    "stall": (EmulatedReply(text=["a", "b"], stall_after=1), httpx2.ReadTimeout),
    "garbage": (EmulatedReply(text=["a", "b"], garbage_after=1), ValueError),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_reaches_the_official_sdk(fault):
    reply, expected = FAULTS[fault]

    with OpenAIEmulator([reply]) as emulator:
        sdk = openai.OpenAI(base_url=emulator.base_url, api_key="k", max_retries=0, timeout=0.3)

        with sdk, pytest.raises((expected, openai.APIConnectionError if fault in ("cut", "stall") else expected)):
            for _ in sdk.chat.completions.create(**asking(), stream=True):
                pass


async def test_calls_refusals_and_reasoning_are_read_by_the_official_sdk():
    replies = [
        EmulatedReply(thinking="hm", calls=[EmulatedCall(tool="f", arguments={"a": 1}, id="c")]),
        EmulatedReply(refusal="No."),
    ]

    async with OpenAIEmulator(replies) as emulator, client(emulator) as sdk:
        calling, refusing = [(await sdk.chat.completions.create(**asking())).choices[0] for _ in replies]

    assert calling.finish_reason == "tool_calls"
    assert calling.message.tool_calls[0].function.arguments == '{"a": 1}'
    assert calling.message.reasoning_content == "hm"
    assert refusing.message.refusal == "No."
