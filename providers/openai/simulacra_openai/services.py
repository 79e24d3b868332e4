"""Constructors for services that speak chat completions: a preset, and a client of OpenAI's SDK for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from simulacra.errors import AuthenticationError, ConfigurationError
from simulacra_openai.presets import AZURE, COMPATIBLE, FIREWORKS, OLLAMA, Preset
from simulacra_openai.sdk_clients import azure_client, openai_client

if TYPE_CHECKING:
    from openai import AsyncAzureOpenAI, AsyncOpenAI

    from simulacra_openai.provider import OpenAIProvider

NO_KEY = "no-key"
"""What is sent as the key to a service that asks for none; the SDK insists on having one."""
AZURE_API_VERSION = "2024-10-21"
"""The latest stable version of Azure's API that was released apart from the model's."""
_OLLAMA_PORT = 11434


def openai_compatible(
    base_url: str | None = None,
    *,
    model: str,
    api_key: str | None = None,
    preset: Preset = COMPATIBLE,
    **options: Any,
) -> OpenAIProvider:
    """A provider for any server that speaks chat completions.

    Args:
        base_url: Where the service is, the version included: `http://127.0.0.1:8080/v1`; the preset's when not given.
        model: The model's name there.
        api_key: The service's key; that of the preset's environment variable when not given.
        preset: How the service differs from OpenAI.
        options: Further keyword options of `OpenAIProvider`.

    Raises:
        AuthenticationError: The service needs a key and there is none.
        ConfigurationError: An option cannot be right.
    """
    address = base_url or preset.base_url

    if not address:
        raise ConfigurationError("base_url is missing: where the service is, such as 'http://127.0.0.1:8080/v1'")

    key = key_for(preset, api_key, model=model)

    return provider_for(openai_client(base_url=address, api_key=key), preset, model=model, **options)


def fireworks(
    client: AsyncOpenAI | None = None, *, model: str, api_key: str | None = None, **options: Any
) -> OpenAIProvider:
    """A provider for Fireworks AI (FW-2).

    Args:
        client: The SDK's client for it; built for `api_key` when not given.
        model: The model's name, such as `accounts/fireworks/models/kimi-k2-instruct`.
        api_key: In place of the environment's `FIREWORKS_API_KEY`.
        options: Further keyword options of `OpenAIProvider`.

    Raises:
        AuthenticationError: There is no key.
        ConfigurationError: An option cannot be right.
    """
    return provider_for(client or create_fireworksai_client(api_key), FIREWORKS, model=model, **options)


def create_fireworksai_client(api_key: str | None = None) -> AsyncOpenAI:
    """A client of OpenAI's SDK for Fireworks AI, its own retries off (FW-1).

    Args:
        api_key: In place of the environment's `FIREWORKS_API_KEY`.

    Raises:
        AuthenticationError: There is no key.
    """
    return openai_client(base_url=FIREWORKS.base_url, api_key=key_for(FIREWORKS, api_key))


def ollama(base_url: str | None = None, *, model: str, **options: Any) -> OpenAIProvider:
    """A provider for an Ollama server, as a rule on this machine.

    Args:
        base_url: Where it is, `/v1` included; made of the environment's `OLLAMA_HOST` when not given, else the usual
            port of this machine.
        model: The model's name, such as `qwen3:4b`.
        options: Further keyword options of `OpenAIProvider`.

    Raises:
        ConfigurationError: An option cannot be right.
    """
    address = base_url or _ollama_address(os.environ.get("OLLAMA_HOST", "")) or OLLAMA.base_url

    return openai_compatible(address, model=model, preset=OLLAMA, **options)


def azure(
    client: AsyncAzureOpenAI | None = None,
    *,
    model: str,
    endpoint: str | None = None,
    api_key: str | None = None,
    api_version: str | None = None,
    **options: Any,
) -> OpenAIProvider:
    """A provider for a model that Azure OpenAI has deployed.

    Args:
        client: The SDK's client, for what needs more than a key, such as Entra ID; built of the rest when not given.
        model: The name of the deployment.
        endpoint: In place of the environment's `AZURE_OPENAI_ENDPOINT`: `https://NAME.openai.azure.com`.
        api_key: In place of the environment's `AZURE_OPENAI_API_KEY`.
        api_version: In place of the environment's `OPENAI_API_VERSION`.
        options: Further keyword options of `OpenAIProvider`.

    Raises:
        AuthenticationError: There is neither client nor key.
        ConfigurationError: There is neither client nor endpoint, or an option cannot be right.
    """
    return provider_for(client or _azure_client(endpoint, api_key, api_version), AZURE, model=model, **options)


def key_for(preset: Preset, given: str | None, *, model: str | None = None) -> str:
    """The key to send: the given one, else the one of the preset's own variable, else a stand-in.

    Raises:
        AuthenticationError: The service needs one and there is none.
    """
    key = given or (os.environ.get(preset.key) if preset.key else NO_KEY)

    if not key:
        raise AuthenticationError(f"there is no key. {preset.remedy}", provider=preset.kind, model=model)

    return key


def provider_for(client: AsyncOpenAI, preset: Preset, *, model: str, **options: Any) -> OpenAIProvider:
    """A provider on a client. This module is loaded before the provider's."""
    from simulacra_openai.provider import OpenAIProvider  # noqa: PLC0415 -- it loads the SDK's transport

    return OpenAIProvider(client, model=model, preset=preset, **options)


def _azure_client(endpoint: str | None, api_key: str | None, api_version: str | None) -> AsyncAzureOpenAI:
    address = endpoint or os.environ.get("AZURE_OPENAI_ENDPOINT")

    if not address:
        raise ConfigurationError(
            "there is no endpoint. Take it from the resource's page in the Azure portal, then:"
            " export AZURE_OPENAI_ENDPOINT=https://NAME.openai.azure.com"
        )

    return azure_client(
        azure_endpoint=address,
        api_key=key_for(AZURE, api_key),
        api_version=api_version or os.environ.get("OPENAI_API_VERSION") or AZURE_API_VERSION,
    )


def _ollama_address(host: str) -> str:
    """The address that Ollama's own variable means; empty for none.

    The variable tells where a server listens: `0.0.0.0` is reached on loopback, and the port may be missing.
    """
    plain = host.strip().rstrip("/")

    if not plain:
        return ""

    scheme, mark, rest = plain.rpartition("://")
    name, colon, port = rest.rpartition(":")
    name, port = (name, port) if colon and port.isdecimal() else (rest, str(_OLLAMA_PORT) if not mark else "")
    name = "127.0.0.1" if name in ("", "0.0.0.0") else name  # noqa: S104 -- compared, not bound

    return f"{scheme or 'http'}://{name}{':' + port if port else ''}/v1"
