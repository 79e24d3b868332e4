"""Clients of OpenAI's SDK that this package makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openai import AsyncAzureOpenAI, AsyncOpenAI


def openai_client(**options: Any) -> AsyncOpenAI:
    """A client for any event loop, its own retries off.

    Args:
        options: Of the SDK's class.
    """
    from openai import AsyncOpenAI  # noqa: PLC0415 -- the SDK is imported when a client is built, not before

    from simulacra_openai.http_clients import AsyncClientPerLoop  # noqa: PLC0415 -- as above

    return AsyncOpenAI(max_retries=0, http_client=AsyncClientPerLoop(), **options)


def azure_client(**options: Any) -> AsyncAzureOpenAI:
    """`openai_client` for Azure."""
    from openai import AsyncAzureOpenAI  # noqa: PLC0415 -- the SDK is imported when a client is built, not before

    from simulacra_openai.http_clients import AsyncClientPerLoop  # noqa: PLC0415 -- as above

    return AsyncAzureOpenAI(max_retries=0, http_client=AsyncClientPerLoop(), **options)
