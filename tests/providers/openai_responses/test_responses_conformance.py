"""The port's conformance suite, on the Responses API."""

from __future__ import annotations

import pytest
from openai import AsyncOpenAI
from simulacra_openai.responses import OpenAIResponsesProvider

from simulacra.registry import resolve
from simulacra.testing import OpenAIResponsesEmulator, ProviderConformance

pytestmark = pytest.mark.anyio


class TestResponses(ProviderConformance):
    def emulator(self, script):
        return OpenAIResponsesEmulator(script)

    def provider(self, base_url):
        return OpenAIResponsesProvider(AsyncOpenAI(base_url=base_url, api_key="k", max_retries=5), model="gpt-test")

    async def close(self, provider):
        await provider.client.close()


class TestResolved(TestResponses):
    def provider(self, base_url):
        return resolve("openai_responses:gpt-test", api_key="k", base_url=base_url)
