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

_NOT_LOOKED_AT = frozenset({"messages", "stream", "stream_options", "extra_headers", "extra_query", "timeout"})
"""Parameters that no rule looks at which only the user can keep; messages aside, which `json-mode-says-json` asks for."""
_MOST_REMEMBERED = 16
"""How many good sets of fields are remembered."""
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
    mend_fields = field_mender(preset)

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
    """What only the user can put right in the requests of one service; fields and tools that were good stay so.

    Args:
        table: The rules of the service.
    """

    def __init__(self, table: RuleTable) -> None:
        self.table = table
        rules = [rule for rule in table.rules if rule.repair is None and rule.name not in _ABOUT_MESSAGES]
        self._rules = replace(table, rules=tuple(rules))
        self._good: list[dict[str, Any]] = []

    def check(self, params: Wire, tools: tuple[ToolDefinition, ...]) -> None:
        """Raise what is found.

        Args:
            params: The repaired parameters, SDK options included.
            tools: The definitions of its tools.

        Raises:
            ConfigurationError: A rule is broken; it says which, where, and what to do.
        """
        fields = {name: value for name, value in params.items() if name not in _NOT_LOOKED_AT}
        fields["tools"] = tools  # compared by identity first: quicker than their wire form

        if fields in self._good:
            return

        for violation in self._rules.check(params):
            raise ConfigurationError(f"{self._rules.vendor} would refuse this request: {violation}")

        if "response_format" not in fields:
            self._good = [*self._good[-_MOST_REMEMBERED:], fields]
