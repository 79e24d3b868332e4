"""The public API: complete `__all__`s, and a snapshot that shows every change of a signature in review.

After an intended change: `UPDATE_PUBLIC_API=1 uv run pytest tests/meta/test_public_api.py`
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import inspect
import os
import pkgutil
import re
import types
from pathlib import Path

import pytest
from meta.repository import ROOT, place, plugins
from pydantic import BaseModel

SNAPSHOT = Path(__file__).with_name("public_api.txt")


def packages():
    """Every package of the distributions, the outermost first, but the command line: its names are its commands."""
    roots = ["simulacra", *plugins()]
    inner = [
        info.name
        for root in roots
        for info in pkgutil.walk_packages(importlib.import_module(root).__path__, f"{root}.")
        if info.ispkg and not info.name.startswith("simulacra.cli")
    ]

    return roots + inner


@pytest.mark.parametrize("package", packages())
def test_all_is_sorted_and_complete(package):
    module = importlib.import_module(package)
    names = list(module.__all__)
    # Names that are loaded when asked for (PEP 562) stand in `__all__` and `__dir__` only.
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isroutine(value))
        and value.__module__.startswith(package)
    }
    assert names == sorted(set(names), key=lambda name: (not name.isupper(), not name[0].isupper(), name))
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

    if isinstance(value, types.GenericAlias):
        return [f"{full} = {value}"]

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
    """How a value is called. What is declared counts: pydantic makes the signatures of its classes on first use."""
    if dataclasses.is_dataclass(value):
        return f"({', '.join(map(field, dataclasses.fields(value)))})"

    if inspect.isclass(value) and issubclass(value, BaseModel):
        declared = inspect.get_annotations(value)
        return f"({', '.join(f'{name}: {kind}' for name, kind in declared.items() if not name.startswith('_'))})"

    try:
        return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(value)))
    except (ValueError, TypeError):
        return "(...)"


def field(declared):
    """A field of a dataclass: its annotation as it is written, and whether it may be left out."""
    factory = declared.default_factory is not dataclasses.MISSING
    default = f" = {declared.default!r}" if declared.default is not dataclasses.MISSING else " = ..." if factory else ""

    return f"{declared.name}: {declared.type}{re.sub(r' at 0x[0-9a-f]+', '', default)}"


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
