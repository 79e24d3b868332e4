"""A provider over the official SDK, with one connection at most: one that is not given back is missed at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI
from simulacra_openai import OpenAIProvider

from simulacra.testing import OpenAIEmulator

Served = AbstractAsyncContextManager[tuple[OpenAIEmulator, OpenAIProvider]]


@asynccontextmanager
async def _served(script: Any) -> AsyncIterator[tuple[OpenAIEmulator, OpenAIProvider]]:
    transport = httpx2.AsyncClient(limits=httpx2.Limits(max_connections=1), trust_env=False)

    async with (
        OpenAIEmulator(script) as emulator,
        AsyncOpenAI(base_url=emulator.base_url, api_key="k", http_client=transport) as client,
    ):
        yield emulator, OpenAIProvider(client, model="gpt-test")


@pytest.fixture
def serve() -> Callable[[Any], Served]:
    return _served
