"""JSON Schema in the two forms that Gemini takes: its own subset for functions, plain JSON Schema for outputs.

Source: https://ai.google.dev/api/caching#Schema and `responseJsonSchema` of
https://ai.google.dev/api/generate-content#GenerationConfig. References are inlined, as the subset has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulacra.errors import ConfigurationError

TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"})
_BOUNDS = frozenset({"maxItems", "minItems", "minimum", "maximum"})
_SAID = frozenset({"title", "description", "nullable", "default", "example", "propertyOrdering"})
_LENGTHS = frozenset({"minProperties", "maxProperties", "minLength", "maxLength", "pattern"})
_FORMATS = {
    "STRING": frozenset({"enum", "date-time"}),
    "NUMBER": frozenset({"float", "double"}),
    "INTEGER": frozenset({"int32", "int64"}),
}
_SUBSET_KEYS = _SAID | _BOUNDS | _LENGTHS | {"type", "format", "enum", "properties", "required", "items", "anyOf"}
_JSON_KEYS = _BOUNDS | {
    "type",
    "title",
    "description",
    "enum",
    "format",
    "propertyOrdering",
    "required",
    "additionalProperties",
    "properties",
    "items",
    "prefixItems",
    "anyOf",
}
"""Keys that `responseJsonSchema` documents."""


def gemini_schema(schema: Mapping[str, Any], *, what: str) -> dict[str, Any]:
    """A schema in the subset of function declarations, types in upper case; `schema` is not changed.

    Args:
        schema: JSON Schema.
        what: What it describes, for the error's text.

    Raises:
        ConfigurationError: It refers to itself, or to nothing: the subset can only spell out what is finite.
    """
    return _as_subset(inlined(schema, what=what))


def output_schema(schema: Mapping[str, Any], *, what: str) -> dict[str, Any]:
    """A schema as an output is asked for, without what Gemini does not know; `schema` is not changed.

    Args:
        schema: JSON Schema.
        what: What it describes, for the error's text.

    Raises:
        ConfigurationError: As of `gemini_schema`.
    """
    known: dict[str, Any] = _known(inlined(schema, what=what))

    return known


def schema_fault(schema: Mapping[str, Any]) -> str:
    """What keeps a schema out of the subset, its parts left aside; empty when nothing does. Types may be in any case.

    Args:
        schema: One node of a schema.
    """
    unknown = sorted(map(str, schema.keys() - _SUBSET_KEYS))
    kind = schema.get("type")

    if unknown:
        return f"{unknown[0]} is no key of it"

    if kind is not None and (not isinstance(kind, str) or kind.upper() not in TYPES):
        return f"{kind!r} is no type of it"

    if kind is not None and kind.upper() == "ARRAY" and "items" not in schema:
        return "an array without items"

    allowed = schema.get("enum", ["x"])

    if not isinstance(allowed, list) or not all(isinstance(one, str) and one for one in allowed):
        return "enum lists something else than texts that say something"

    return "enum is for texts only" if "enum" in schema and str(kind).upper() != "STRING" else ""


def inlined(schema: Mapping[str, Any], *, what: str) -> dict[str, Any]:
    """A schema with what it refers to in place of its references, and all that must hold in one.

    Args:
        schema: JSON Schema.
        what: What it describes, for the error's text.

    Raises:
        ConfigurationError: It refers to itself, or to nothing.
    """

    def resolved(part: Any, path: str, within: tuple[str, ...]) -> Any:
        if not isinstance(part, Mapping):
            return part

        if "$ref" in part:
            name = str(part["$ref"])
            beside = {key: value for key, value in part.items() if key != "$ref"}

            if name in within:
                raise ConfigurationError(
                    f"google cannot express the schema of {what}: {path} refers back to {name}. Limit its depth, or"
                    " take a plain object there"
                )

            return resolved({**_target(name, schema, what, path), **beside}, path, (*within, name))

        written = {key: value for key, value in part.items() if key not in ("$defs", "definitions", "allOf", "oneOf")}

        if isinstance(part.get("properties"), Mapping):
            written["properties"] = {
                name: resolved(inner, f"{path}.{name}", within) for name, inner in part["properties"].items()
            }

        for key in ("items", "additionalProperties"):
            if key in part:
                written[key] = resolved(part[key], f"{path}[]", within)

        for key, found in (("anyOf", part.get("anyOf") or part.get("oneOf")), ("prefixItems", part.get("prefixItems"))):
            if isinstance(found, list):
                written[key] = [resolved(inner, path, within) for inner in found]

        for inner in part.get("allOf") or ():
            written = _both(written, resolved(inner, path, within))

        return written

    whole: dict[str, Any] = resolved(schema, "$", ())

    return whole


def _target(name: str, root: Mapping[str, Any], what: str, path: str) -> Mapping[str, Any]:
    target: Any = root if name.startswith("#") else None

    for step in name.removeprefix("#").split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        target = target.get(key) if isinstance(target, Mapping) else None

    if isinstance(target, Mapping):
        return target

    raise ConfigurationError(f"google cannot express the schema of {what}: {path} refers to {name}, which is not in it")


def _both(one: dict[str, Any], other: Any) -> dict[str, Any]:
    """A schema that demands what two demand; what the first says of itself is kept."""
    if not isinstance(other, Mapping):
        return one

    joined = {**other, **one}

    if "properties" in one and "properties" in other:
        joined["properties"] = {**other["properties"], **one["properties"]}

    if "required" in one and "required" in other:
        joined["required"] = list(dict.fromkeys([*one["required"], *other["required"]]))

    return joined


def _as_subset(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        return {}

    written: dict[str, Any] = {key: schema[key] for key in schema if key in _SAID | _BOUNDS | _LENGTHS}
    written |= _typed(schema)

    if isinstance(schema.get("properties"), Mapping):
        written["properties"] = {name: _as_subset(part) for name, part in schema["properties"].items()}
        written.setdefault("type", "OBJECT")

    if schema.get("required"):
        written["required"] = list(schema["required"])

    if written.get("type") == "ARRAY":
        written["items"] = _items_of(schema)

    if written.get("type") == "OBJECT" and schema.get("additionalProperties", False) is not False:
        written |= _told_open(written, schema["additionalProperties"])

    if isinstance(schema.get("anyOf"), list):
        chosen = _chosen(schema["anyOf"])
        fits = written.get("type", chosen.get("type")) == chosen.get("type") or "anyOf" in chosen
        written = {**(chosen if fits else {}), **written}

    if schema.get("format") in _FORMATS.get(str(written.get("type")), ()):
        written["format"] = schema["format"]

    return _listed(written, schema)


def _typed(schema: Mapping[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    kinds = [str(one).upper() for one in (kind if isinstance(kind, list) else [kind]) if one and one != "null"]
    nullable = {"nullable": True} if isinstance(kind, list) and "null" in kind else {}

    if len(kinds) > 1:
        of_array = {"items": _items_of(schema)} if "ARRAY" in kinds else {}
        return {"anyOf": [{"type": one, **(of_array if one == "ARRAY" else {})} for one in kinds], **nullable}

    if not kinds and (nullable or kind == "null"):  # null stands nowhere on its own
        return {"type": "STRING", "nullable": True}

    return {**({"type": kinds[0]} if kinds else {}), **nullable}


def _items_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What an array holds; texts where it does not say, since the subset wants it said."""
    items = _as_subset(schema.get("items")) or {"type": "STRING"}

    return items if items.keys() & {"type", "anyOf"} else {"type": "STRING", **items}


