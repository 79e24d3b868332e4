"""OpenAI and OpenAI-compatible services for Simulacra.

Importing this package imports neither the SDK nor an HTTP client; they come with the first provider.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from simulacra.errors import AuthenticationError
from simulacra.provider import ProviderPlugin
from simulacra_openai.presets import COMPATIBLE, OPENAI, Preset, openai_compatible
from simulacra_openai.provider import OpenAIProvider

if TYPE_CHECKING:
    from simulacra.provider import ModelProvider

KEY = "OPENAI_API_KEY"

__all__ = ["COMPATIBLE", "OPENAI", "OpenAIProvider", "Preset", "openai_compatible", "plugin"]


def _create(model: str, *, api_key: str | None = None, base_url: str | None = None, **options: Any) -> ModelProvider:
    from openai import AsyncOpenAI  # noqa: PLC0415 -- the SDK is imported when a provider is built, not before

    key = api_key or os.environ.get(KEY)

    if not key:
        raise AuthenticationError(f"no key for OpenAI. {plugin.remedy}", provider=OpenAIProvider.kind, model=model)

    return OpenAIProvider(AsyncOpenAI(api_key=key, base_url=base_url, max_retries=0), model=model, **options)


plugin = ProviderPlugin(
    kind="openai",
    create=_create,
    keys=(KEY,),
    remedy=f"Get a key at https://platform.openai.com/api-keys, then: export {KEY}=sk-...",
)
