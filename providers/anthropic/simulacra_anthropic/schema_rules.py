"""Rules about JSON Schemas: those of tools, and that of the output.

Source: Anthropic's guide to structured outputs with what its SDK does to schemas (`transform_schema`), and refusals of
its API that users have reported: "Property keys should match pattern" (567-labs/instructor#1539) and "input_schema does
not support oneOf, allOf, or anyOf at the top level" (anthropics/claude-code#5973).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from simulacra.rules import Found, Path, Rule, Wire
from simulacra.rules.reading import JsonMap, map_of, objects_in
from simulacra_anthropic.message_rules import Mend

CHOICES = ("allOf", "anyOf", "oneOf")
FORMATS = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "text", "time", "uri", "uuid"}
)
_OUTPUT = ("output_config", "format", "schema")
_PROPERTY_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_NAMED = ("properties", "$defs", "definitions")
_NESTED = ("items", *CHOICES)
_BOUNDS = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "maxItems",
        "uniqueItems",
    }
)
"""Keywords that replies cannot be held to."""


def schema_rules(mend: Mend) -> tuple[Rule, ...]:
    """The rules.

    Args:
        mend: Puts the schemas of a request right.
    """
    return (*_of_tools(mend), *_of_output(mend))


def _of_tools(mend: Mend) -> tuple[Rule, ...]:
    return (
        Rule(
            name="input-schemas-are-objects",
            demand="a tool's input_schema is a JSON Schema of type object",
            fix="Describe the arguments as an object's properties",
            find=_strange_schemas,
        ),
        Rule(  # SC-R2
            name="input-schemas-choose-inside",
            demand="a tool's input_schema has no anyOf, oneOf or allOf at the top level",
            fix="The properties of all of them become one object's, which accepts no less",
            find=_choosing_schemas,
            repair=mend,
        ),
        Rule(
            name="argument-names-fit",
            demand="an argument's name matches [a-zA-Z0-9_.-] and has 1 to 64 characters",
            fix="Give the argument another name",
            find=_strange_arguments,
        ),
    )


def _of_output(mend: Mend) -> tuple[Rule, ...]:
    return (
        Rule(
            name="output-objects-are-closed",
            demand="an object in an output schema has additionalProperties false",
            fix="It is set",
            find=_open_objects,
            repair=mend,
        ),
        Rule(  # SC-01
            name="output-objects-name-their-properties",
            demand="an object in an output schema names its properties: closed, a map of any keys would always be empty",
            fix="Name the properties, or ask for a list of keys with their values",
            find=lambda wire: (Found(path) for path, node in _output_nodes(wire) if is_map(node)),
        ),
        Rule(  # SC-R2
            name="output-keywords-fit",
            demand="an output schema sets no bounds on numbers, texts and lists, and chooses by anyOf",
            fix="What the API cannot hold a reply to becomes part of the description; oneOf becomes anyOf",
            find=_strange_keywords,
            repair=mend,
        ),
        Rule(  # SC-R3
            name="output-references-end",
            demand="a $ref in an output schema leads to a part of the same schema, and never back to itself",
            fix="Describe the object to a fixed depth, or ask for the deeper part as a text",
            find=_strange_references,
        ),
    )


def output_schema(wire: Wire) -> Any:
    """The schema of the output that is asked for, if one is."""
    return map_of(map_of(wire.get("output_config")).get("format")).get("schema")


def nodes_in(schema: Any, *path: str | int) -> Iterator[tuple[Path, JsonMap]]:
    """A schema and every schema inside it, each with its path."""
    waiting: list[tuple[Path, Any]] = [(path, schema)]

    while waiting:
        here, node = waiting.pop()

        if isinstance(node, list):
            waiting += [((*here, at), part) for at, part in enumerate(node)]
        elif isinstance(node, dict):
            yield here, node

            for key in _NAMED:
                waiting += [((*here, key, name), part) for name, part in map_of(node.get(key)).items()]

            waiting += [((*here, key), node.get(key)) for key in _NESTED]


def is_object(node: JsonMap) -> bool:
    """Whether a schema is that of an object."""
    kind = node.get("type")

    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def is_map(node: JsonMap) -> bool:
    """Whether a schema is that of an object whose keys are not known."""
    further = node.get("additionalProperties")

    return is_object(node) and (bool(map_of(further)) or (further in (True, {}) and not node.get("properties")))


def is_unknown_keyword(node: JsonMap, key: str) -> bool:
    """Whether the API cannot hold a reply to this keyword of a schema."""
    match key:
        case "format":
            return node[key] not in FORMATS if isinstance(node[key], str) else True
        case "minItems":
            return node[key] not in (0, 1)
        case "enum":
            return not isinstance(node[key], list) or any(isinstance(value, dict | list) for value in node[key])
        case _:
            return key in _BOUNDS


def target_of(schema: Any, reference: Any) -> Any:
    """What a `$ref` of a schema leads to; `None` when that is nothing of its own."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None

    found = schema

    for step in reference.split("/")[1:]:
        if isinstance(found, list):
            found = found[int(step)] if step.isdecimal() and int(step) < len(found) else None
        else:
            found = map_of(found).get(step.replace("~1", "/").replace("~0", "~"))

    return found


