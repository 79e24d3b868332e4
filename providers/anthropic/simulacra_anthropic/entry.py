"""What the registry loads for `"anthropic:model"`."""

from __future__ import annotations

import os
from typing import Any

from simulacra.errors import AuthenticationError
from simulacra.provider import ProviderPlugin
from simulacra_anthropic.provider import AnthropicProvider
from simulacra_anthropic.rules import RULES

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
REMEDY = f"Get a key at https://platform.claude.com/settings/keys, then: export {KEYS[0]}=sk-ant-..."


def create(model: str, *, api_key: str | None = None, base_url: str | None = None, **options: Any) -> AnthropicProvider:
    """A provider whose client is built from the environment, or from the SDK's own profile.

    Args:
        model: The model's name.
        api_key: In place of the environment's.
        base_url: In place of the environment's `ANTHROPIC_BASE_URL`, or Anthropic's own.
        options: Keyword options of `AnthropicProvider`.

    Raises:
        AuthenticationError: There is no key.
        ConfigurationError: An option cannot be right.
    """
    from anthropic import AsyncAnthropic  # noqa: PLC0415 -- the SDK is imported when a provider is built, not before

    from simulacra_anthropic.http_clients import AsyncClientPerLoop  # noqa: PLC0415 -- as above

    if not api_key and not any(os.environ.get(name) for name in KEYS):
        raise AuthenticationError(f"there is no key. {REMEDY}", provider=AnthropicProvider.kind, model=model)

    client = AsyncAnthropic(api_key=api_key, base_url=base_url, max_retries=0, http_client=AsyncClientPerLoop())

    return AnthropicProvider(client, model=model, **options)


plugin = ProviderPlugin(kind=AnthropicProvider.kind, create=create, keys=KEYS, remedy=REMEDY, rules=RULES)
