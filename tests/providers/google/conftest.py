"""Providers on a loopback emulator, closed when the test ends."""

from __future__ import annotations

from contextlib import asynccontextmanager

import httpx2
import pytest
from google.genai import Client
from google.genai.types import HttpOptions
from simulacra_google import GoogleProvider

from simulacra.testing import GeminiEmulator


@asynccontextmanager
async def connected(base_url, *, api_key="k", **client_options):
    """The SDK's client on an HTTP client that runs on asyncio and on trio, its retries on."""
    async with httpx2.AsyncClient(timeout=None, follow_redirects=True) as http:
        options = HttpOptions(base_url=base_url, httpx_async_client=http, retry_options={"attempts": 5})
        client = Client(api_key=api_key, http_options=options, **client_options)

        try:
            yield client
        finally:
            client.close()


@asynccontextmanager
async def served(script, *, model="gemini-test", **options):
    """An emulator with this script and a provider that talks to it."""
    async with GeminiEmulator(script) as emulator, connected(emulator.base_url) as client:
        yield emulator, GoogleProvider(client, model=model, **options)


@pytest.fixture
def serve():
    return served


@pytest.fixture
def connect():
    return connected
