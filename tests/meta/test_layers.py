"""Imports go one way: the contracts of pyproject.toml, and the privacy of names that start with an underscore."""

from __future__ import annotations

import ast

import pytest
from importlinter.cli import lint_imports
from meta.repository import CODE, ROOT, place, python_files


def test_every_module_imports_only_from_layers_below(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    failed = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True, no_logo=True)
    assert not failed, capsys.readouterr().out


@pytest.mark.parametrize("path", python_files(*CODE), ids=place)
def test_no_module_imports_a_private_name_of_another(path):
    private = [
        f"{place(path, node.lineno)} imports {alias.name} from {node.module}"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
        if alias.name.startswith("_") or any(part.startswith("_") for part in (node.module or "").split("."))
    ]
    assert not private
