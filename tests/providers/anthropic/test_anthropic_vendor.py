"""Whole conversations on the Messages API, against its emulator."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from anthropic import AsyncAnthropic
from simulacra_anthropic import AnthropicProvider

from simulacra.testing import AnthropicEmulator, VendorConformance

pytestmark = pytest.mark.anyio


class TestAnthropic(VendorConformance):
    thinking = {"enable": True, "budget_tokens": 1024}

    @asynccontextmanager
    async def connected(self, script, *, model="claude-test", api_key="k", **options):
        async with (
            AnthropicEmulator(script) as emulator,
            AsyncAnthropic(base_url=emulator.base_url, api_key=api_key) as client,
        ):
            yield AnthropicProvider(client, model=model, **options)
