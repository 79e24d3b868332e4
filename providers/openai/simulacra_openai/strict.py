"""Tool schemas in the form that strict function calling accepts (OAI-3, SC-R4, SC-06).

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

    return _strict(root, "#")


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

    if not schema.keys() & {"type", "anyOf", "$ref", "enum", "const"}:
        raise NotStrictError(f"at {path}: a schema without a type allows anything")

    if "$ref" in schema and not str(schema["$ref"]).startswith("#"):
        raise NotStrictError(f"at {path}: {schema['$ref']} is not part of this schema")

    if "format" in schema and schema["format"] not in _FORMATS:
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
