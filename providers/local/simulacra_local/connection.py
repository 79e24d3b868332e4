"""The way from a provider to its server: the OpenAI-compatible code path, over loopback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from anyio import to_thread
from anyio.lowlevel import current_token
from simulacra_openai import COMPATIBLE, OpenAIProvider

from simulacra_local.model import ModelFile
from simulacra_local.server import LocalServer, ServerSettings, start_server, started

if TYPE_CHECKING:
    import httpx2

LOCAL = replace(COMPATIBLE, kind="local", media_types=frozenset())


class Connections:
    """What talks to the server, one for each event loop: connections belong to the loop that opened them.

    Args:
        model: The file that is served.
        settings: How it is served.
        options: Keyword options of `OpenAIProvider`.
    """

    def __init__(self, model: ModelFile, settings: ServerSettings, options: Mapping[str, Any]) -> None:
        self._model = model
        self._settings = settings
        self._options = options
        self._by_loop: WeakKeyDictionary[object, tuple[LocalServer, OpenAIProvider]] = WeakKeyDictionary()

    async def current(self) -> tuple[LocalServer, OpenAIProvider]:
        """The running server, started if need be, and what talks to it; both are new after a crash or a fork.

        Raises:
            ConfigurationError: The runtime or the model file is not what it has to be.
            ServerError: The server could not start.
        """
        start = start_server(self._settings, self._model)
        loop = current_token().native_token

        if loop not in self._by_loop:
            await to_thread.run_sync(_load_sdk, abandon_on_cancel=True)

        server = await started(start)
        known = self._by_loop.get(loop)

        if known is None or known[0] is not server:
            known = self._by_loop[loop] = server, _connected(server, self._settings.alias, self._options)

        return known


def _load_sdk() -> None:
    """Import what talks, in a thread: no event loop waits, and the model loads meanwhile."""
    from openai import AsyncOpenAI  # noqa: F401, PLC0415 -- the SDK is imported on first use

    _transport()  # the first one imports the rest


def _transport() -> httpx2.AsyncClient:
    import httpx2  # noqa: PLC0415 -- loaded with the SDK, not with this package

    return httpx2.AsyncClient(
        trust_env=False,  # a proxy of the environment cannot reach this machine's loopback
        verify=False,  # plain HTTP: loading certificates would be time lost
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),  # nothing is left open at a loop's end
    )


def _connected(server: LocalServer, alias: str, options: Mapping[str, Any]) -> OpenAIProvider:
    from openai import AsyncOpenAI  # noqa: PLC0415 -- the SDK is imported on first use

    client = AsyncOpenAI(base_url=f"{server.url}/v1", api_key=server.api_key, max_retries=0, http_client=_transport())

    return OpenAIProvider(client, model=alias, preset=LOCAL, **options)
