"""Schemas in the form that strict function calling and outputs accept (OAI-3, SC-R4, SC-06).

Source: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas. Every object is closed and every
property required; what was optional becomes nullable, and defaults move into the description.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_ALLOWED = frozenset(
    {
        "$defs",
        "$ref",
        "additionalProperties",
        "anyOf",
        "const",
        "definitions",
        "default",
        "description",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maximum",
        "minItems",
        "minimum",
        "multipleOf",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
    }
)
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_NULL = {"type": "null"}
_TYPING = frozenset({"type", "anyOf", "$ref", "enum", "const"})
MAX_DEPTH = 10
MAX_PROPERTIES = 5000
"""Levels of nesting and properties that a strict schema may have in all."""


class NotStrictError(ValueError):
    """A schema that strict mode cannot express; says where and why."""


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The strict form of a tool's parameters; `schema` is not changed.

    Args:
        schema: A JSON Schema object.

    Raises:
        NotStrictError: It has a part that strict mode cannot express.
    """
    root = {"type": "object", **schema}
    root.pop("$schema", None)

    if root["type"] != "object":
        raise NotStrictError(f"at #: parameters must be an object, not {root['type']}")

    strict = _strict(root, "#")

    if fault := strict_fault(strict):
        raise NotStrictError(fault)

    return strict


