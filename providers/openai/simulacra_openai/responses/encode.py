"""A model request as the parameters of a response. Pure.

It is drafted, put right by the rules of the API, and refused where only the user can put it right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from simulacra.errors import ConfigurationError
from simulacra.messages import MediaContent, Message
from simulacra.provider import ModelRequest
from simulacra.wire import check_extra as check_fields
from simulacra_openai.responses.drafting import Settings, draft_request
from simulacra_openai.responses.media import input_part
from simulacra_openai.responses.rules import RULES

_ENGINE_FIELDS = frozenset(
    {"model", "input", "instructions", "stream", "max_output_tokens", "messages", "system", "tools", "tool_choice"}
)
_ABOUT_INPUT = frozenset({"input-given", "roles-known"})
"""Rules that what the engine writes keeps; an empty history is for the service to judge."""
_REFUSALS = replace(
    RULES, rules=tuple(rule for rule in RULES.rules if rule.repair is None and rule.name not in _ABOUT_INPUT)
)


def encode_request(request: ModelRequest, settings: Settings) -> dict[str, Any]:
    """The parameters of the request, SDK options included.

    Raises:
        ConfigurationError: An option, a tool or the prompt's media cannot be sent as it stands.
    """
    check_extra(request.options.extra)
    _check_prompt(request.messages)
    params = RULES.repair(draft_request(request, settings))

    for violation in _REFUSALS.check(params):
        raise ConfigurationError(f"{RULES.vendor} would refuse this request: {violation}")

    return params


def check_extra(extra: Mapping[str, Any]) -> None:
    """Refuse extras that cannot be right (RX-10).

    Raises:
        ConfigurationError: A field that the engine sets, or an SDK option of a wrong kind.
    """
    check_fields(extra, taken=_ENGINE_FIELDS)

    for name in ("reasoning", "text"):
        if not isinstance(extra.get(name) or {}, Mapping):
            raise ConfigurationError(f"option {name!r} must be a mapping, not {extra[name]!r}")

    if isinstance(extra.get("include"), str):
        raise ConfigurationError("option 'include' must be a list of names")


def _check_prompt(messages: Sequence[Message]) -> None:
    for block in messages[-1].content if messages else ():
        if isinstance(block, MediaContent) and isinstance(reason := input_part(block), str):
            raise ConfigurationError(f"the prompt's {block.kind} cannot be sent: {reason}")