def _told_open(written: dict[str, Any], further: Any) -> dict[str, Any]:
    """A word about keys that are not listed, which the subset cannot say: else such an object would stay empty (SC-01)."""
    kind = _as_subset(further).get("type", "any kind")
    told = f"Further keys may be chosen freely, with values of {kind}."

    return {"description": f"{written['description']} {told}" if written.get("description") else told}


def _chosen(choices: list[Any]) -> dict[str, Any]:
    """Alternatives; one that is null makes the rest nullable."""
    real = [one for one in choices if not (isinstance(one, Mapping) and one.get("type") == "null")]
    drawn = [_as_subset(one) for one in real]
    nullable = {"nullable": True} if len(real) < len(choices) else {}

    if not drawn:
        return {"type": "STRING", "nullable": True}

    return {**(drawn[0] if len(drawn) == 1 else {"anyOf": drawn}), **nullable}


def _listed(written: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are allowed: the subset lists texts alone, others are told in the description."""
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")

    if not isinstance(allowed, list):
        return written

    if written.get("type", "STRING") == "STRING" and all(isinstance(one, str | None) for one in allowed):
        texts = [one for one in allowed if one]
        return {**written, "type": "STRING", **({"enum": texts} if texts else {})}

    told = f"One of {', '.join(map(str, allowed))}."
    description = f"{written['description']} {told}" if written.get("description") else told

    return {"type": _type_of(allowed), **written, "description": description}


def _type_of(values: list[Any]) -> str:
    if all(isinstance(one, bool) for one in values):
        return "BOOLEAN"

    if all(isinstance(one, int) for one in values):
        return "INTEGER"

    return "NUMBER" if all(isinstance(one, int | float) for one in values) else "STRING"


def _known(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema

    written = {key: value for key, value in schema.items() if key in _JSON_KEYS}

    if "const" in schema:
        written["enum"] = [schema["const"]]

    if isinstance(schema.get("properties"), Mapping):
        written["properties"] = {name: _known(part) for name, part in schema["properties"].items()}

    for key in ("items", "additionalProperties"):
        if key in schema:
            written[key] = _known(schema[key])

    for key in ("anyOf", "prefixItems"):
        if key in schema:
            written[key] = [_known(part) for part in schema[key]]

    return written
