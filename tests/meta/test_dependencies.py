"""Every distribution declares what it imports: a plain install of the core has to work without the plugins' packages."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest
from meta.repository import ROOT, place, python_files

PROVIDED_BY = packages_distributions()
COMES_WITH = {"pydantic": "pydantic-core"}  # a part of it, pinned to the very version
# Loaded only where that loop, or that extra, is in use.
OPTIONAL = {"simulacra": {"trio", "starlette", "uvicorn", "pytest"}}


def distributions():
    """Import name, project file and folder of everything that is built here."""
    yield "simulacra", ROOT / "pyproject.toml", "simulacra"

    for project in sorted((ROOT / "providers").glob("*/pyproject.toml")):
        yield f"simulacra_{project.parent.name}", project, f"providers/{project.parent.name}"


def declared(name):
    """Normalised names of a distribution and what it depends on, through our own distributions too."""
    project = next(project for found, project, _ in distributions() if found == name)
    table = tomllib.loads(project.read_text("utf-8"))["project"]
    names = {normalised(re.split(r"[\s\[<>=!~;]", text)[0]) for text in table.get("dependencies", [])}
    names |= {COMES_WITH[name] for name in names & set(COMES_WITH)}
    ours = {normalised(found): found for found, _, _ in distributions()}

    return {normalised(name)} | names | {deep for one in names & set(ours) for deep in declared(ours[one])}


def normalised(name):
    return name.lower().replace("_", "-")


def imported(folder):
    """Every top-level module that is imported anywhere in a folder, with one place that does."""
    found = {}

    for path in python_files(folder):
        tree = ast.parse(path.read_text("utf-8"))
        for_types = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }

        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in for_types:
                modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]

                for module in modules:
                    found.setdefault(module.partition(".")[0], place(path, node.lineno))

    return {module: where for module, where in found.items() if module not in sys.stdlib_module_names}


@pytest.mark.parametrize(("name", "folder"), [(name, folder) for name, _, folder in distributions()])
def test_every_import_is_declared(name, folder):
    allowed = declared(name)
    missing = {
        module: where
        for module, where in imported(folder).items()
        if module != name
        and module not in OPTIONAL.get(name, ())
        and not {normalised(provider) for provider in PROVIDED_BY.get(module, [module])} & allowed
    }
    assert not missing
