"""The conformance suite for whole conversations against the vendors themselves.

    SIMULACRA_LIVE=1 ANTHROPIC_API_KEY=... GEMINI_API_KEY=... OPENAI_API_KEY=... uv run pytest tests/live

It reaches the network and costs a few cents, so it asks for both: the switch and the vendor's key.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager

import httpx2
import pytest
from anthropic import AsyncAnthropic
from google.genai import Client
from google.genai.types import HttpOptions
from openai import AsyncOpenAI
from simulacra_anthropic import AnthropicProvider
from simulacra_google import GoogleProvider
from simulacra_openai import OpenAIProvider
from simulacra_openai.responses import OpenAIResponsesProvider

from simulacra.testing import VendorConformance

if os.environ.get("SIMULACRA_LIVE") != "1":
    pytest.skip("set SIMULACRA_LIVE=1 and the vendors' keys to ask the vendors themselves", allow_module_level=True)

pytestmark = pytest.mark.anyio


def needs(key):
    """Run only where the vendor's key is set."""
    return pytest.mark.skipif(not os.environ.get(key), reason=f"set {key} to ask this vendor itself")


@needs("ANTHROPIC_API_KEY")
class TestAnthropic(VendorConformance):
    thinking = {"enable": True}

    @asynccontextmanager
    async def connected(self, script, *, model="claude-sonnet-4-5", api_key=None, **options):
        async with AsyncAnthropic(api_key=api_key) as client:
            yield AnthropicProvider(client, model=model, **options)


@needs("GEMINI_API_KEY")
class TestGemini(VendorConformance):
    thinking = {"enable": True, "budget_tokens": 1024}

    @asynccontextmanager
    async def connected(self, script, *, model="gemini-2.5-flash", api_key=None, **options):
        async with httpx2.AsyncClient(timeout=None, follow_redirects=True) as http:
            client = Client(
                api_key=api_key or os.environ["GEMINI_API_KEY"], http_options=HttpOptions(httpx_async_client=http)
            )

            try:
                yield GoogleProvider(client, model=model, **options)
            finally:
                client.close()


@needs("OPENAI_API_KEY")
class TestChat(VendorConformance):
    @asynccontextmanager
    async def connected(self, script, *, model="gpt-5-mini", api_key=None, **options):
        async with AsyncOpenAI(api_key=api_key) as client:
            yield OpenAIProvider(client, model=model, **options)


@needs("OPENAI_API_KEY")
class TestResponses(VendorConformance):
    thinking = {"enable": True, "effort": "low"}

    @asynccontextmanager
    async def connected(self, script, *, model="gpt-5-mini", api_key=None, **options):
        async with AsyncOpenAI(api_key=api_key) as client:
            yield OpenAIResponsesProvider(client, model=model, **options)
