"""The machinery of rule tables: checking, repairing to rest, receipts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from simulacra.errors import ConfigurationError
from simulacra.messages import TextContent, UserMessage
from simulacra.provider import ModelRequest, ProviderProfile
from simulacra.rules import Found, Rule, RuleTable, Wire, lint, repair


def _blank(wire: Wire) -> Iterator[Found]:
    return (Found(("messages", at)) for at, text in enumerate(wire["messages"]) if not text)


def _without_blank(wire: Wire) -> Wire:
    kept = [text for text in wire["messages"] if text]

    return wire if len(kept) == len(wire["messages"]) else {**wire, "messages": kept}


def _twins(wire: Wire) -> Iterator[Found]:
    texts = wire["messages"]

    return (Found(("messages", at), texts[at]) for at in range(1, len(texts)) if texts[at] == texts[at - 1])


def _without_twins(wire: Wire) -> Wire:
    texts = wire["messages"]
    kept = [text for at, text in enumerate(texts) if at == 0 or texts[at - 1] != text]

    return wire if len(kept) == len(texts) else {**wire, "messages": kept}


def _draft(request: ModelRequest) -> Wire:
    blocks = [block for message in request.messages for block in message.content]

    return {"messages": [block.text for block in blocks if isinstance(block, TextContent)]}


NO_TWINS = Rule(name="no-twins", demand="texts differ", fix="The second goes", find=_twins, repair=_without_twins)
NO_BLANKS = Rule(name="no-blanks", demand="texts say something", fix="It goes", find=_blank, repair=_without_blank)
SHORT = Rule(
    name="short",
    demand="at most three texts",
    fix="Say less",
    find=lambda wire: [Found(("messages",))] if len(wire["messages"]) > 3 else [],
    status=413,
    code="too_long",
)
TABLE = RuleTable(vendor="toy", draft=_draft, rules=(NO_TWINS, NO_BLANKS, SHORT))
PROFILE = ProviderProfile(rules=TABLE)


def _said(*texts: str) -> list[UserMessage]:
    return [UserMessage(content=(TextContent(text=text),)) for text in texts]


def test_a_request_that_keeps_every_rule_is_left_as_it_is() -> None:
    wire = {"messages": ["a", "b"]}

    assert TABLE.repair(wire) is wire
    assert TABLE.check(wire) == ()


def test_repairs_go_on_until_none_makes_work_for_another() -> None:
    wire = {"messages": ["a", "", "a"]}

    assert TABLE.repair(wire) == {"messages": ["a"]}
    assert wire == {"messages": ["a", "", "a"]}


def test_a_receipt_names_what_was_put_right_in_order_and_what_is_left() -> None:
    done = TABLE.repair_with_receipt({"messages": ["a", "", "a", "b", "c", "d"]})

    assert done.request == {"messages": ["a", "b", "c", "d"]}
    assert [(entry.rule, entry.path) for entry in done.receipt] == [
        ("no-blanks", "messages[1]"),
        ("no-twins", "messages[1]"),
    ]
    assert [(entry.rule, entry.status, entry.code) for entry in done.left] == [("short", 413, "too_long")]


def test_a_violation_says_where_what_and_how_to_go_on() -> None:
    [violation] = TABLE.check({"messages": ["a", "a"]})

    assert str(violation) == "messages[1]: texts differ (a) [no-twins]. The second goes"
    assert violation.is_repairable


def test_rules_that_share_a_repair_run_it_once_a_round() -> None:
    runs: list[Wire] = []

    def counted(wire: Wire) -> Wire:
        runs.append(wire)
        return wire

    twice = tuple(Rule(name=name, demand="", fix="", find=_blank, repair=counted) for name in ("one", "two"))
    RuleTable(vendor="toy", draft=_draft, rules=twice).repair({"messages": []})

    assert len(runs) == 1


def test_lint_and_repair_take_a_history() -> None:
    assert [violation.rule for violation in lint(_said("a", "a"), PROFILE)] == ["no-twins"]
    assert repair(_said("a", "a"), PROFILE).request == {"messages": ["a"]}


def test_a_profile_without_rules_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no rules"):
        lint(_said("a"), ProviderProfile())


class _Counting:
    """A repair that remembers how often it was asked."""

    def __init__(self):
        self.asked = 0

    def __call__(self, wire):
        self.asked += 1

        return wire

    def renewed(self):
        return _Counting()


def test_a_renewed_table_has_the_same_rules_and_remembers_nothing():
    remembering = Rule(name="a", demand="d", fix="f", find=_blank, repair=_Counting())
    table = RuleTable(vendor="toy", draft=_draft, rules=(remembering, NO_TWINS, SHORT))
    table.repair({"messages": []})
    renewed = table.renewed()

    assert [rule.name for rule in renewed.rules] == ["a", "no-twins", "short"]
    assert renewed.rules[1:] == table.rules[1:]
    assert (remembering.repair.asked, renewed.rules[0].repair.asked) == (1, 0)
