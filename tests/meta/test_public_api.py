"""The public API: complete `__all__`s, and a snapshot that shows every change of a signature in review.

After an intended change: `UPDATE_PUBLIC_API=1 uv run pytest tests/meta/test_public_api.py`
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import pkgutil
from pathlib import Path

import pytest
import simulacra_anthropic
import simulacra_local
import simulacra_openai
from meta.repository import ROOT, place

import simulacra

SNAPSHOT = Path(__file__).with_name("public_api.txt")
ROOTS = (simulacra, simulacra_anthropic, simulacra_openai, simulacra_local)


def packages():
    """Every package of the distributions, the outermost first, but the command line: its names are its commands."""
    found = [root.__name__ for root in ROOTS]

    for root in ROOTS:
        found += [info.name for info in pkgutil.walk_packages(root.__path__, f"{root.__name__}.") if info.ispkg]

    return [name for name in found if not name.startswith("simulacra.cli")]


@pytest.mark.parametrize("package", packages())
def test_all_is_sorted_and_complete(package):
    module = importlib.import_module(package)
    names = list(module.__all__)
    # Names that are loaded when asked for (PEP 562) stand in `__all__` and `__dir__` only.
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name not in ("annotations", "TYPE_CHECKING")
    }
    assert names == sorted(set(names))
    assert public <= set(names)
    assert all(hasattr(module, name) for name in names)


def described():
    """One line a name: `package.name` with its signature, or the shorter name it is the same as."""
    lines, known = [], {}

    for package in packages():
        module = importlib.import_module(package)

        for name in module.__all__:
            value, full = getattr(module, name), f"{package}.{name}"
            named = inspect.isclass(value) or inspect.isroutine(value)

            if named and id(value) in known:
                lines.append(f"{full} = {known[id(value)]}")
                continue

            known[id(value)] = full
            lines += describe(full, value)

    return lines


def describe(full, value):
    if inspect.isclass(value):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)

        return [f"class {full}{signature(value)}" + (f" <- {bases}" if bases else ""), *members(full, value)]

    return [f"{full}{signature(value)}"] if callable(value) else [f"{full}: {type(value).__name__}"]


def members(full, owner):
    """The public methods and properties that a class defines itself."""
    for name, value in sorted(vars(owner).items()):
        if name.startswith("_") or not vars(owner).get("__module__", "").startswith("simulacra"):
            continue

        if isinstance(value, property):
            yield f"  {full}.{name}: property"
        elif isinstance(value, staticmethod | classmethod) or inspect.isfunction(value):
            yield f"  {full}.{name}{signature(getattr(owner, name))}"


def signature(value):
    try:
        return str(inspect.signature(value))
    except (ValueError, TypeError):
        return "(...)"


def test_the_public_api_is_what_the_snapshot_says():
    now = described()

    if os.environ.get("UPDATE_PUBLIC_API"):
        SNAPSHOT.write_text("\n".join(now) + "\n", "utf-8")

    before = SNAPSHOT.read_text("utf-8").splitlines()
    changes = "\n".join(difflib.unified_diff(before, now, place(SNAPSHOT), "now", lineterm="", n=0))
    assert not changes, f"{changes}\n\n{__doc__}"


def test_the_snapshot_names_no_place_in_memory():
    """An object without a readable `repr` as a default would change the snapshot with every run."""
    assert " at 0x" not in SNAPSHOT.read_text("utf-8")
    assert str(ROOT) not in SNAPSHOT.read_text("utf-8")
