"""The provider of the embedded model: it starts the server and leaves the talking to the OpenAI-compatible code."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, ClassVar

from anyio import to_thread
from simulacra_openai import rules_for

from simulacra.errors import ConfigurationError, ConnectionFailedError, ProviderError, StreamInterruptedError
from simulacra.provider import ModelProvider, ModelRequest, ProviderProfile
from simulacra.streaming import StreamEvent
from simulacra_local.connection import LOCAL, Connections
from simulacra_local.model import SMOLLM2, find_model
from simulacra_local.server import LocalServer, ServerSettings, half_the_cores, require_runtime

CONTEXT_WINDOW = 8192
PARALLEL = 2
_LAST_BREATH = 2.0
"""Seconds that a process whose connection broke may take to be known as ended."""


class LocalProvider(ModelProvider):
    """A language model on this machine: no key, no network. It starts on the first request, once per process.

    Args:
        model: `"smollm2"`, or the path of a GGUF file.
        context_window: Tokens that a request and its reply may have together; at most what the model was trained on.
        parallel: Requests answered at the same time; further ones wait in line.
        threads: Threads that compute; half of the cores unless given.
        options: Options of every request, as `OpenAIProvider` takes them.

    Raises:
        ConfigurationError: The model file or the runtime is missing, or an option cannot be right.
    """

    kind: ClassVar[str] = "local"

    def __init__(
        self,
        model: str = SMOLLM2.name,
        *,
        context_window: int = CONTEXT_WINDOW,
        parallel: int = PARALLEL,
        threads: int | None = None,
        **options: Any,
    ) -> None:
        threads = half_the_cores() if threads is None else threads

        for name, value in (("context_window", context_window), ("parallel", parallel), ("threads", threads)):
            if value < 1:
                raise ConfigurationError(f"{name} must be at least 1, not {value}")

        require_runtime()
        file = find_model(model)
        settings = ServerSettings(
            path=str(file.path),
            alias=file.alias,
            context_window=context_window,
            parallel=parallel,
            threads=threads,
        )
        advised = {} if file.known is None else file.known.options
        self._connections = Connections(file, settings, copy.deepcopy({**advised, **options}))
        self.model = model if file.known is not None else str(file.path)
        self.profile = ProviderProfile(
            context_window=context_window,
            media_types=LOCAL.media_types,
            raw_kinds=LOCAL.raw_kinds,
            rules=rules_for(LOCAL),
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        server, provider = await self._connections.current()
        self._learn_from(server)

        try:
            async with aclosing(provider.stream(request)) as events:
                async for event in events:
                    yield event
        except (ConnectionFailedError, StreamInterruptedError) as error:
            if await to_thread.run_sync(server.wait_for_end, _LAST_BREATH, abandon_on_cancel=True):
                raise _crashed(server, error) from error

            raise

    async def prepare(self, request: ModelRequest) -> dict[str, Any]:
        server, provider = await self._connections.current()
        self._learn_from(server)

        return await provider.prepare(request)

    def _learn_from(self, server: LocalServer) -> None:
        if self.profile.context_window != server.context_window:
            self.profile = replace(self.profile, context_window=server.context_window)


def _crashed(server: LocalServer, error: ProviderError) -> ProviderError:
    return type(error)(
        f"the local model stopped: {server.obituary()}. The next request starts it again", partial=error.partial
    )
