"""Anthropic's emulator beyond its words: cached prompts, limits, counts."""

from __future__ import annotations

import pytest
from anthropic import AsyncAnthropic
from simulacra_anthropic import AnthropicProvider

from simulacra.conversation import Conversation
from simulacra.messages import Usage
from simulacra.testing import AnthropicEmulator, EmulatedReply

pytestmark = pytest.mark.anyio

LONG = "What a long story this is. " * 400


async def usages(prompts, *, replies=("one", "two", "three"), **options):
    """What each turn of a conversation was counted as."""
    async with (
        AnthropicEmulator([EmulatedReply(text=text) for text in replies], caches_prompts=True) as emulator,
        AsyncAnthropic(base_url=emulator.base_url, api_key="k") as client,
    ):
        conversation = Conversation(AnthropicProvider(client, model="claude-test", **options), system="Be kind.")

        return [(await conversation.prompt(prompt)).usage for prompt in prompts]


async def test_w_ant_5_each_turn_reads_what_the_last_one_wrote():
    first, second, third = await usages([LONG, LONG, "and?"])

    assert first.cache_read_input_tokens == 0
    assert first.cache_creation_input_tokens == first.input_tokens
    assert second.cache_read_input_tokens == first.cache_creation_input_tokens
    assert third.cache_read_input_tokens == second.cache_read_input_tokens + second.cache_creation_input_tokens
    assert third.input_tokens > third.cache_read_input_tokens > second.cache_read_input_tokens


async def test_w_ant_5_without_marks_nothing_is_cached():
    counted = await usages([LONG, LONG, LONG], prompt_caching=False)

    assert [usage.cache_read_input_tokens for usage in counted] == [0, 0, 0]
    assert [usage.cache_creation_input_tokens for usage in counted] == [0, 0, 0]


async def test_short_prompts_are_not_cached():
    counted = await usages(["a", "b", "c"])

    assert [usage.cache_creation_input_tokens for usage in counted] == [0, 0, 0]


async def test_a_usage_of_the_scripts_own_is_kept():
    async with (
        AnthropicEmulator([EmulatedReply(text="x", usage=Usage(input_tokens=7))], caches_prompts=True) as emulator,
        AsyncAnthropic(base_url=emulator.base_url, api_key="k") as client,
    ):
        response = await Conversation(AnthropicProvider(client, model="claude-test")).prompt(LONG)

    assert response.usage.input_tokens == 7


async def test_every_answer_tells_what_is_left_of_the_limits():
    async with (
        AnthropicEmulator([EmulatedReply(text="x"), EmulatedReply(text="y")]) as emulator,
        AsyncAnthropic(base_url=emulator.base_url, api_key="k") as client,
    ):
        body = {"model": "claude-test", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
        answers = [await client.messages.with_raw_response.create(**body) for _ in range(2)]

    left = [int(answer.headers["anthropic-ratelimit-requests-remaining"]) for answer in answers]
    tokens = [int(answer.headers["anthropic-ratelimit-input-tokens-remaining"]) for answer in answers]
    assert left == [3999, 3998]
    assert tokens[0] > tokens[1]
    assert answers[0].headers["anthropic-ratelimit-tokens-reset"].endswith("Z")
