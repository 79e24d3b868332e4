"""Rules about the tools of a request and the choice among them.

Source: OpenAI's API reference, chat/create, `tools` and `tool_choice`; its guides to function calling and structured
outputs (supported schemas).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from simulacra.rules import Found, Path, Rule, Wire
from simulacra.rules.reading import JsonMap, map_of, objects_in
from simulacra_openai.common_rules import MAX_TOOLS, TOOL_CHOICES, function_rules, strict_functions
from simulacra_openai.presets import Preset

_TYPES = frozenset({"function", "custom"})
_CHOICE_TYPES = frozenset({"function", "custom", "allowed_tools"})


def tool_rules(preset: Preset, mend: Callable[[Wire], Wire]) -> tuple[Rule, ...]:
    """The rules of a service.

    Args:
        preset: How it differs from OpenAI.
        mend: Puts a request's fields right.
    """
    closed = (
        Rule(
            name="tools-not-empty",
            demand="tools is an array with at least one tool, or absent",
            fix="It is left out",
            find=lambda wire: [Found(("tools",))] if wire.get("tools", ...) in ([], None) else [],
            repair=mend,
            code="empty_array",
        ),
        Rule(
            name="tools-have-a-type",
            demand="a tool is an object of type function with a function, or of type custom",
            fix="Describe it with a ToolDefinition",
            find=_shapeless,
            code="missing_required_parameter",
        ),
        Rule(
            name="tools-few-enough",
            demand=f"a request has at most {MAX_TOOLS} tools",
            fix="Give the conversation fewer tools",
            find=lambda wire: (
                [Found(("tools",), f"{len(_tools(wire))} tools")] if len(_tools(wire)) > MAX_TOOLS else []
            ),
            code="array_above_max_length",
        ),
        Rule(
            name="array-schemas-have-items",
            demand="an array in a function's parameters says what its items are",
            fix="Give the parameter items",
            find=_itemless,
            code="invalid_function_parameters",
        ),
        strict_functions(_functions),
    )

    return (*function_rules(_functions), *_choice(mend), *(closed if preset.is_closed else ()))


def _choice(mend: Callable[[Wire], Wire]) -> tuple[Rule, ...]:
    return (
        Rule(
            name="tool-choice-needs-tools",
            demand="tool_choice is only allowed together with tools",
            fix="It is left out",
            find=lambda wire: _without_tools(wire, "tool_choice"),
            repair=mend,
        ),
        Rule(
            name="parallel-calls-need-tools",
            demand="parallel_tool_calls is only allowed together with tools",
            fix="It is left out",
            find=lambda wire: _without_tools(wire, "parallel_tool_calls"),
            repair=mend,
        ),
        Rule(
            name="tool-choice-fits",
            demand="tool_choice is none, auto, required, or names a tool of the request",
            fix="Choose a tool that the conversation has",
            find=_strange_choice,
            code="invalid_value",
        ),
    )


def _tools(wire: Wire) -> list[Any]:
    tools = wire.get("tools")

    return tools if isinstance(tools, list) else []


def _functions(wire: Wire) -> Iterator[tuple[Path, JsonMap]]:
    for at, tool in objects_in(wire.get("tools")):
        if isinstance(tool.get("function"), dict):
            yield ("tools", at, "function"), tool["function"]


def _shapeless(wire: Wire) -> Iterator[Found]:
    for at, tool in enumerate(_tools(wire)):
        kind = map_of(tool).get("type")
        is_known = isinstance(kind, str) and kind in _TYPES

        if not is_known or not isinstance(map_of(tool).get(str(kind)), dict):
            yield Found(("tools", at))


def _itemless(wire: Wire) -> Iterator[Found]:
    for path, function in _functions(wire):
        waiting: list[tuple[Path, Any]] = [((*path, "parameters"), function.get("parameters"))]

        while waiting:
            here, schema = waiting.pop()

            if not isinstance(schema, dict):
                continue

            if schema.get("type") == "array" and "items" not in schema:
                yield Found(here)

            for key in ("properties", "$defs", "definitions"):
                waiting += [((*here, key, name), part) for name, part in map_of(schema.get(key)).items()]

            for key in ("anyOf", "oneOf", "allOf"):
                waiting += [((*here, key, at), part) for at, part in objects_in(schema.get(key))]

            waiting.append(((*here, "items"), schema.get("items")))


def _without_tools(wire: Wire, field: str) -> Iterator[Found]:
    if wire.get(field) is not None and not _tools(wire) and not wire.get("functions"):
        yield Found((field,))


def _strange_choice(wire: Wire) -> Iterator[Found]:
    choice = wire.get("tool_choice")

    if choice is None or not _tools(wire):
        return

    if isinstance(choice, str):
        fits = choice in TOOL_CHOICES
    else:
        kind = map_of(choice).get("type")
        named = map_of(map_of(choice).get(str(kind))).get("name")
        names = [map_of(tool.get(str(kind))).get("name") for _, tool in objects_in(wire.get("tools"))]
        fits = kind in _CHOICE_TYPES and (kind == "allowed_tools" or named in names) if isinstance(kind, str) else False

    if not fits:
        yield Found(("tool_choice",), repr(choice)[:100])
