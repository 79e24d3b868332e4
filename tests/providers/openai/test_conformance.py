"""The port's conformance suite, on OpenAI's own wire and on that of a compatible service."""

from __future__ import annotations

import pytest
from openai import AsyncOpenAI
from simulacra_openai import OpenAIProvider, openai_compatible

from simulacra.testing import OpenAIEmulator, ProviderConformance

pytestmark = pytest.mark.anyio


class TestOpenAI(ProviderConformance):
    def emulator(self, script):
        return OpenAIEmulator(script)

    def provider(self, base_url):
        return OpenAIProvider(AsyncOpenAI(base_url=base_url, api_key="k", max_retries=5), model="gpt-test")

    async def close(self, provider):
        await provider.client.close()


class TestCompatible(TestOpenAI):
    def provider(self, base_url):
        return openai_compatible(base_url, model="local-test")
