"""A model request as the parameters of Gemini's `generateContent`. Pure.

It is drafted, put right by the rules of the API, and refused where only the user can put it right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from simulacra.errors import ConfigurationError
from simulacra.messages import MediaContent, Message
from simulacra.provider import ModelRequest
from simulacra.rules import RuleTable
from simulacra.wire import check_extra as check_fields
from simulacra_google.drafting import Settings, draft_request, wire_fields
from simulacra_google.media import media_part
from simulacra_google.rules import RULES

_ENGINE_FIELDS = frozenset({"model", "contents", "systemInstruction", "tools", "toolConfig", "messages", "system"})
_ABOUT_CONTENTS = frozenset({"contents-given", "roles-known", "inline-data-small-enough"})
"""What the engine writes keeps these, or the service had better judge."""
_REFUSALS = replace(
    RULES, rules=tuple(rule for rule in RULES.rules if rule.repair is None and rule.name not in _ABOUT_CONTENTS)
)


def encode_request(request: ModelRequest, settings: Settings, table: RuleTable = RULES) -> dict[str, Any]:
    """The parameters of the request, `model` and SDK options included.

    Args:
        request: What to send.
        settings: What the provider adds to it.
        table: The rules by which it is put right: the provider's own, which know its earlier requests.

    Raises:
        ConfigurationError: An option, a tool or the prompt's media cannot be sent as it stands.
    """
    check_extra(request.options.extra)
    _check_prompt(request.messages)
    params = table.repair(draft_request(request, settings))

    for violation in _REFUSALS.check(params):
        raise ConfigurationError(f"google would refuse this request: {violation}")

    return params


def check_extra(extra: Mapping[str, Any]) -> None:
    """Refuse extras that cannot be right (RX-10).

    Raises:
        ConfigurationError: A field that the engine sets, or an option of a wrong kind.
    """
    fields = wire_fields(extra)
    check_fields(fields, taken=_ENGINE_FIELDS)

    if not isinstance(fields.get("generationConfig") or {}, Mapping):
        raise ConfigurationError(f"option 'generationConfig' must be a mapping, not {fields['generationConfig']!r}")


def _check_prompt(messages: Sequence[Message]) -> None:
    for block in messages[-1].content if messages and messages[-1].role == "user" else ():
        if isinstance(block, MediaContent) and isinstance(reason := media_part(block), str):
            raise ConfigurationError(f"the prompt's {block.kind} cannot be sent to google: {reason}")
