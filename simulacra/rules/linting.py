"""The history linter: what a vendor would refuse in a history, and what would be sent in its place."""

from __future__ import annotations

from collections.abc import Sequence

from simulacra.errors import ConfigurationError
from simulacra.messages import Message
from simulacra.provider import ModelRequest, ProviderProfile
from simulacra.rules.table import Repaired, RuleTable, Violation
from simulacra.schema import ToolDefinition


def lint(
    messages: Sequence[Message], profile: ProviderProfile, *, tools: Sequence[ToolDefinition] = ()
) -> tuple[Violation, ...]:
    """What a vendor would refuse if a history went out as it stands.

    Args:
        messages: The history; it is not changed.
        profile: The vendor's profile, such as `provider.profile`.
        tools: Tools that go out with it.

    Raises:
        ConfigurationError: The profile carries no rules.
    """
    table = _table_of(profile)

    return table.check(table.draft(ModelRequest(messages=tuple(messages), tools=tuple(tools))))


def repair(messages: Sequence[Message], profile: ProviderProfile, *, tools: Sequence[ToolDefinition] = ()) -> Repaired:
    """The request that a history makes once everything that can be put right is.

    Args:
        messages: The history; it is not changed.
        profile: The vendor's profile, such as `provider.profile`.
        tools: Tools that go out with it.

    Returns:
        The request, what was put right, and what only the user can put right.

    Raises:
        ConfigurationError: The profile carries no rules.
    """
    table = _table_of(profile)

    return table.repair_with_receipt(table.draft(ModelRequest(messages=tuple(messages), tools=tuple(tools))))


def _table_of(profile: ProviderProfile) -> RuleTable:
    if profile.rules is None:
        raise ConfigurationError("this profile has no rules. Those of anthropic, openai, google and local have")

    return profile.rules
