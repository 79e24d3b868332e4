"""Each rule, fault and case listed in `rule_ids.txt` has a test named after it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from meta.repository import functions, python_files

IDS = Path(__file__).with_name("rule_ids.txt")
ID = re.compile(r"(W-)?[A-Z]+-R?\d+")


def listed():
    """Every id with the reason why it needs no test yet, or an empty text."""
    lines = [line for line in IDS.read_text("utf-8").splitlines() if line and not line.startswith("#")]

    return [(name.strip(), reason.strip()) for name, _, reason in (line.partition(":") for line in lines)]


@cache
def test_names():
    return tuple(function.name for path in python_files("tests", "providers") for function in functions(path))


test_names.__test__ = False


def test_the_list_of_ids_is_well_formed():
    names = [name for name, _ in listed()]
    assert len(set(names)) == len(names) > 300
    assert all(ID.fullmatch(name) for name in names)


@pytest.mark.parametrize("name", [name for name, reason in listed() if not reason])
def test_there_is_a_test_named_after(name):
    stem = "test_" + name.lower().replace("-", "_")
    assert [found for found in test_names() if found == stem or found.startswith(f"{stem}_")], (
        f"no test named {stem}_..."
    )


def test_every_exemption_says_which_later_work_it_waits_for():
    assert all(reason.startswith("later issue: ") for _, reason in listed() if reason)
