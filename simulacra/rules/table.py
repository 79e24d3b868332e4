"""Rules about a request in the vendor's own form, and the table that checks and repairs with them.

A rule looks at the request as it goes over the wire, so that one rule serves the provider that builds it and the
emulator that receives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias

from simulacra.provider import ModelRequest

Wire: TypeAlias = dict[str, Any]
"""A request's parameters: `messages`, `tools`, `system`, ... under the vendor's names."""
Path: TypeAlias = tuple[str | int, ...]
"""Where in a request: keys and indexes from the outside in."""

MAX_ROUNDS = 8
"""How often the repairs of a table are gone through before it is given up that they come to rest."""


class RememberingRepair(Protocol):
    """A repair that remembers earlier requests, so that it looks only at what is new of the next one."""

    def __call__(self, wire: Wire) -> Wire:
        """As `Rule.repair`: what is remembered decides how long it takes, never what comes out."""
        ...

    def renewed(self) -> RememberingRepair:
        """The same repair with nothing remembered yet."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """A place that breaks a rule.

    Args:
        path: Keys and indexes from the request's root.
        detail: What stands there, when the place alone does not say it.
    """

    path: Path
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that the vendor's API demands.

    Args:
        name: Its name, in words joined by hyphens.
        demand: What the API demands, as a sentence without its full stop.
        fix: What `repair` does about it, or what the user has to do.
        find: The places that break it. It reads any JSON that is called a request, and never raises.
        repair: A request that keeps it: the very same object when nothing had to be done, else a new one that shares
            what was left alone. `None` where only the user can know. Rules may share one.
        status: HTTP status of the vendor's refusal.
        code: The vendor's code of the refusal, where it has one.
    """

    name: str
    demand: str
    fix: str
    find: Callable[[Wire], Iterable[Found]]
    repair: Callable[[Wire], Wire] | None = None
    status: int = 400
    code: str | None = None

    def repaired_by(self, repair: Callable[[Wire], Wire]) -> Rule:
        """This rule with another repair; made by hand, since each new provider makes dozens."""
        return Rule(
            name=self.name,
            demand=self.demand,
            fix=self.fix,
            find=self.find,
            repair=repair,
            status=self.status,
            code=self.code,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A rule that a request breaks, and where.

    Args:
        rule: The rule's name.
        path: The place, as in `messages[3].content[0].id`.
        reason: What the API demands, and what stands there.
        fix: What `repair` does about it, or what the user has to do.
        is_repairable: Whether `repair` can do it.
        status: HTTP status of the vendor's refusal.
        code: The vendor's code of the refusal, where it has one.
    """

    rule: str
    path: str
    reason: str
    fix: str
    is_repairable: bool
    status: int = 400
    code: str | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.reason} [{self.rule}]. {self.fix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """A repaired request, with the receipt.

    Args:
        request: The request as it would go out.
        receipt: What was put right, in the order it was done.
        left: What only the user can put right.
    """

    request: Wire
    receipt: tuple[Violation, ...]
    left: tuple[Violation, ...]


@dataclass(frozen=True, kw_only=True)
class RuleTable:
    """A vendor's rules.

    Args:
        vendor: The provider's kind.
        draft: A request in the vendor's form, one part for one part: nothing dropped, moved or renamed yet.
        rules: In the order of their repairs.
    """

    vendor: str
    draft: Callable[[ModelRequest], Wire]
    rules: tuple[Rule, ...]

    def check(self, wire: Wire) -> tuple[Violation, ...]:
        """What a request breaks, rule by rule."""
        return tuple(violation for rule in self.rules for violation in _violations(rule, wire))

    def repair(self, wire: Wire) -> Wire:
        """A request with every repair done; the same object when there was nothing to do.

        The repairs are gone through until none changes anything, since one may make work for another: a message that is
        left empty goes, and its neighbours become one.
        """
        for _ in range(MAX_ROUNDS):
            before = wire

            for mend in self._repairs:
                wire = mend(wire)

            if wire is before:
                break

        return wire

    def repair_with_receipt(self, wire: Wire) -> Repaired:
        """The same, with a receipt of what was done."""
        receipt: list[Violation] = []

        for _ in range(MAX_ROUNDS):
            before = wire

            for mend, rules in self._rules_by_repair.items():
                broken = [violation for rule in rules for violation in _violations(rule, wire)]
                mended = mend(wire)

                if mended is not wire:
                    receipt.extend(broken)
                    wire = mended

            if wire is before:
                break

        return Repaired(request=wire, receipt=tuple(receipt), left=self.check(wire))

    def renewed(self) -> RuleTable:
        """The same rules for another provider: repairs that remember earlier requests begin anew."""
        renewed = {mend: mend.renewed() for mend in self._repairs if hasattr(mend, "renewed")}
        rules = (rule.repaired_by(renewed[rule.repair]) if rule.repair in renewed else rule for rule in self.rules)

        return RuleTable(vendor=self.vendor, draft=self.draft, rules=tuple(rules))

    @cached_property
    def _rules_by_repair(self) -> dict[Callable[[Wire], Wire], list[Rule]]:
        grouped: dict[Callable[[Wire], Wire], list[Rule]] = {}

        for rule in self.rules:
            if rule.repair is not None:
                grouped.setdefault(rule.repair, []).append(rule)

        return grouped

    @cached_property
    def _repairs(self) -> tuple[Callable[[Wire], Wire], ...]:
        return tuple(self._rules_by_repair)


def path_text(path: Path) -> str:
    """A path as it is written in code: `messages[3].content[0].id`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)

    return text.removeprefix(".") or "request"


def _violations(rule: Rule, wire: Wire) -> Iterable[Violation]:
    for found in rule.find(wire):
        detail = f" ({found.detail})" if found.detail else ""

        yield Violation(
            rule=rule.name,
            path=path_text(found.path),
            reason=f"{rule.demand}{detail}",
            fix=rule.fix,
            is_repairable=rule.repair is not None,
            status=rule.status,
            code=rule.code,
        )
