"""The port's conformance suite, on Anthropic's own wire."""

from __future__ import annotations

import pytest
from anthropic import AsyncAnthropic
from simulacra_anthropic import AnthropicProvider

from simulacra.registry import resolve
from simulacra.testing import AnthropicEmulator, ProviderConformance

pytestmark = pytest.mark.anyio


class TestAnthropic(ProviderConformance):
    def emulator(self, script):
        return AnthropicEmulator(script)

    def provider(self, base_url):
        return AnthropicProvider(AsyncAnthropic(base_url=base_url, api_key="k", max_retries=5), model="claude-test")

    async def close(self, provider):
        await provider.client.close()


class TestResolved(TestAnthropic):
    def provider(self, base_url):
        return resolve("anthropic:claude-test", api_key="k", base_url=base_url)
