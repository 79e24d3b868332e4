"""What the registry loads for `"openai_responses:model"`."""

from __future__ import annotations

import os
from typing import Any

from simulacra.errors import AuthenticationError
from simulacra.provider import ProviderPlugin
from simulacra_openai.entry import KEY, REMEDY
from simulacra_openai.responses.provider import OpenAIResponsesProvider
from simulacra_openai.responses.rules import RULES
from simulacra_openai.sdk_clients import openai_client


def create(
    model: str, *, api_key: str | None = None, base_url: str | None = None, **options: Any
) -> OpenAIResponsesProvider:
    """A provider whose client is built from the environment.

    Args:
        model: The model's name.
        api_key: In place of the environment's.
        base_url: In place of the environment's `OPENAI_BASE_URL`, or OpenAI's own.
        options: Keyword options of `OpenAIResponsesProvider`.

    Raises:
        AuthenticationError: There is no key.
        ConfigurationError: An option cannot be right.
    """
    key = api_key or os.environ.get(KEY)

    if not key:
        raise AuthenticationError(f"there is no key. {REMEDY}", provider=OpenAIResponsesProvider.kind, model=model)

    return OpenAIResponsesProvider(openai_client(api_key=key, base_url=base_url), model=model, **options)


plugin = ProviderPlugin(kind=OpenAIResponsesProvider.kind, create=create, keys=(KEY,), remedy=REMEDY, rules=RULES)
