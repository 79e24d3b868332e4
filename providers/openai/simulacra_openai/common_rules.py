"""Rules that a request keeps whichever of OpenAI's APIs it goes to: about its functions, numbers and metadata.

Source: OpenAI's API reference, chat/create and responses/create; its guides to function calling and structured outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from simulacra.rules import Found, Path, Rule, Wire
from simulacra.rules.reading import JsonMap, map_of, text_of
from simulacra_openai.call_rules import FUNCTION_NAME
from simulacra_openai.strict import strict_fault

Functions: TypeAlias = Callable[[Wire], Iterable[tuple[Path, JsonMap]]]
"""Finds a request's functions, each with the place where its name and parameters stand."""
MAX_TOOLS = 128
TOOL_CHOICES = frozenset({"none", "auto", "required"})
OUTPUT_FORMATS = frozenset({"text", "json_object", "json_schema"})


def is_number(value: Any) -> bool:
    """Whether a JSON value is a number; `true` is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def function_rules(functions: Functions) -> tuple[Rule, ...]:
    """The rules about functions, however strict.

    Args:
        functions: Finds them.
    """
    return (
        Rule(
            name="tool-names-fit",
            demand="a function's name matches [a-zA-Z0-9_-] and has 1 to 64 characters",
            fix="Give the tool another name",
            find=lambda wire: _strange_names(functions(wire)),
            code="invalid_value",
        ),
        Rule(
            name="tool-names-differ",
            demand="the names of a request's functions differ",
            fix="Give one of the tools another name",
            find=lambda wire: _equal_names(functions(wire)),
            code="invalid_value",
        ),
        Rule(
            name="parameters-are-an-object",
            demand="a function's parameters are a JSON Schema of type object",
            fix="Describe the arguments as an object's properties",
            find=lambda wire: _strange_parameters(functions(wire)),
            code="invalid_function_parameters",
        ),
    )


def strict_functions(functions: Functions) -> Rule:
    """The rule about strict functions (SC-R4, SC-06).

    Args:
        functions: Finds the functions.
    """
    return Rule(
        name="strict-schemas-are-strict",
        demand="the parameters of a strict function meet the rules of structured outputs at every level",
        fix="Leave strict to the provider, or change the parameters",
        find=lambda wire: _loose(functions(wire)),
        code="invalid_function_parameters",
    )


def numbers_in_range(ranges: Mapping[str, tuple[int, int]]) -> Rule:
    """The rule about options that are numbers.

    Args:
        ranges: The least and the greatest value of each, both allowed.
    """

    def out_of_range(wire: Wire) -> Iterator[Found]:
        for name, (low, high) in ranges.items():
            value = wire.get(name)

            if value is not None and not (is_number(value) and low <= value <= high):
                yield Found((name,), f"{value!r} is not from {low} to {high}")

    return Rule(
        name="numbers-in-range",
        demand=f"{', '.join(ranges)} keep their ranges",
        fix="Choose a number in the range",
        find=out_of_range,
        code="invalid_value",
    )


def metadata_fits() -> Rule:
    """The rule about metadata."""
    return Rule(
        name="metadata-fits",
        demand="metadata has at most 16 pairs of texts, keys of at most 64 and values of at most 512 characters",
        fix="Shorten it",
        find=_strange_metadata,
        code="invalid_value",
    )


def _strange_names(functions: Iterable[tuple[Path, JsonMap]]) -> Iterator[Found]:
    for path, function in functions:
        if not FUNCTION_NAME.fullmatch(text_of(function.get("name"))):
            yield Found((*path, "name"), repr(function.get("name")))


def _equal_names(functions: Iterable[tuple[Path, JsonMap]]) -> Iterator[Found]:
    seen: set[str] = set()

    for path, function in functions:
        name = text_of(function.get("name"))

        if name in seen:
            yield Found((*path, "name"), repr(function.get("name")))

        seen.add(name)


def _strange_parameters(functions: Iterable[tuple[Path, JsonMap]]) -> Iterator[Found]:
    for path, function in functions:
        if map_of(function.get("parameters", {"type": "object"})).get("type") != "object":
            yield Found((*path, "parameters"))


def _loose(functions: Iterable[tuple[Path, JsonMap]]) -> Iterator[Found]:
    for path, function in functions:
        if function.get("strict") is True and (fault := strict_fault(function.get("parameters"))):
            yield Found((*path, "parameters"), fault)


def _strange_metadata(wire: Wire) -> Iterator[Found]:
    metadata = wire.get("metadata")

    if metadata is not None and (not isinstance(metadata, dict) or len(metadata) > 16):
        yield Found(("metadata",))
        return

    for key, value in map_of(metadata).items():
        if len(key) > 64 or not isinstance(value, str) or len(value) > 512:
            yield Found(("metadata", key))
