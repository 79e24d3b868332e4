"""Whole conversations on chat completions, against its emulator."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from openai import AsyncOpenAI
from simulacra_openai import OpenAIProvider

from simulacra.testing import OpenAIEmulator, VendorConformance

pytestmark = pytest.mark.anyio


class TestChat(VendorConformance):
    thinking = {"effort": "low"}

    @asynccontextmanager
    async def connected(self, script, *, model="gpt-test", api_key="k", **options):
        async with (
            OpenAIEmulator(script) as emulator,
            AsyncOpenAI(base_url=emulator.base_url, api_key=api_key) as client,
        ):
            yield OpenAIProvider(client, model=model, **options)
