"""What the structural tests look at: the project's own Python files, and what stands in them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = ("simulacra", "providers")
EVERYTHING = (*CODE, "tests")


def python_files(*folders: str) -> list[Path]:
    """The Python files of these folders, sorted; environments and caches left out."""
    return sorted(
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if not any(part.startswith(".") or part in ("build", "dist") for part in path.relative_to(ROOT).parts)
    )


def place(path: Path, line: int | None = None) -> str:
    """A file, and a line in it, as people click on it."""
    where = path.relative_to(ROOT).as_posix()

    return where if line is None else f"{where}:{line}"


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a file, nested ones too."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def plugins() -> list[str]:
    """The packages of the provider plugins."""
    return sorted(path.parent.name for path in (ROOT / "providers").glob("*/simulacra_*/__init__.py"))
