"""The port's conformance suite, on OpenAI's own wire and on that of a compatible service."""

from __future__ import annotations

import pytest
from openai import AsyncAzureOpenAI, AsyncOpenAI
from simulacra_openai import AZURE, FIREWORKS, OpenAIProvider, azure, fireworks, openai_compatible, rules_for

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


class TestFireworks(TestOpenAI):
    def emulator(self, script):
        return OpenAIEmulator(script, rules=rules_for(FIREWORKS))

    def provider(self, base_url):
        return fireworks(AsyncOpenAI(base_url=base_url, api_key="k", max_retries=5), model="fireworks-test")


class TestAzure(TestOpenAI):
    def emulator(self, script):
        return OpenAIEmulator(script, rules=rules_for(AZURE))

    def provider(self, base_url):
        endpoint = base_url.removesuffix("/v1")
        client = AsyncAzureOpenAI(api_key="k", api_version="1", azure_endpoint=endpoint, max_retries=5)

        return azure(client, model="azure-test")
