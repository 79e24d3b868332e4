"""The HTTP client of SDK clients that this package makes. Imported on first use: it imports SDK and HTTP client."""

from __future__ import annotations

import httpx2
import openai

from simulacra.wire import SendsPerLoop


class AsyncClientPerLoop(SendsPerLoop, httpx2.AsyncClient):
    """Sends each request through a client of the running loop.

    On asyncio the SDK's own transport over aiohttp reads a stream in half the time of its usual one, which trio needs.
    """

    def __init__(self) -> None:
        super().__init__(
            usual=openai.DefaultAsyncHttpx2Client,
            over_aiohttp=openai.DefaultAioHttpClient,
            transport=httpx2.AsyncBaseTransport(),
        )