def _output_nodes(wire: Wire) -> Iterator[tuple[Path, JsonMap]]:
    return nodes_in(output_schema(wire), *_OUTPUT)


def _own_schemas(wire: Wire) -> Iterator[tuple[int, Any]]:
    """The schemas of the tools that the service does not run itself."""
    for at, tool in objects_in(wire.get("tools")):
        if tool.get("type") in (None, "custom"):
            yield at, tool.get("input_schema")


def _strange_schemas(wire: Wire) -> Iterator[Found]:
    for at, schema in _own_schemas(wire):
        if map_of(schema).get("type") != "object":
            yield Found(("tools", at, "input_schema"))


def _choosing_schemas(wire: Wire) -> Iterator[Found]:
    for at, schema in _own_schemas(wire):
        yield from (Found(("tools", at, "input_schema", key)) for key in CHOICES if key in map_of(schema))


def _strange_arguments(wire: Wire) -> Iterator[Found]:
    for at, schema in _own_schemas(wire):
        for name in map_of(map_of(schema).get("properties")):
            if not _is_property_name(name):
                yield Found(("tools", at, "input_schema", "properties", name))


@lru_cache(maxsize=1024)
def _is_property_name(name: str) -> bool:
    return _PROPERTY_NAME.fullmatch(name) is not None


def _open_objects(wire: Wire) -> Iterator[Found]:
    for path, node in _output_nodes(wire):
        if is_object(node) and not is_map(node) and node.get("additionalProperties") is not False:
            yield Found(path)


def _strange_keywords(wire: Wire) -> Iterator[Found]:
    for path, node in _output_nodes(wire):
        yield from (Found((*path, key)) for key in node if key == "oneOf" or is_unknown_keyword(node, key))


def _strange_references(wire: Wire) -> Iterator[Found]:
    schema = output_schema(wire)

    for path, node in _output_nodes(wire):
        if "$ref" in node:
            if not isinstance(target_of(schema, node["$ref"]), dict):
                yield Found((*path, "$ref"), f"{node['$ref']!r} leads nowhere")
            elif _leads_back(schema, node["$ref"]):
                yield Found((*path, "$ref"), f"{node['$ref']!r} leads back to itself")


def _leads_back(schema: Any, reference: str) -> bool:
    """Whether what a reference leads to refers to it, directly or by others."""
    seen: set[str] = set()
    waiting = [reference]

    while waiting:
        for _, node in nodes_in(target_of(schema, waiting.pop())):
            found = node.get("$ref")

            if found == reference:
                return True

            if isinstance(found, str) and found not in seen:
                seen.add(found)
                waiting.append(found)

    return False