def strict_fault(schema: Any) -> str:
    """What keeps a schema from being strict as it stands, and where; empty when nothing does. It reads any JSON."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return "at #: it is no schema of type object"

    waiting: list[tuple[str, Any, int]] = [("#", schema, 1)]
    properties = 0

    while waiting:
        path, part, depth = waiting.pop()
        fault = "it is no object" if not isinstance(part, dict) else _fault_of(part)

        if fault or depth > MAX_DEPTH:
            return f"at {path}: {fault or f'it is nested more than {MAX_DEPTH} levels deep'}"

        inner = _parts_of(part, path)
        properties += len(part.get("properties") or ())
        waiting += [(place, item, depth + nests) for place, item, nests in inner]

    return f"it has {properties} properties, more than {MAX_PROPERTIES}" if properties > MAX_PROPERTIES else ""


def _fault_of(schema: dict[str, Any]) -> str:
    """What keeps one level of a schema from being strict."""
    unknown = schema.keys() - (_ALLOWED - {"default"})
    types = _types(schema)

    if unknown:
        return f"{', '.join(sorted(unknown))} cannot be expressed"

    if not isinstance(schema.get("properties", {}), dict) or not isinstance(schema.get("required", []), list):
        return "properties must be an object, and required an array"

    if not schema.keys() & _TYPING:
        return "a schema without a type allows anything"

    if "array" in types and "items" not in schema:
        return "an array without items allows anything"

    if "object" in types or "properties" in schema:
        names = schema.get("properties")

        if names is None or schema.get("additionalProperties") is not False:
            return "an object must list its properties and close itself with additionalProperties: false"

        if [name for name in names if name not in schema.get("required", [])]:
            return "every property must be required"

    if "$ref" in schema and (len(schema) > 1 or not str(schema["$ref"]).startswith("#")):
        return "a reference stands alone, and points into this schema"

    if "format" in schema and str(schema["format"]) not in _FORMATS:
        return f"format {schema['format']!r} cannot be expressed"

    return ""


def _parts_of(schema: dict[str, Any], path: str) -> list[tuple[str, Any, int]]:
    """The schemas inside one, each with its path and by how many levels it lies deeper."""
    parts: list[tuple[str, Any, int]] = []

    for keyword, nests in (("properties", 1), ("$defs", 0), ("definitions", 0)):
        found = schema.get(keyword)
        named = found if isinstance(found, dict) else {}
        parts += [(f"{path}/{keyword}/{name}", part, nests) for name, part in named.items()]

    choices = schema.get("anyOf")
    listed = choices if isinstance(choices, list) else []
    parts += [(f"{path}/anyOf/{place}", part, 0) for place, part in enumerate(listed)]

    return [*parts, (f"{path}/items", schema["items"], 1)] if "items" in schema else parts


def _strict(schema: Any, path: str) -> dict[str, Any]:
    _refuse_open(schema, path)
    strict = _without_default(schema)

    for keyword in ("$defs", "definitions"):
        if keyword in strict:
            strict[keyword] = {
                name: _strict(part, f"{path}/{keyword}/{name}") for name, part in strict[keyword].items()
            }

    if "anyOf" in strict:
        strict["anyOf"] = [_strict(part, f"{path}/anyOf/{place}") for place, part in enumerate(strict["anyOf"])]

    types = _types(strict)

    if "array" in types:
        if "items" not in strict:
            raise NotStrictError(f"at {path}: an array without items allows anything")

        strict["items"] = _strict(strict["items"], f"{path}/items")

    if "object" in types or "properties" in strict:
        _close(strict, path)

    if "$ref" in strict and len(strict) > 1:  # nothing may stand beside a reference
        return {"anyOf": [{"$ref": strict.pop("$ref")}], **strict}

    return strict


def _refuse_open(schema: Any, path: str) -> None:
    """Refuse what strict mode has no word for.

    Raises:
        NotStrictError: Says where and why.
    """
    if not isinstance(schema, dict):
        raise NotStrictError(f"at {path}: a schema that is {json.dumps(schema)} allows anything")

    unknown = schema.keys() - _ALLOWED

    if unknown:
        raise NotStrictError(f"at {path}: {', '.join(sorted(unknown))} cannot be expressed")

    if not schema.keys() & _TYPING:
        raise NotStrictError(f"at {path}: a schema without a type allows anything")

    if "$ref" in schema and not str(schema["$ref"]).startswith("#"):
        raise NotStrictError(f"at {path}: {schema['$ref']} is not part of this schema")

    if "format" in schema and str(schema["format"]) not in _FORMATS:
        raise NotStrictError(f"at {path}: format {schema['format']!r} cannot be expressed")


def _close(schema: dict[str, Any], path: str) -> None:
    """Close an object: no further properties, all of its own required, the optional ones nullable."""
    if "properties" not in schema or schema.get("additionalProperties", False) is not False:
        raise NotStrictError(f"at {path}: an open object cannot be expressed")

    required = set(schema.get("required", ()))
    schema["properties"] = {
        name: _strict(part, f"{path}/properties/{name}") if name in required else _optional(part, path, name)
        for name, part in schema["properties"].items()
    }
    schema["required"] = list(schema["properties"])
    schema["additionalProperties"] = False


def _optional(schema: Any, path: str, name: str) -> dict[str, Any]:
    strict = _strict(schema, f"{path}/properties/{name}")

    if "enum" in strict and None not in strict["enum"]:
        strict["enum"] = [*strict["enum"], None]

    if "const" in strict and strict["const"] is not None:
        strict["enum"] = [strict.pop("const"), None]

    if "type" in strict:
        types = _types(strict)
        strict["type"] = types if "null" in types else [*types, "null"]
    elif "anyOf" in strict:
        if not any("null" in _types(part) for part in strict["anyOf"]):
            strict["anyOf"] = [*strict["anyOf"], _NULL]
    elif "$ref" in strict:
        return {"anyOf": [strict, _NULL]}

    return strict


def _without_default(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema with a primitive default told in the description."""
    strict = dict(schema)
    default = strict.pop("default", None)

    if isinstance(default, str | int | float | bool):
        note = f"(default: {default if isinstance(default, str) else json.dumps(default)})"
        strict["description"] = f"{strict['description']} {note}" if strict.get("description") else note

    return strict


def _types(schema: dict[str, Any]) -> list[Any]:
    declared = schema.get("type", [])

    return list(declared) if isinstance(declared, list) else [declared]
