"""A request handed to the SDK's client, and the open response it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from simulacra.errors import ConfigurationError
from simulacra.wire import split_params, strict_json
from simulacra_openai.errors import vendor_errors

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI


async def post(client: AsyncOpenAI, path: str, params: Mapping[str, Any]) -> httpx2.Response:
    """Send a request with the SDK's authentication, headers and transport, and read no further than its headers.

    OpenAI's own client gets body and address ready made, which spares it half of its work for a request. Clients that
    derive from it, such as Azure's, choose the address by path and body, so they get both as the SDK's methods give them.

    Args:
        client: The client of this event loop.
        path: Below the base URL, with its leading slash.
        params: Fields of the body, and the SDK's options.

    Raises:
        ConfigurationError: JSON cannot hold what is to be sent.
        ProviderError: The service refused, or did not answer.
    """
    import httpx2  # noqa: PLC0415 -- loaded with the SDK, not with this package
    import openai  # noqa: PLC0415 -- the SDK is imported on first use

    body, options = split_params(params, http=httpx2)
    options["security"] = {"bearer_auth": True}
    options["headers"] = {**_left_out(client, openai.Omit), **options["headers"]}
    sent: dict[str, Any] = {"body": body}

    with vendor_errors(reading=False):
        try:
            if type(client) is openai.AsyncOpenAI:
                path, sent = f"{str(client.base_url).rstrip('/')}{path}", {"content": strict_json(body)}

            response = await client.post(
                path,
                **sent,
                options=cast("Any", options),
                cast_to=httpx2.Response,
                stream=True,
                stream_cls=openai.AsyncStream[Any],
            )
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"the request cannot be written: {error}") from error

    return cast("httpx2.Response", response)


def _left_out(client: AsyncOpenAI, omit: type) -> Mapping[str, Any]:
    """Headers that a client leaves out by default; the SDK believes it only where each request says so again."""
    defaults = client._custom_headers  # noqa: SLF001 -- the public property builds all headers, for every request

    return {name: value for name, value in defaults.items() if isinstance(value, omit)} if defaults else {}
