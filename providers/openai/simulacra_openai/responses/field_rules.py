"""Rules about the other fields of a request to the Responses API.

Source: OpenAI's API reference (responses/create), its guides to structured outputs and function calling.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simulacra.rules import Found, Path, Rule, Wire
from simulacra.rules.reading import JsonMap, is_blank, map_of, objects_in, text_of
from simulacra_openai.call_rules import FUNCTION_NAME
from simulacra_openai.common_rules import (
    MAX_TOOLS,
    OUTPUT_FORMATS,
    TOOL_CHOICES,
    function_rules,
    is_number,
    metadata_fits,
    numbers_in_range,
    strict_functions,
)
from simulacra_openai.responses.mending import MIN_LIMIT, mend_fields
from simulacra_openai.strict import strict_fault

_RANGES = {"temperature": (0, 2), "top_p": (0, 1), "top_logprobs": (0, 20)}


def field_rules() -> tuple[Rule, ...]:
    """The rules, in the order in which they are looked at."""
    return (*_basics(), *_values(), *_tools(), *_choice(), *_output())


def _basics() -> tuple[Rule, ...]:
    return (
        Rule(
            name="model-named",
            demand="a request names its model",
            fix="Give the provider a model",
            find=lambda wire: [] if text_of(wire.get("model")) else [Found(("model",))],
        ),
        Rule(
            name="limit-large-enough",
            demand=f"max_output_tokens is a whole number of at least {MIN_LIMIT}",
            fix=f"A smaller one becomes {MIN_LIMIT}",
            find=_strange_limit,
            repair=mend_fields,
            code="integer_below_min_value",
        ),
        Rule(
            name="instructions-not-blank",
            demand="instructions are a text that says something, or absent",
            fix="They are left out",
            find=lambda wire: (
                [Found(("instructions",))]
                if wire.get("instructions") is not None and is_blank(wire["instructions"])
                else []
            ),
            repair=mend_fields,
        ),
    )


def _values() -> tuple[Rule, ...]:
    return (
        numbers_in_range(_RANGES),
        metadata_fits(),
        Rule(
            name="truncation-known",
            demand="truncation is auto or disabled",
            fix="Choose one of them",
            find=lambda wire: (
                [] if wire.get("truncation", "auto") in ("auto", "disabled", None) else [Found(("truncation",))]
            ),
            code="invalid_value",
        ),
    )


def _tools() -> tuple[Rule, ...]:
    return (
        Rule(
            name="tools-few-enough",
            demand=f"a request has at most {MAX_TOOLS} tools",
            fix="Give the conversation fewer tools",
            find=lambda wire: [Found(("tools",))] if len(list(objects_in(wire.get("tools")))) > MAX_TOOLS else [],
            code="array_above_max_length",
        ),
        Rule(
            name="tools-have-a-type",
            demand="a tool is an object with a type",
            fix="Describe it with a ToolDefinition",
            find=_typeless,
            code="missing_required_parameter",
        ),
        *function_rules(_functions),
        strict_functions(_functions),
    )


def _choice() -> tuple[Rule, ...]:
    return (
        Rule(
            name="tool-choice-needs-tools",
            demand="tool_choice and parallel_tool_calls are only allowed together with tools",
            fix="They are left out",
            find=_toolless,
            repair=mend_fields,
        ),
        Rule(
            name="tool-choice-fits",
            demand="tool_choice is none, auto, required, or names a tool of the request",
            fix="Choose a tool that the conversation has",
            find=_strange_choice,
            code="invalid_value",
        ),
    )


def _output() -> tuple[Rule, ...]:
    return (
        Rule(
            name="output-format-known",
            demand="text.format is text, json_object, or json_schema with a name of [a-zA-Z0-9_-] and a schema",
            fix="Ask for the output with a schema that has a fitting title",
            find=_strange_format,
            code="invalid_value",
        ),
        Rule(  # SC-R4
            name="strict-outputs-are-strict",
            demand="a strict output schema meets the rules of structured outputs at every level",
            fix="Leave strict to the provider, or change the schema",
            find=_loose_output,
        ),
    )


def _functions(wire: Wire) -> Iterator[tuple[Path, JsonMap]]:
    return ((("tools", at), tool) for at, tool in objects_in(wire.get("tools")) if tool.get("type") == "function")


def _strange_limit(wire: Wire) -> Iterator[Found]:
    limit = wire.get("max_output_tokens")

    if limit is not None and not (isinstance(limit, int) and is_number(limit) and limit >= MIN_LIMIT):
        yield Found(("max_output_tokens",), repr(limit))


def _typeless(wire: Wire) -> Iterator[Found]:
    tools = wire.get("tools")

    for at, tool in enumerate(tools if isinstance(tools, list) else ()):
        if not text_of(map_of(tool).get("type")):
            yield Found(("tools", at))


def _toolless(wire: Wire) -> Iterator[Found]:
    if not wire.get("tools"):
        yield from (Found((name,)) for name in ("tool_choice", "parallel_tool_calls") if wire.get(name) is not None)


def _strange_choice(wire: Wire) -> Iterator[Found]:
    choice = wire.get("tool_choice")

    if choice is None or not wire.get("tools"):
        return

    if isinstance(choice, str):
        fits = choice in TOOL_CHOICES
    elif map_of(choice).get("type") == "function":
        fits = choice.get("name") in [tool.get("name") for _, tool in _functions(wire)]
    else:
        fits = bool(text_of(map_of(choice).get("type")))

    if not fits:
        yield Found(("tool_choice",), repr(choice)[:100])


def output_format(wire: Wire) -> Any:
    """What is asked of the shape of the output."""
    return map_of(wire.get("text")).get("format")


def _strange_format(wire: Wire) -> Iterator[Found]:
    asked = output_format(wire)

    if asked is None:
        return

    kind = map_of(asked).get("type")

    if kind not in OUTPUT_FORMATS:
        yield Found(("text", "format", "type"), repr(kind))
    elif kind == "json_schema":
        if not FUNCTION_NAME.fullmatch(text_of(asked.get("name"))):
            yield Found(("text", "format", "name"), repr(asked.get("name")))

        if not isinstance(asked.get("schema"), dict):
            yield Found(("text", "format", "schema"))


def _loose_output(wire: Wire) -> Iterator[Found]:
    asked = map_of(output_format(wire))

    if asked.get("strict") is True and (fault := strict_fault(asked.get("schema"))):
        yield Found(("text", "format", "schema"), fault)
