"""What a vendor's API accepts, as a table of named rules with three uses: lint, repair, and an emulator that refuses."""

from simulacra.rules.linting import lint, repair
from simulacra.rules.table import Found, Path, RememberingRepair, Repaired, Rule, RuleTable, Violation, Wire

__all__ = ["Found", "Path", "RememberingRepair", "Repaired", "Rule", "RuleTable", "Violation", "Wire", "lint", "repair"]
