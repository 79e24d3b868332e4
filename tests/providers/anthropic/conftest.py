"""Providers on a loopback emulator, closed when the test ends."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from anthropic import AsyncAnthropic
from simulacra_anthropic import AnthropicProvider

from simulacra.testing import AnthropicEmulator


@asynccontextmanager
async def served(script, *, model="claude-test", max_retries=5, **options):
    """An emulator with this script and a provider that talks to it, the SDK's retries on."""
    async with (
        AnthropicEmulator(script) as emulator,
        AsyncAnthropic(base_url=emulator.base_url, api_key="k", max_retries=max_retries) as client,
    ):
        yield emulator, AnthropicProvider(client, model=model, **options)


@pytest.fixture
def serve():
    return served
