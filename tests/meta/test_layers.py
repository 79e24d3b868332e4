"""Imports go one way: the contracts of pyproject.toml, and the privacy of names that start with an underscore."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
from meta.repository import CODE, ROOT, place, python_files

CHECK = """
import sys
from importlinter.cli import lint_imports
sys.exit(lint_imports(config_filename="pyproject.toml", no_cache=True, no_logo=True))
"""


def test_every_module_imports_only_from_layers_below():
    """In a process of its own: the linter configures logging and silences every logger it finds."""
    done = subprocess.run([sys.executable, "-c", CHECK], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


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
