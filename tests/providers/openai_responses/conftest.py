"""Providers on a loopback emulator, closed when the test ends."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from openai import AsyncOpenAI
from simulacra_openai.responses import OpenAIResponsesProvider

from simulacra.testing import OpenAIResponsesEmulator


@asynccontextmanager
async def served(script, *, model="gpt-test", max_retries=5, **options):
    """An emulator with this script and a provider that talks to it, the SDK's retries on."""
    async with (
        OpenAIResponsesEmulator(script) as emulator,
        AsyncOpenAI(base_url=emulator.base_url, api_key="k", max_retries=max_retries) as client,
    ):
        yield emulator, OpenAIResponsesProvider(client, model=model, **options)


@pytest.fixture
def serve():
    return served
