"""Whole conversations on Gemini, against its emulator."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from simulacra_google import GoogleProvider

from simulacra.testing import GeminiEmulator, VendorConformance

pytestmark = pytest.mark.anyio


class TestGemini(VendorConformance):
    thinking = {"enable": True, "budget_tokens": 1024}

    @pytest.fixture(autouse=True)
    def _connect(self, connect):
        self.connect = connect

    @asynccontextmanager
    async def connected(self, script, *, model="gemini-test", api_key="k", **options):
        async with (
            GeminiEmulator(script) as emulator,
            self.connect(emulator.base_url, api_key=api_key) as client,
        ):
            yield GoogleProvider(client, model=model, **options)
