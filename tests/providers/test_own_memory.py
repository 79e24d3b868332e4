"""What a provider remembers of its requests is its own: other providers, and its clones, neither use it nor overwrite it."""

from __future__ import annotations

import pytest
import simulacra_anthropic.mending
import simulacra_google.mending
import simulacra_openai.mending

from simulacra import AssistantMessage, ModelRequest, TextContent, UserMessage, resolve
from simulacra.testing import AnthropicEmulator, EmulatedReply
from simulacra.wire import growing_json

pytestmark = pytest.mark.anyio
MODULES = {
    "anthropic": simulacra_anthropic.mending,
    "google": simulacra_google.mending,
    "openai": simulacra_openai.mending,
}
"""Vendors whose requests repeat what went before, and where it is looked up."""


def history(name, turns):
    spoken = [
        (UserMessage((TextContent(f"{name} {at}"),)), AssistantMessage((TextContent("yes"),))) for at in range(turns)
    ]

    return [message for pair in spoken for message in pair]


async def begins_of_second_look(vendor, first, second, monkeypatch):
    """Where the look at each one's second request begins, when the two take turns."""
    module, begins = MODULES[vendor], []
    looked = module._begin_of_news

    def remember(messages, known):
        begins.append(looked(messages, known))
        return begins[-1]

    monkeypatch.setattr(module, "_begin_of_news", remember)
    told = {provider: history(name, 10) for provider, name in ((first, "a"), (second, "b"))}

    for _ in range(2):
        begins.clear()

        for provider, messages in told.items():
            messages.append(UserMessage((TextContent("and?"),)))
            await provider.prepare(ModelRequest(messages=tuple(messages)))
            messages.append(AssistantMessage((TextContent("well"),)))

    return begins


@pytest.mark.parametrize("vendor", MODULES)
async def test_a_provider_remembers_its_requests_whatever_others_send(vendor, monkeypatch):
    first, second = (resolve(f"{vendor}:m", api_key="k") for _ in range(2))

    assert min(await begins_of_second_look(vendor, first, second, monkeypatch)) > 10


@pytest.mark.parametrize("vendor", MODULES)
async def test_a_clone_remembers_its_own_requests(vendor, monkeypatch):
    first = resolve(f"{vendor}:m", api_key="k")

    assert min(await begins_of_second_look(vendor, first, first.clone(), monkeypatch)) > 10


@pytest.mark.parametrize("vendor", MODULES)
async def test_a_clone_begins_with_nothing(vendor):
    provider = resolve(f"{vendor}:m", api_key="k")
    twin = provider.clone()

    assert twin.profile.rules is not provider.profile.rules
    assert [rule.name for rule in twin.profile.rules.rules] == [rule.name for rule in provider.profile.rules.rules]


async def test_a_clone_writes_what_it_sent_only_once(monkeypatch):
    written = []
    write = growing_json._items
    monkeypatch.setattr(growing_json, "_items", lambda values: written.append(len(values)) or write(values))

    async with AnthropicEmulator([EmulatedReply(text="ok")] * 4) as emulator:
        first = resolve("anthropic:m", api_key="k", base_url=emulator.base_url)
        told = {first: history("a", 10), first.clone(): history("b", 10)}

        for _ in range(2):
            written.clear()

            for provider, messages in told.items():
                messages.append(UserMessage((TextContent("and?"),)))
                [_ async for _ in provider.stream(ModelRequest(messages=tuple(messages)))]
                messages.append(AssistantMessage((TextContent("well"),)))

    assert 0 < max(written) <= growing_json.UNSETTLED
