"""The HTTP client of SDK clients that this package makes. Imported on first use: it imports the HTTP client."""

from __future__ import annotations

import httpx2

from simulacra.wire import SendsPerLoop


class AsyncClientPerLoop(SendsPerLoop, httpx2.AsyncClient):
    """Sends each request through a client of the running loop, on asyncio and on trio."""

    def __init__(self) -> None:
        super().__init__(usual=_client, transport=httpx2.AsyncBaseTransport())


def _client() -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)

    return httpx2.AsyncClient(follow_redirects=True, timeout=None, limits=limits)
