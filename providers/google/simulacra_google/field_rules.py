"""Rules about the other fields of a request: model, system instruction, tools, generation config, size.

Source: Google's API reference (models.generateContent, caching.Tool, Schema) and its guides to function calling, thinking
and structured output.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from simulacra.rules import Found, Path, Rule, Wire
from simulacra.rules.reading import is_blank, map_of, objects_in, text_of
from simulacra_google.media import MAX_INLINE
from simulacra_google.mending import mend_fields
from simulacra_google.reading import NAME, declared, parts_in
from simulacra_google.schema import schema_fault

_MODES = frozenset({"MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"})
_RANGES = {"temperature": (0, 2), "topP": (0, 1)}
MAX_STOPS = 5
LEVELS = ("minimal", "low", "medium", "high")
_CACHED = ("systemInstruction", "tools", "toolConfig")


def field_rules() -> tuple[Rule, ...]:
    """The rules, in the order in which they are looked at."""
    return (*_basics(), *_tools(), *_generation())


def _rule(name: str, demand: str, fix: str, find: Any, repair: Any = None, status: int = 400) -> Rule:
    return Rule(name=name, demand=demand, fix=fix, find=find, repair=repair, status=status, code="INVALID_ARGUMENT")


def _basics() -> tuple[Rule, ...]:
    return (
        _rule("model-named", "a request names its model", "Give the provider a model", _modelless),
        _rule(
            "system-is-text",
            "the system instruction has parts with text alone, and says something",
            "A blank one is left out",
            _strange_system,
            mend_fields,
        ),
        _rule(
            "cached-content-has-its-own",
            "with cachedContent a request has no system instruction, tools or toolConfig: the cache has them",
            "They are left out",
            _doubly_cached,
            mend_fields,
        ),
        _rule(
            "safety-settings-differ",
            "there is at most one safety setting for each category",
            "Keep one of them",
            _equal_categories,
        ),
        _rule(
            "inline-data-small-enough",
            f"a request with inline data has at most {MAX_INLINE:,} bytes",
            "Upload large files and send their URI",
            _large_data,
        ),
    )


def _tools() -> tuple[Rule, ...]:
    return (
        _rule("tools-not-empty", "tools has at least one tool, or is absent", "It is left out", _toolless, mend_fields),
        _rule("tool-names-fit", "a function's name fits [a-zA-Z_][a-zA-Z0-9_.:-]*", "Rename the tool", _strange_names),
        _rule(
            "tool-names-differ", "the names of a request's functions differ", "Rename one of the tools", _equal_names
        ),
        _rule(
            "parameters-are-objects",
            "a function's parameters are a schema of type OBJECT",
            "Describe the arguments as an object's properties",
            _strange_parameters,
        ),
        _rule(
            "schemas-in-the-subset",
            "a schema has keys and types of Gemini's subset: no references, arrays with items, enums of texts",
            "Leave the schema to the provider",
            _strange_schemas,
        ),
        _rule(
            "tool-config-needs-tools",
            "toolConfig is only allowed together with tools",
            "It is left out",
            _lonely_config,
            mend_fields,
        ),
        _rule(
            "tool-config-fits",
            "the mode is AUTO, ANY, NONE or VALIDATED; allowed names are those of functions of the request",
            "Choose a tool that the conversation has",
            _strange_config,
        ),
    )


def _generation() -> tuple[Rule, ...]:
    return (
        _rule("limit-is-positive", "maxOutputTokens is a whole number above 0", "Ask for more tokens", _strange_limit),
        _rule(
            "thinking-fits",
            f"a thinking budget is a whole number from -1 on, a level one of {', '.join(LEVELS)}",
            "Choose one that fits",
            _strange_thinking,
        ),
        _rule(
            "budget-or-level",
            "thinkingConfig has a budget or a level, not both",
            "Choose one of them",
            _doubly_thinking,
        ),
        _rule(
            "schema-needs-json",
            "an output schema needs responseMimeType application/json",
            "It is set",
            _schema_without_json,
            mend_fields,
        ),
        _rule("one-candidate", "one candidate is asked for", "Ask several conversations instead", _many_candidates),
        _rule(
            "numbers-in-range", "temperature is from 0 to 2, topP from 0 to 1", "Choose a number there", _out_of_range
        ),
        _rule("stop-sequences-few", f"at most {MAX_STOPS} stop sequences are given", "Give fewer", _many_stops),
    )


def generation_of(wire: Wire) -> dict[str, Any]:
    """The generation config, or an empty one."""
    return map_of(wire.get("generationConfig"))


def _modelless(wire: Wire) -> list[Found]:
    return [] if text_of(wire.get("model")) else [Found(("model",))]


def _strange_system(wire: Wire) -> Iterator[Found]:
    if "systemInstruction" not in wire:
        return

    parts = [part for _, part in objects_in(map_of(wire["systemInstruction"]).get("parts"))]

    if not parts or all(is_blank(part.get("text")) for part in parts):
        yield Found(("systemInstruction",))

    for at, part in enumerate(parts):
        if part.keys() - {"text"}:
            yield Found(("systemInstruction", "parts", at))


def _doubly_cached(wire: Wire) -> Iterator[Found]:
    for key in _CACHED if wire.get("cachedContent") else ():
        if key in wire:
            yield Found((key,))


def _equal_categories(wire: Wire) -> Iterator[Found]:
    seen: list[Any] = []

    for at, setting in objects_in(wire.get("safetySettings")):
        if setting.get("category") in seen:
            yield Found(("safetySettings", at, "category"), repr(setting.get("category")))

        seen.append(setting.get("category"))


def _large_data(wire: Wire) -> Iterator[Found]:
    if any("inlineData" in part for _, _, _, part in parts_in(wire)):
        size = len(json.dumps(wire, ensure_ascii=False, default=str))

        if size > MAX_INLINE:
            yield Found((), f"{size:,} bytes")


def _toolless(wire: Wire) -> list[Found]:
    return [Found(("tools",))] if wire.get("tools", ...) in ([], None) else []


def _strange_names(wire: Wire) -> Iterator[Found]:
    for path, function in declared(wire):
        if not NAME.fullmatch(text_of(function.get("name"))):
            yield Found((*path, "name"), repr(function.get("name")))


def _equal_names(wire: Wire) -> Iterator[Found]:
    seen: set[str] = set()

    for path, function in declared(wire):
        if text_of(function.get("name")) in seen:
            yield Found((*path, "name"), repr(function.get("name")))

        seen.add(text_of(function.get("name")))


def _strange_parameters(wire: Wire) -> Iterator[Found]:
    for path, function in declared(wire):
        if "parameters" in function and text_of(map_of(function["parameters"]).get("type")).upper() != "OBJECT":
            yield Found((*path, "parameters"))


def _strange_schemas(wire: Wire) -> Iterator[Found]:
    waiting: list[tuple[Path, Any]] = [
        ((*path, "parameters"), function["parameters"]) for path, function in declared(wire) if "parameters" in function
    ]

    if "responseSchema" in generation_of(wire):
        waiting.append((("generationConfig", "responseSchema"), generation_of(wire)["responseSchema"]))

    while waiting:
        here, schema = waiting.pop()

        if not isinstance(schema, dict):
            yield Found(here)
            continue

        if fault := schema_fault(schema):
            yield Found(here, fault)

        waiting += [((*here, "properties", name), part) for name, part in map_of(schema.get("properties")).items()]
        waiting += [((*here, "items"), schema["items"])] if "items" in schema else []
        waiting += [((*here, "anyOf", at), part) for at, part in objects_in(schema.get("anyOf"))]


def _lonely_config(wire: Wire) -> list[Found]:
    return [Found(("toolConfig",))] if "toolConfig" in wire and not wire.get("tools") else []


def _strange_config(wire: Wire) -> Iterator[Found]:
    calling = map_of(map_of(wire.get("toolConfig")).get("functionCallingConfig"))
    names = [function.get("name") for _, function in declared(wire)]
    path = ("toolConfig", "functionCallingConfig")

    if wire.get("tools") and "mode" in calling and text_of(calling["mode"]) not in _MODES:
        yield Found((*path, "mode"), repr(calling["mode"]))

    allowed = calling.get("allowedFunctionNames")

    for at, name in enumerate(allowed if isinstance(allowed, list) else ()):
        if name not in names:
            yield Found((*path, "allowedFunctionNames", at), repr(name))


def _strange_limit(wire: Wire) -> Iterator[Found]:
    limit = generation_of(wire).get("maxOutputTokens")

    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        yield Found(("generationConfig", "maxOutputTokens"), repr(limit))


def _strange_thinking(wire: Wire) -> Iterator[Found]:
    thinking = map_of(generation_of(wire).get("thinkingConfig"))
    budget, level = thinking.get("thinkingBudget", 0), thinking.get("thinkingLevel", LEVELS[0])

    if isinstance(budget, bool) or not isinstance(budget, int) or budget < -1:
        yield Found(("generationConfig", "thinkingConfig", "thinkingBudget"), repr(budget))

    if text_of(level).lower() not in LEVELS:
        yield Found(("generationConfig", "thinkingConfig", "thinkingLevel"), repr(level))


def _doubly_thinking(wire: Wire) -> list[Found]:
    thinking = map_of(generation_of(wire).get("thinkingConfig"))
    both = "thinkingBudget" in thinking and "thinkingLevel" in thinking

    return [Found(("generationConfig", "thinkingConfig"))] if both else []


def _schema_without_json(wire: Wire) -> list[Found]:
    generation = generation_of(wire)
    asked = "responseSchema" in generation or "responseJsonSchema" in generation
    fits = generation.get("responseMimeType") in ("application/json", "text/x.enum")

    return [Found(("generationConfig", "responseMimeType"))] if asked and not fits else []


def _many_candidates(wire: Wire) -> list[Found]:
    count = generation_of(wire).get("candidateCount", 1)

    return [] if count == 1 else [Found(("generationConfig", "candidateCount"), repr(count))]


def _out_of_range(wire: Wire) -> Iterator[Found]:
    for name, (low, high) in _RANGES.items():
        value = generation_of(wire).get(name)
        fits = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high

        if value is not None and not fits:
            yield Found(("generationConfig", name), repr(value))


def _many_stops(wire: Wire) -> list[Found]:
    stops = generation_of(wire).get("stopSequences")
    many = stops is not None and (not isinstance(stops, list) or len(stops) > MAX_STOPS)

    return [Found(("generationConfig", "stopSequences"))] if many else []
