"""A provider over the official SDK, with one connection at most: one that is not given back is missed at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import openai
import pytest
from simulacra_openai import OpenAIProvider

from simulacra.testing import OpenAIEmulator

Served = AbstractAsyncContextManager[tuple[OpenAIEmulator, OpenAIProvider]]


@pytest.fixture(params=["asyncio", "aiohttp", "trio"])
def network(request: pytest.FixtureRequest) -> str:
    """The event loop, and what reads from the network: on asyncio the SDK's usual transport and the one over aiohttp."""
    return str(request.param)


@pytest.fixture
def anyio_backend(network: str) -> str:
    return "trio" if network == "trio" else "asyncio"


@asynccontextmanager
async def _served(script: Any, *, over_aiohttp: bool) -> AsyncIterator[tuple[OpenAIEmulator, OpenAIProvider]]:
    make = openai.DefaultAioHttpClient if over_aiohttp else httpx2.AsyncClient
    transport = make(limits=httpx2.Limits(max_connections=1), trust_env=False)

    async with (
        OpenAIEmulator(script) as emulator,
        openai.AsyncOpenAI(base_url=emulator.base_url, api_key="k", http_client=transport) as client,
    ):
        yield emulator, OpenAIProvider(client, model="gpt-test")


@pytest.fixture
def serve(network: str) -> Callable[[Any], Served]:
    return partial(_served, over_aiohttp=network == "aiohttp")
