"""Cloudflare's AI Gateway: its address, its headers, and a provider behind it (CF-1, CF-2, W-CF-1)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
from urllib.parse import quote

from simulacra.errors import AuthenticationError, ConfigurationError
from simulacra_openai.presets import CLOUDFLARE, CLOUDFLARE_KEY
from simulacra_openai.sdk_clients import openai_client
from simulacra_openai.services import NO_KEY, provider_for

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from simulacra_openai.provider import OpenAIProvider

GATEWAY = "https://gateway.ai.cloudflare.com/v1"
GATEWAY_TOKEN = "CLOUDFLARE_GATEWAY_TOKEN"  # noqa: S105 -- the variable's name
_ACCOUNT = "CLOUDFLARE_ACCOUNT_ID"
_NAME = "CLOUDFLARE_GATEWAY_NAME"


class GatewayOptions(TypedDict, total=False):
    """How the gateway treats requests; what is absent it decides itself."""

    cache_ttl: int | None
    """Seconds for which it keeps an answer."""
    skip_cache: bool | None
    """Whether it answers anew in any case."""
    cache_key: str | None
    """Under what it keeps the answer, in place of the request."""
    metadata: Mapping[str, Any] | None
    """Told in its log, as JSON."""
    collect_log: bool | None
    """Whether it logs the request."""
    request_timeout_ms: int | None
    """Milliseconds after which it gives up."""
    max_attempts: int | None
    """How often it tries."""


_HEADERS = {
    "cache_ttl": "cf-aig-cache-ttl",
    "skip_cache": "cf-aig-skip-cache",
    "cache_key": "cf-aig-cache-key",
    "metadata": "cf-aig-metadata",
    "collect_log": "cf-aig-collect-log",
    "request_timeout_ms": "cf-aig-request-timeout",
    "max_attempts": "cf-aig-max-attempts",
}


def cloudflare(
    client: AsyncOpenAI | None = None,
    *,
    model: str,
    api_key: str | None = None,
    account_id: str | None = None,
    gateway_name: str | None = None,
    provider: str = "openai",
    gateway_token: str | None = None,
    **options: Any,
) -> OpenAIProvider:
    """A provider for a service behind Cloudflare's AI Gateway (CF-2).

    Args:
        client: The SDK's client for it; built of what follows when not given.
        model: The model's name at the service behind the gateway.
        api_key: That service's key; `CLOUDFLARE_API_KEY` of the environment when not given. With a gateway token it may
            be absent: the gateway then uses the key it keeps.
        account_id: In place of the environment's `CLOUDFLARE_ACCOUNT_ID`.
        gateway_name: In place of the environment's `CLOUDFLARE_GATEWAY_NAME`.
        provider: The service's path, as in `get_cloudflare_gateway_base_url`.
        gateway_token: In place of the environment's `CLOUDFLARE_GATEWAY_TOKEN`.
        options: `GatewayOptions`, and further keyword options of `OpenAIProvider`.

    Raises:
        AuthenticationError: There is neither key nor gateway token.
        ConfigurationError: Account or gateway are not named, or an option cannot be right.
    """
    token = gateway_token or os.environ.get(GATEWAY_TOKEN)
    key = api_key or os.environ.get(CLOUDFLARE_KEY)

    if client is None and not key and not token:
        raise AuthenticationError(f"there is no key. {CLOUDFLARE.remedy}", provider=CLOUDFLARE.kind, model=model)

    gateway: Any = {name: options.pop(name) for name in _HEADERS if name in options}
    sent = client or create_cloudflare_client(
        key,
        account_id=account_id or _named(_ACCOUNT, "account_id"),
        gateway_name=gateway_name or _named(_NAME, "gateway_name"),
        provider=provider,
        gateway_token=token,
        **gateway,
    )

    return provider_for(sent, CLOUDFLARE, model=model, **options)


def create_cloudflare_client(
    api_key: str | None,
    *,
    account_id: str,
    gateway_name: str,
    provider: str = "openai",
    gateway_token: str | None = None,
    **gateway: Unpack[GatewayOptions],
) -> AsyncOpenAI:
    """A client of OpenAI's SDK for a gateway, its own retries off (CF-1).

    Args:
        api_key: Key of the service behind the gateway; `None` where the gateway keeps it.
        account_id: The Cloudflare account.
        gateway_name: The gateway's name in it.
        provider: The service's path, as in `get_cloudflare_gateway_base_url`.
        gateway_token: Opens a gateway that asks for one.
        gateway: How the gateway treats requests.

    Raises:
        ConfigurationError: An option is none of the gateway's.
    """
    from openai import Omit  # noqa: PLC0415 -- the SDK is imported when a client is built, not before

    if unknown := gateway.keys() - _HEADERS.keys():
        raise ConfigurationError(
            f"the gateway has no option {', '.join(sorted(unknown))}; it has {', '.join(_HEADERS)}"
        )

    headers: dict[str, Any] = {_HEADERS[name]: _text(value) for name, value in gateway.items() if value is not None}

    if gateway_token:
        headers["cf-aig-authorization"] = f"Bearer {gateway_token}"

    if not api_key:
        headers["Authorization"] = Omit()

    return openai_client(
        base_url=get_cloudflare_gateway_base_url(account_id=account_id, gateway_name=gateway_name, provider=provider),
        api_key=api_key or NO_KEY,
        default_headers=headers,
    )


def get_cloudflare_gateway_base_url(*, account_id: str, gateway_name: str, provider: str = "openai") -> str:
    """The address of a service behind a gateway; every part is percent-encoded (CF-1).

    Args:
        account_id: The Cloudflare account.
        gateway_name: The gateway's name in it.
        provider: The service's path; its slashes stay, as in `workers-ai/v1` or `google-ai-studio/v1beta/openai`.
    """
    return f"{GATEWAY}/{quote(account_id, safe='')}/{quote(gateway_name, safe='')}/{quote(provider, safe='/')}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(dict(value) if isinstance(value, Mapping) else value)


def _named(variable: str, option: str) -> str:
    value = os.environ.get(variable)

    if not value:
        raise ConfigurationError(f"the gateway's {option} is missing. Give it, or: export {variable}=...")

    return value
