"""What differs between services that speak chat completions, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulacra_openai.provider import OpenAIProvider

NO_KEY = "no-key"
"""What is sent as the key to a service that asks for none; the SDK insists on having one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One kind of service.

    Args:
        limit_field: What the service calls the most tokens a reply may have.
        strict_flag: Whether a tool carries `strict`.
        system_role: Role of the system prompt; `None` decides by the model's name.
        thinking_fields: Fields of a delta that carry reasoning; the first that says something counts.
        replayed_thinking: The field in which the model's own reasoning goes back, if the service wants it back.
        media_types: Media types a prompt may hold; `None` when unknown.
    """

    limit_field: str = "max_completion_tokens"
    strict_flag: bool = True
    system_role: str | None = None
    thinking_fields: tuple[str, ...] = ("reasoning_content", "reasoning")
    replayed_thinking: str | None = None
    media_types: frozenset[str] | None = None


OPENAI = Preset(
    media_types=frozenset(
        {
            "image/png",
            "image/jpeg",
            "image/gif",
            "image/webp",
            "audio/wav",
            "audio/mpeg",
            "application/pdf",
        }
    )
)
COMPATIBLE = Preset(limit_field="max_tokens", strict_flag=False, system_role="system")


def openai_compatible(
    base_url: str, *, model: str, api_key: str | None = None, preset: Preset = COMPATIBLE, **options: Any
) -> OpenAIProvider:
    """A provider for any server that speaks chat completions.

    Args:
        base_url: Where the service is, the version included: `http://127.0.0.1:8080/v1`.
        model: The model's name there.
        api_key: The service's key. The environment is not asked: it holds the key of another service.
        preset: How the service differs from OpenAI.
        options: Further keyword options of `OpenAIProvider`.

    Raises:
        ConfigurationError: An option cannot be right.
    """
    from openai import AsyncOpenAI  # noqa: PLC0415 -- the SDK is imported when a provider is built, not before

    from simulacra_openai.provider import OpenAIProvider  # noqa: PLC0415 -- it is built of this module's presets

    client = AsyncOpenAI(base_url=base_url, api_key=api_key or NO_KEY, max_retries=0)

    return OpenAIProvider(client, model=model, preset=preset, **options)
