"""Whole conversations on the Responses API, against its emulator."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from openai import AsyncOpenAI
from simulacra_openai.responses import OpenAIResponsesProvider

from simulacra.testing import OpenAIResponsesEmulator, VendorConformance

pytestmark = pytest.mark.anyio


class TestResponses(VendorConformance):
    thinking = {"enable": True, "effort": "low"}

    @asynccontextmanager
    async def connected(self, script, *, model="gpt-test", api_key="k", **options):
        async with (
            OpenAIResponsesEmulator(script) as emulator,
            AsyncOpenAI(base_url=emulator.base_url, api_key=api_key) as client,
        ):
            yield OpenAIResponsesProvider(client, model=model, **options)
