"""The port's conformance suite, on Gemini."""

from __future__ import annotations

import pytest
from google.genai import Client
from google.genai.types import HttpOptions
from simulacra_google import GoogleProvider
from simulacra_google.http_clients import AsyncClientPerLoop

from simulacra.testing import GeminiEmulator, ProviderConformance

pytestmark = pytest.mark.anyio


class TestGemini(ProviderConformance):
    def emulator(self, script):
        return GeminiEmulator(script)

    def provider(self, base_url):
        self.http = AsyncClientPerLoop()
        options = HttpOptions(base_url=base_url, httpx_async_client=self.http)

        return GoogleProvider(Client(api_key="k", http_options=options), model="gemini-test")

    async def close(self, provider):
        await self.http.aclose()
        provider.client.close()
