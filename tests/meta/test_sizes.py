"""Measures of simplicity: how long a file and a function may be, and how many parameters a function may take."""

from __future__ import annotations

import ast

import pytest
from meta.repository import CODE, EVERYTHING, functions, place, python_files

MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_FUNCTION = 50
MOST_PARAMETERS = 7
VAGUE_NAMES = {"utils", "util", "types", "helpers", "helper", "common", "misc"}


def lines_of(function):
    """Lines of a function without its docstring and decorators."""
    first, last = function.body[0], function.end_lineno
    documented = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    docstring = first.end_lineno - first.lineno + 1 if documented else 0

    return last - function.lineno + 1 - docstring


@pytest.mark.parametrize("path", python_files(*EVERYTHING), ids=place)
def test_files_are_short(path):
    lines = len(path.read_text("utf-8").splitlines())
    assert lines <= MOST_LINES_OF_A_FILE


@pytest.mark.parametrize("path", python_files(*EVERYTHING), ids=place)
def test_files_say_what_they_hold(path):
    assert path.stem not in VAGUE_NAMES


@pytest.mark.parametrize("path", python_files(*CODE), ids=place)
def test_functions_are_short(path):
    long = [
        f"{place(path, function.lineno)} {function.name}: {lines_of(function)} lines"
        for function in functions(path)
        if lines_of(function) > MOST_LINES_OF_A_FUNCTION
    ]
    assert not long


@pytest.mark.parametrize("path", python_files(*CODE), ids=place)
def test_functions_take_few_parameters(path):
    """Keyword options of a constructor do not count; nor do those of a factory or decorator, marked by a `noqa`."""
    source = path.read_text("utf-8").splitlines()
    greedy = []

    for function in functions(path):
        arguments = function.args
        given = [argument for argument in arguments.posonlyargs + arguments.args if argument.arg not in ("self", "cls")]
        options = (
            0 if function.name == "__init__" or "PLR0913" in source[function.lineno - 1] else len(arguments.kwonlyargs)
        )

        if len(given) + options > MOST_PARAMETERS:
            greedy.append(f"{place(path, function.lineno)} {function.name}: {len(given)} + {options} parameters")

    assert not greedy
