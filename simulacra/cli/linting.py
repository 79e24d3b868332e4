"""`simulacra lint`: what a vendor would refuse in a history, and what would be sent in its place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from simulacra import registry
from simulacra.errors import ConfigurationError
from simulacra.messages import Message
from simulacra.provider import ProviderProfile
from simulacra.rules import Violation, lint, repair


def lint_history(messages: Sequence[Message], vendor: str) -> tuple[Violation, ...]:
    """What breaks the rules of a vendor.

    Raises:
        ConfigurationError: The vendor is not installed, or states no rules.
    """
    return lint(messages, _profile_of(vendor))


def repaired_lines(messages: Sequence[Message], vendor: str) -> Iterator[str]:
    """The request as it would go out, as JSON text; raises as `lint_history`."""
    yield json.dumps(repair(messages, _profile_of(vendor)).request, ensure_ascii=False, indent=2)


def summary(violations: Sequence[Violation], vendor: str) -> str:
    """How it stands, in a line."""
    if not violations:
        return f"nothing that {vendor} would refuse"

    left = sum(not violation.is_repairable for violation in violations)
    rest = f"; {left} of them only you can mend" if left else "; what is amiss is put right on the way out"

    count = "1 violation" if len(violations) == 1 else f"{len(violations)} violations"

    return f"{count} of {vendor}'s rules{rest}"


def _profile_of(vendor: str) -> ProviderProfile:
    rules = registry.plugin(vendor).rules

    if rules is None:
        raise ConfigurationError(f"provider {vendor!r} states no rules")

    return ProviderProfile(rules=rules)
