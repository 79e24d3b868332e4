"""What the registry loads for `"openai:model"`, and for the services of the other presets."""

from __future__ import annotations

import os
from typing import Any

from simulacra.errors import AuthenticationError
from simulacra.provider import ProviderPlugin
from simulacra_openai.gateway import cloudflare
from simulacra_openai.presets import (
    AZURE,
    AZURE_KEY,
    CLOUDFLARE,
    CLOUDFLARE_KEY,
    FIREWORKS,
    FIREWORKS_KEY,
    OLLAMA,
    OPENAI,
)
from simulacra_openai.provider import OpenAIProvider
from simulacra_openai.rules import rules_for
from simulacra_openai.sdk_clients import openai_client
from simulacra_openai.services import azure, fireworks, ollama

KEY = "OPENAI_API_KEY"
REMEDY = f"Get a key at https://platform.openai.com/api-keys, then: export {KEY}=sk-..."


def create(model: str, *, api_key: str | None = None, base_url: str | None = None, **options: Any) -> OpenAIProvider:
    """A provider whose client is built from the environment.

    Args:
        model: The model's name.
        api_key: In place of the environment's.
        base_url: In place of the environment's `OPENAI_BASE_URL`, or OpenAI's own.
        options: Keyword options of `OpenAIProvider`.

    Raises:
        AuthenticationError: There is no key.
        ConfigurationError: An option cannot be right.
    """
    key = api_key or os.environ.get(KEY)

    if not key:
        raise AuthenticationError(f"there is no key. {REMEDY}", provider=OpenAIProvider.kind, model=model)

    return OpenAIProvider(openai_client(api_key=key, base_url=base_url), model=model, **options)


plugin = ProviderPlugin(
    kind=OpenAIProvider.kind,
    create=create,
    keys=(KEY,),
    remedy=REMEDY,
    rules=rules_for(OPENAI),
)
fireworks_plugin = ProviderPlugin(
    kind="fireworks",
    create=lambda model, **options: fireworks(model=model, **options),
    keys=(FIREWORKS_KEY,),
    remedy=FIREWORKS.remedy,
    rules=rules_for(FIREWORKS),
)
cloudflare_plugin = ProviderPlugin(
    kind="cloudflare",
    create=lambda model, **options: cloudflare(model=model, **options),
    keys=(CLOUDFLARE_KEY,),
    remedy=CLOUDFLARE.remedy,
    rules=rules_for(CLOUDFLARE),
)
ollama_plugin = ProviderPlugin(
    kind="ollama",
    create=lambda model, **options: ollama(model=model, **options),
    remedy=OLLAMA.remedy,
    rules=rules_for(OLLAMA),
)
azure_plugin = ProviderPlugin(
    kind="azure",
    create=lambda model, **options: azure(model=model, **options),
    keys=(AZURE_KEY,),
    remedy=AZURE.remedy,
    rules=rules_for(AZURE),
)
