"""What the registry loads for `"google:model"`."""

from __future__ import annotations

import os
from typing import Any

from simulacra.errors import AuthenticationError
from simulacra.provider import ProviderPlugin
from simulacra_google.provider import GoogleProvider
from simulacra_google.rules import RULES

KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
REMEDY = f"Get a key at https://aistudio.google.com/apikey, then: export {KEYS[1]}=AIza..."


def create(model: str, *, api_key: str | None = None, base_url: str | None = None, **options: Any) -> GoogleProvider:
    """A provider whose client is built from the environment, for Vertex where `GOOGLE_GENAI_USE_VERTEXAI` says so.

    Args:
        model: The model's name.
        api_key: In place of the environment's.
        base_url: In place of Google's own.
        options: Keyword options of `GoogleProvider`.

    Raises:
        AuthenticationError: There is no key.
        ConfigurationError: An option cannot be right.
    """
    from google import genai  # noqa: PLC0415 -- the SDK is imported when a provider is built, not before

    from simulacra_google.http_clients import AsyncClientPerLoop  # noqa: PLC0415 -- it imports an HTTP client

    is_vertex = os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in ("1", "true")

    if not api_key and not is_vertex and not any(os.environ.get(name) for name in KEYS):
        raise AuthenticationError(f"there is no key. {REMEDY}", provider=GoogleProvider.kind, model=model)

    http_options = genai.types.HttpOptions(base_url=base_url, httpx_async_client=AsyncClientPerLoop())
    client = genai.Client(api_key=api_key, http_options=http_options)

    return GoogleProvider(client, model=model, **options)


plugin = ProviderPlugin(kind=GoogleProvider.kind, create=create, keys=KEYS, remedy=REMEDY, rules=RULES)
