"""A model request as the parameters of a chat completion. Pure.

It is drafted, put right by the rules of its service, and refused where only the user can put it right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simulacra.errors import ConfigurationError
from simulacra.messages import MediaContent, Message
from simulacra.provider import ModelRequest, ProviderProfile
from simulacra.wire import check_extra as check_fields
from simulacra_openai.drafting import Settings, draft_request
from simulacra_openai.media import media_part
from simulacra_openai.rules import Refusals, rules_for

_ENGINE_FIELDS = frozenset(
    {
        "model",
        "messages",
        "system",
        "stream",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "tools",
        "tool_choice",
        "functions",
        "function_call",
    }
)


def encode_request(request: ModelRequest, settings: Settings, refusals: Refusals | None = None) -> dict[str, Any]:
    """The parameters of the request, SDK options included.

    Args:
        request: What to send.
        settings: What the provider adds to it.
        refusals: The rules it has to keep, and what is known to keep them; those of the service when not given.

    Raises:
        ConfigurationError: An option, a tool or the prompt's media cannot be sent as it stands.
    """
    check_extra(request.options.extra)
    _check_prompt(request.messages, settings)
    refusals = refusals or Refusals(rules_for(settings.preset, _profile(settings)))
    params = refusals.table.repair(draft_request(request, settings))

    refusals.check(params, request.tools)

    return params


def check_extra(extra: Mapping[str, Any]) -> None:
    """Refuse extras that cannot be right (RX-10).

    Raises:
        ConfigurationError: A field that the engine sets, several choices, or an SDK option of a wrong kind.
    """
    check_fields(extra, taken=_ENGINE_FIELDS)

    for fields in (extra, extra.get("extra_body") or {}):
        if fields.get("n", 1) != 1:
            raise ConfigurationError("option 'n' must be 1: a reply is one message. Ask several conversations instead")


def _profile(settings: Settings) -> ProviderProfile:
    return ProviderProfile(raw_kinds=settings.raw_kinds, media_types=settings.media_types)


def _check_prompt(messages: Sequence[Message], settings: Settings) -> None:
    for block in messages[-1].content if messages else ():
        if isinstance(block, MediaContent) and isinstance(reason := media_part(block, settings.media_types), str):
            raise ConfigurationError(
                f"the prompt's {block.kind} cannot be sent to {settings.preset.kind}: {reason}. Convert it first, or ask"
                " a model that takes it"
            )
