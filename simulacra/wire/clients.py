"""One SDK client per event loop: connections belong to the loop that opened them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from anyio.lowlevel import current_token

from simulacra.errors import ConfigurationError
from simulacra.wire.loop_end import at_loop_end
from simulacra.wire.per_loop import SendsPerLoop, close_all, transports_of

C = TypeVar("C")

_SDK_TRANSPORT = "AsyncHttpxClientWrapper"
"""Class of the HTTP client that the SDKs of Anthropic and OpenAI make when they are given none."""


class ClientPerLoop(Generic[C]):
    """The client a provider was given, and copies of it for every further event loop it is used on.

    A copy has a transport of its own. The connections of a transport that the SDK made are closed when their loop ends; the
    client itself stays open. An HTTP client that its user made is the user's to close.

    Args:
        client: The client that was given; it belongs to the first loop that asks.
        expected: The SDK's class of async clients.
        transport: Makes a transport of the SDK, as `transport(timeout=...)`.
        http: The module of the SDK's HTTP client.

    Raises:
        ConfigurationError: The client, or its HTTP client, is of another class.
    """

    def __init__(self, client: C, *, expected: type[C], transport: Callable[..., Any], http: ModuleType) -> None:
        if not isinstance(client, expected):
            module, _, _ = expected.__module__.partition(".")
            raise ConfigurationError(f"the client must be an {module}.{expected.__name__}, not {type(client).__name__}")

        if not isinstance(_transport_of(client), http.AsyncClient):
            raise ConfigurationError(
                f"the client's http_client must be an {http.__name__}.AsyncClient: no other one is supported"
            )

        self.original = client
        self._transport = transport
        self._by_loop: WeakKeyDictionary[object, C] = WeakKeyDictionary()
        self._is_claimed = False
        self._lock = threading.Lock()

    def current(self) -> C:
        """The client of the running loop.

        Raises:
            ConfigurationError: A second loop needs a copy, but the client has an HTTP client of its own.
        """
        if isinstance(_transport_of(self.original), SendsPerLoop):
            return self.original

        loop = current_token().native_token

        with self._lock:
            known = self._by_loop.get(loop)

            if known is None:
                client = self._copy() if self._is_claimed else self.original
                is_ours = self._is_claimed or _is_made_by_sdk(client)
                self._is_claimed = True
                known = self._by_loop[loop] = client

                if is_ours:
                    _close_with_loop(_transport_of(client))

            return known

    def _copy(self) -> C:
        original: Any = self.original

        if not _is_made_by_sdk(original):
            raise ConfigurationError(
                "this provider's client has an http_client of its own, which belongs to the event loop it was first used"
                f" on. Build the provider anew on this loop, or give its {type(original).__name__} no http_client"
            )

        copied: C = original.copy(http_client=self._transport(timeout=original.timeout))

        return copied


def _close_with_loop(http: Any) -> None:
    """Have connections closed with their loop, or when nobody has the client any more: other providers may share it.

    The client itself stays open: its user may go on with it on another loop.
    """
    at_loop_end(http, partial(close_all, transports_of(http)))


def _is_made_by_sdk(client: Any) -> bool:
    return type(_transport_of(client)).__name__ == _SDK_TRANSPORT


def _transport_of(client: Any) -> Any:
    return client._client  # noqa: SLF001 -- the SDKs tell their transport nowhere else
