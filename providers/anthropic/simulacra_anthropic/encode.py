"""A model request as the parameters of a message. Pure.

It is drafted, put right by the rules of the API, marked for caching, and refused where only the user can put it right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from simulacra.errors import ConfigurationError
from simulacra.provider import ModelRequest
from simulacra.rules import RuleTable
from simulacra.wire import check_extra as check_fields
from simulacra_anthropic.caching import with_breakpoints
from simulacra_anthropic.drafting import Settings, draft_request
from simulacra_anthropic.field_mending import with_few_marks
from simulacra_anthropic.field_rules import marks_in
from simulacra_anthropic.history import check_prompt
from simulacra_anthropic.repairs import Turn, blocks_of
from simulacra_anthropic.rules import RULES

_ENGINE_FIELDS = frozenset({"model", "messages", "system", "stream", "max_tokens", "tools", "tool_choice", "thinking"})
_COUNTED = frozenset(
    {
        "model",
        "messages",
        "system",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
        "cache_control",
        "context_management",
        "mcp_servers",
        "speed",
        "extra_headers",
        "extra_query",
        "timeout",
    }
)
"""What of a request the API's count of tokens takes."""


_ABOUT_MESSAGES = frozenset({"messages-given", "roles-known", "request-small-enough"})
"""What the engine writes keeps these, or the service had better judge: looking costs as much as writing."""
_ABOUT_MARKS = frozenset({"cache-marks-are-ephemeral", "longer-cache-first"})
"""Marks that are all the engine's own keep these."""
_REFUSALS = replace(
    RULES, rules=tuple(rule for rule in RULES.rules if rule.repair is None and rule.name not in _ABOUT_MESSAGES)
)
_OTHER_REFUSALS = replace(_REFUSALS, rules=tuple(rule for rule in _REFUSALS.rules if rule.name not in _ABOUT_MARKS))


def encode_request(request: ModelRequest, settings: Settings, table: RuleTable = RULES) -> dict[str, Any]:
    """The parameters of the request, SDK options included.

    Args:
        request: What to send.
        settings: What the provider adds to it.
        table: The rules by which it is put right: the provider's own, which know its earlier requests.

    Raises:
        ConfigurationError: An option, a tool or the prompt's media cannot be sent as it stands.
    """
    check_extra(request.options.extra)
    check_prompt(request.messages)
    repaired = table.repair(draft_request(request, settings))
    marked = with_breakpoints(repaired, settings.caching)
    marks = list(marks_in(marked))
    params = with_few_marks(marked, marks)
    own_mark = settings.caching.mark
    refusals = _OTHER_REFUSALS if all(mark == own_mark for _, mark in marks) else _REFUSALS

    for violation in refusals.check(params):
        raise ConfigurationError(f"anthropic would refuse this request: {violation}")

    return params


def count_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a count of tokens, from those of the request that is counted."""
    return {key: value for key, value in params.items() if key in _COUNTED}


def continued_params(params: Mapping[str, Any], said: Sequence[Mapping[str, Any]], container: Any) -> dict[str, Any]:
    """The parameters that let a paused reply go on: what was said so far goes back unchanged, as the last turn.

    Args:
        params: The parameters of the first request.
        said: The blocks of the reply so far.
        container: Where the service ran code for it, if it did.
    """
    turns: list[Turn] = list(params["messages"])
    content = [block for block in said if block["type"] != "text" or block["text"].strip()]

    if turns and turns[-1]["role"] == "assistant":
        content = [*blocks_of(turns.pop()), *content]

    kept = {"container": container["id"]} if container and "container" not in params else {}

    return {**params, **kept, "messages": [*turns, {"role": "assistant", "content": content}]}


def check_extra(extra: Mapping[str, Any]) -> None:
    """Refuse extras that cannot be right (RX-10).

    Raises:
        ConfigurationError: A field that the engine sets, or an option of a wrong kind.
    """
    check_fields(extra, taken=_ENGINE_FIELDS)
    betas = extra.get("betas", ())

    if isinstance(betas, str) or not all(isinstance(name, str) for name in betas):
        raise ConfigurationError(f"option 'betas' must be a list of names, not {betas!r}")
