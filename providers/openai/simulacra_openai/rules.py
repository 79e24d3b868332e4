"""What a service that speaks chat completions accepts, as one table built of its preset.

Each group of rules stands in a file of its own, repairs in `mending`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from simulacra.errors import ConfigurationError
from simulacra.provider import ProviderProfile
from simulacra.rules import RuleTable, Wire
from simulacra.schema import ToolDefinition
from simulacra_openai.call_rules import call_rules
from simulacra_openai.drafting import Settings, draft_request
from simulacra_openai.field_rules import field_rules
from simulacra_openai.mending import MessageMender, field_mender
from simulacra_openai.message_rules import message_rules
from simulacra_openai.part_rules import part_rules
from simulacra_openai.presets import Preset
from simulacra_openai.tool_rules import tool_rules

_USUAL = frozenset(
    {
        "model",
        "messages",
        "stream",
        "stream_options",
        "tools",
        "tool_choice",
        "extra_headers",
        "extra_query",
        "timeout",
    }
)
"""Parameters in which only tools can be such that the user has to put them right."""
_MOST_TOOLKITS = 256
"""How many toolkits are remembered as good."""
_ABOUT_MESSAGES = frozenset({"messages-present", "roles-known"})
"""Rules that what the engine writes keeps; an empty history is for the service to judge."""


def rules_for(preset: Preset, profile: ProviderProfile | None = None, *, vendor: str | None = None) -> RuleTable:
    """The rules of a service; the same table for the same arguments.

    Args:
        preset: How it differs from OpenAI.
        profile: What its model takes; what the preset says when not given.
        vendor: What the table is called; the preset's word when not given.
    """
    raw_kinds, media_types = preset.raw_kinds, preset.media_types

    if profile is not None:
        raw_kinds, media_types = profile.raw_kinds, profile.media_types

    return _rules_for(Settings(model="any", preset=preset, raw_kinds=raw_kinds, media_types=media_types), vendor)


@lru_cache(maxsize=64)
def _rules_for(settings: Settings, vendor: str | None) -> RuleTable:
    preset = settings.preset
    mend_messages = MessageMender(preset, settings.media_types)
    mend_fields = field_mender(preset.limit_field)

    return RuleTable(
        vendor=vendor or preset.kind,
        draft=partial(draft_request, settings=settings),
        rules=(
            *message_rules(preset, mend_messages),
            *part_rules(preset, settings.media_types, mend_messages),
            *call_rules(preset, mend_messages),
            *tool_rules(preset, mend_fields),
            *field_rules(preset, mend_fields),
        ),
    )


class Refusals:
    """What only the user can put right in the requests of one service; the same tools are looked at once.

    Args:
        table: The rules of the service.
    """

    def __init__(self, table: RuleTable) -> None:
        self.table = table
        rules = [rule for rule in table.rules if rule.repair is None and rule.name not in _ABOUT_MESSAGES]
        self._rules = replace(table, rules=tuple(rules))
        self._good: dict[tuple[int, ...], tuple[ToolDefinition, ...]] = {}

    def check(self, params: Wire, tools: tuple[ToolDefinition, ...]) -> None:
        """Raise what is found.

        Args:
            params: The repaired parameters, SDK options included.
            tools: The definitions of its tools.

        Raises:
            ConfigurationError: A rule is broken; it says which, where, and what to do.
        """
        key = tuple(map(id, tools))
        are_known = not tools or key in self._good

        if are_known and params.keys() <= _USUAL:
            return

        looked_at = {**params, "tools": [_named(tool) for tool in params["tools"]]} if tools and are_known else params

        for violation in self._rules.check(looked_at):
            raise ConfigurationError(f"{self._rules.vendor} would refuse this request: {violation}")

        if tools and not are_known:
            if len(self._good) >= _MOST_TOOLKITS:
                self._good.clear()

            self._good[key] = tools  # held, so that no other tool gets one of these ids


_MOST_TABLES = 64
_REFUSALS: dict[int, Refusals] = {}


def refusals_of(table: RuleTable) -> Refusals:
    """What only the user can put right by these rules; made once for each table."""
    known = _REFUSALS.get(id(table))

    if known is None or known.table is not table:
        if len(_REFUSALS) >= _MOST_TABLES:
            _REFUSALS.clear()

        known = _REFUSALS[id(table)] = Refusals(table)

    return known


def _named(tool: Any) -> Any:
    """A tool that is known to be good, reduced to what rules about other fields ask for."""
    kind = tool["type"]

    return {"type": kind, kind: {"name": tool[kind]["name"], "parameters": {"type": "object"}}}
