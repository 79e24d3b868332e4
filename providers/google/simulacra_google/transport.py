"""A request handed to the SDK's client, and the open response it gives back. The one place below the SDK's surface.

google-genai offers nothing between its typed objects, which cost several times what everything else does, and the
network. So two methods of its API client are used that it keeps to itself: one builds the request, with address, version,
headers and key, the other signs it and sends it once. `tests/providers/google/test_gemini_transport.py` holds the SDK to
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

from anyio.lowlevel import current_token

from simulacra.errors import ConfigurationError
from simulacra.wire import is_trio, strict_json
from simulacra.wire.sdk_options import SDK_OPTIONS
from simulacra_google.errors import vendor_errors

if TYPE_CHECKING:
    import httpx2
    from google.genai import Client

_COUNTED_BY_VERTEX = frozenset({"contents", "systemInstruction", "tools", "generationConfig"})
_REMEDY = "Give it one: genai.Client(http_options=HttpOptions(httpx_async_client=httpx2.AsyncClient(timeout=None)))"


class _OverHttpx:
    """The SDK's API client as it is without aiohttp, which it would prefer where it is installed."""

    def __init__(self, api: Any) -> None:
        self._api = api

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def _use_aiohttp(self) -> bool:
        return False


class LoopGuard:
    """Refuses event loops that a client's HTTP client cannot serve, which would fail in ways that nobody understands.

    The SDK's own HTTP client serves every asyncio loop, but no trio; one that was given serves the loop it is first used
    on; `AsyncClientPerLoop` serves all.

    Args:
        client: The client.

    Raises:
        ConfigurationError: The client has no HTTP client of httpx2.
    """

    def __init__(self, client: Client) -> None:
        import httpx2  # noqa: PLC0415 -- loaded with the SDK, not with this package

        from simulacra_google.http_clients import AsyncClientPerLoop  # noqa: PLC0415 -- it imports an HTTP client

        api = client._api_client  # noqa: SLF001 -- see the module's docstring
        sender = api._async_httpx_client  # noqa: SLF001 -- as above

        if not isinstance(sender, httpx2.AsyncClient):
            raise ConfigurationError(f"this client has no HTTP client of httpx2. {_REMEDY}")

        self._is_of_the_sdk = api._http_options.httpx_async_client is None  # noqa: SLF001 -- as above
        self._serves_all = isinstance(sender, AsyncClientPerLoop)
        self._loop: object = None

    def check(self) -> None:
        """Look at the running loop.

        Raises:
            ConfigurationError: The client cannot be used on it.
        """
        if self._serves_all:
            return

        if self._is_of_the_sdk:
            if is_trio(current_token().native_token):
                raise ConfigurationError(f"the SDK's own HTTP client runs on asyncio only. {_REMEDY}")

            return

        loop = current_token().native_token
        self._loop = self._loop or loop

        if self._loop is not loop:
            raise ConfigurationError(
                "this provider's client has an HTTP client of its own, which belongs to the event loop it was first used"
                " on. Build the provider anew on this loop"
            )


async def post(client: Client, method: str, params: Mapping[str, Any]) -> httpx2.Response:
    """Send a request with the SDK's authentication, headers and transport, and read no further than its headers.

    Args:
        client: The client.
        method: `streamGenerateContent`, `generateContent` or `countTokens`.
        params: Fields of the body, `model`, and the SDK's options.

    Raises:
        ConfigurationError: The client cannot be used so, or JSON cannot hold what is to be sent.
        ProviderError: The service refused, or did not answer.
    """
    from google.genai import types  # noqa: PLC0415 -- the SDK is imported on first use

    api = client._api_client  # noqa: SLF001 -- see the module's docstring
    body = {key: value for key, value in params.items() if key not in SDK_OPTIONS and key != "model"}
    body |= params.get("extra_body") or {}
    options = types.HttpOptions(
        headers=dict(params.get("extra_headers") or {}),
        timeout=_milliseconds(params.get("timeout")),
    )

    with vendor_errors(reading=False):
        try:
            path = f"{_path(params['model'], is_vertex=api.vertexai)}:{method}{_query(method, params)}"
            request = api._build_request("post", path, dict(body), options)  # noqa: SLF001 -- as above
            request.data = strict_json(body)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"the request cannot be written: {error}") from error

        over_httpx: Any = _OverHttpx(api)
        answer = await type(api)._async_request_once(over_httpx, request, stream=True)  # noqa: SLF001 -- as above

    return cast("httpx2.Response", answer.response_stream)


def counting(params: Mapping[str, Any], *, is_vertex: bool) -> dict[str, Any]:
    """A request as `countTokens` takes it: the whole of it in one field at the Developer API, some fields on Vertex.

    Args:
        params: What `generateContent` would get.
        is_vertex: Whether Vertex is asked.
    """
    sdk = {key: value for key, value in params.items() if key in SDK_OPTIONS or key == "model"}

    if is_vertex:
        return sdk | {key: value for key, value in params.items() if key in _COUNTED_BY_VERTEX}

    body = {key: value for key, value in params.items() if key not in SDK_OPTIONS}

    return {**sdk, "generateContentRequest": {**body, "model": _path(params["model"], is_vertex=False)}}


def _path(model: str, *, is_vertex: bool | None) -> str:
    """Where a model stands: with its publisher on Vertex, under `models` at the Developer API."""
    if ".." in model or "?" in model or "&" in model:
        raise ValueError(f"{model!r} is no name of a model")

    if model.startswith(("projects/", "models/", "publishers/") if is_vertex else ("models/", "tunedModels/")):
        return model

    if not is_vertex:
        return f"models/{model}"

    publisher, slash, name = model.partition("/")

    return f"publishers/{publisher}/models/{name}" if slash else f"publishers/google/models/{model}"


def _query(method: str, params: Mapping[str, Any]) -> str:
    asked = {**({"alt": "sse"} if method == "streamGenerateContent" else {}), **(params.get("extra_query") or {})}

    return f"?{urlencode(asked)}" if asked else ""


def _milliseconds(timeout: Any) -> int | None:
    if isinstance(timeout, Mapping):
        timeout = timeout.get("read")

    return None if timeout is None else round(timeout * 1000)
