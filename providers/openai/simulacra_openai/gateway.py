"""Cloudflare's AI Gateway: its address, its headers, and a provider behind it (CF-1, CF-2, W-CF-1)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from simulacra.errors import AuthenticationError, ConfigurationError
from simulacra_openai.presets import CLOUDFLARE, CLOUDFLARE_KEY
from simulacra_openai.services import NO_KEY, provider_for

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from simulacra_openai.provider import OpenAIProvider

GATEWAY = "https://gateway.ai.cloudflare.com/v1"
GATEWAY_TOKEN = "CLOUDFLARE_GATEWAY_TOKEN"  # noqa: S105 -- the variable's name
_ACCOUNT = "CLOUDFLARE_ACCOUNT_ID"
_NAME = "CLOUDFLARE_GATEWAY_NAME"


def cloudflare(  # noqa: PLR0913 -- a constructor's keyword options
    client: AsyncOpenAI | None = None,
    *,
    model: str,
    api_key: str | None = None,
    account_id: str | None = None,
    gateway_name: str | None = None,
    provider: str = "openai",
    gateway_token: str | None = None,
    cache_ttl: int | None = None,
    skip_cache: bool | None = None,
    cache_key: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    collect_log: bool | None = None,
    request_timeout_ms: int | None = None,
    max_attempts: int | None = None,
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
        cache_ttl: As in `create_cloudflare_client`, like those that follow.
        skip_cache: See there.
        cache_key: See there.
        metadata: See there.
        collect_log: See there.
        request_timeout_ms: See there.
        max_attempts: See there.
        options: Further keyword options of `OpenAIProvider`.

    Raises:
        AuthenticationError: There is neither key nor gateway token.
        ConfigurationError: Account or gateway are not named, or an option cannot be right.
    """
    token = gateway_token or os.environ.get(GATEWAY_TOKEN)
    key = api_key or os.environ.get(CLOUDFLARE_KEY)

    if client is None and not key and not token:
        raise AuthenticationError(f"there is no key. {CLOUDFLARE.remedy}", provider=CLOUDFLARE.kind, model=model)

    sent = client or create_cloudflare_client(
        key,
        account_id=account_id or _named(_ACCOUNT, "account_id"),
        gateway_name=gateway_name or _named(_NAME, "gateway_name"),
        provider=provider,
        gateway_token=token,
        cache_ttl=cache_ttl,
        skip_cache=skip_cache,
        cache_key=cache_key,
        metadata=metadata,
        collect_log=collect_log,
        request_timeout_ms=request_timeout_ms,
        max_attempts=max_attempts,
    )

    return provider_for(sent, CLOUDFLARE, model=model, **options)


def create_cloudflare_client(  # noqa: PLR0913 -- a constructor's keyword options
    api_key: str | None,
    *,
    account_id: str,
    gateway_name: str,
    provider: str = "openai",
    gateway_token: str | None = None,
    cache_ttl: int | None = None,
    skip_cache: bool | None = None,
    cache_key: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    collect_log: bool | None = None,
    request_timeout_ms: int | None = None,
    max_attempts: int | None = None,
) -> AsyncOpenAI:
    """A client of OpenAI's SDK for a gateway, its own retries off (CF-1).

    Args:
        api_key: Key of the service behind the gateway; `None` where the gateway keeps it.
        account_id: The Cloudflare account.
        gateway_name: The gateway's name in it.
        provider: The service's path, as in `get_cloudflare_gateway_base_url`.
        gateway_token: Opens a gateway that asks for one.
        cache_ttl: Seconds for which the gateway keeps an answer.
        skip_cache: Whether it answers anew in any case.
        cache_key: Under what it keeps the answer, in place of the request.
        metadata: Told in its log, as JSON.
        collect_log: Whether it logs the request.
        request_timeout_ms: Milliseconds after which it gives up.
        max_attempts: How often it tries.
    """
    from openai import AsyncOpenAI, Omit  # noqa: PLC0415 -- the SDK is imported when a client is built, not before

    headers = {
        "cf-aig-authorization": f"Bearer {gateway_token}" if gateway_token else None,
        "cf-aig-cache-ttl": cache_ttl,
        "cf-aig-skip-cache": skip_cache,
        "cf-aig-cache-key": cache_key,
        "cf-aig-metadata": None if metadata is None else json.dumps(dict(metadata)),
        "cf-aig-collect-log": collect_log,
        "cf-aig-request-timeout": request_timeout_ms,
        "cf-aig-max-attempts": max_attempts,
    }
    default_headers: dict[str, Any] = {name: _text(value) for name, value in headers.items() if value is not None}

    if not api_key:
        default_headers["Authorization"] = Omit()

    return AsyncOpenAI(
        base_url=get_cloudflare_gateway_base_url(account_id=account_id, gateway_name=gateway_name, provider=provider),
        api_key=api_key or NO_KEY,
        default_headers=default_headers,
        max_retries=0,
    )


def get_cloudflare_gateway_base_url(*, account_id: str, gateway_name: str, provider: str = "openai") -> str:
    """The address of a service behind a gateway; every part is percent-encoded (CF-1).

    Args:
        account_id: The Cloudflare account.
        gateway_name: The gateway's name in it.
        provider: The service's path; its slashes stay, as in `workers-ai/v1` or `google-ai-studio/v1beta/openai`.
    """
    return f"{GATEWAY}/{quote(account_id, safe='')}/{quote(gateway_name, safe='')}/{quote(provider, safe='/')}"


def _text(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _named(variable: str, option: str) -> str:
    value = os.environ.get(variable)

    if not value:
        raise ConfigurationError(f"the gateway's {option} is missing. Give it, or: export {variable}=...")

    return value
