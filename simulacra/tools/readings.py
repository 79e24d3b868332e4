"""Readings of arguments that lose nothing: always on, and no repair (TLS-82).

Models send `null` for what they leave out, JSON text where a list is wanted, `"3"` where a number is. What is read here
is checked afterwards like anything else. Every container of the outcome is new.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import from_json

from simulacra.schema import JsonKind, Schema, accepts, json_kind, resolve

_SCALARS: tuple[JsonKind, ...] = ("integer", "number", "boolean")
_SHAPE_WORDS = frozenset({"properties", "additionalProperties", "items", "prefixItems"})
_MAX_STEPS = 64


class Readings:
    """Reads arguments in the light of their schema.

    Args:
        schema: The JSON Schema of the arguments.
        convert: Also convert scalars and fill in defaults; for schemas that no pydantic model stands behind.
    """

    def __init__(self, schema: Mapping[str, Any], *, convert: bool) -> None:
        self._root = schema
        self._convert = convert

    def read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as they are meant; what cannot be read stays as it is."""
        return self._object(params, self._root)

    def _value(self, value: Any, schema: Schema) -> Any:
        if isinstance(value, str):
            value = self._unwrap(value, schema)

        if isinstance(value, Mapping):
            return self._object(value, schema)

        if isinstance(value, list | tuple):
            return self._array(value, schema)

        return self._scalar(value, schema) if self._convert else value

    def _object(self, value: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
        shape = self._shape(schema, "object")
        known: Mapping[str, Schema] = shape.get("properties", {})
        other: Schema = shape.get("additionalProperties", True)
        required = shape.get("required", ())
        read: dict[str, Any] = {}

        for name, item in value.items():
            absent = item is None and name in known and name not in required

            if not absent or accepts(known[name], "null", self._root):
                read[name] = self._value(item, known.get(name, other))

        if self._convert:
            self._fill_defaults(read, known)

        return read

    def _array(self, value: list[Any] | tuple[Any, ...], schema: Schema) -> list[Any]:
        shape = self._shape(schema, "array")
        first: list[Schema] = shape.get("prefixItems", [])
        rest: Schema = shape.get("items", True)

        return [self._value(item, first[i] if i < len(first) else rest) for i, item in enumerate(value)]

    def _unwrap(self, text: str, schema: Schema) -> Any:
        """JSON text of a list or object, where only a list or object will do."""
        if accepts(schema, "string", self._root):
            return text

        try:
            inner = from_json(text, allow_inf_nan=False)
        except ValueError:
            return text

        kind: JsonKind = "array" if isinstance(inner, list) else "object"

        return inner if isinstance(inner, list | dict) and accepts(schema, kind, self._root) else text

    def _scalar(self, value: Any, schema: Schema) -> Any:
        kind = json_kind(value)

        if kind is None or kind == "null" or accepts(schema, kind, self._root):
            return value

        for wanted in _SCALARS:
            if accepts(schema, wanted, self._root):
                try:
                    return _lax(wanted).validate_python(value)
                except ValidationError:
                    continue

        return value

    def _fill_defaults(self, read: dict[str, Any], known: Mapping[str, Schema]) -> None:
        for name, schema in known.items():
            described = resolve(schema, self._root)

            if name not in read and described.get("default") is not None:
                read[name] = copy.deepcopy(described["default"])

    def _shape(self, schema: Schema, kind: JsonKind) -> Mapping[str, Any]:
        """The one schema that describes the members of such a value; an empty one where there are several."""
        for _ in range(_MAX_STEPS):
            found = resolve(schema, self._root)

            if not _SHAPE_WORDS.isdisjoint(found):
                return found

            branches = [
                branch
                for word in ("anyOf", "oneOf", "allOf")
                for branch in found.get(word, ())
                if accepts(branch, kind, self._root)
            ]

            if len(branches) != 1:
                break

            schema = branches[0]

        return {}


@cache
def _lax(kind: JsonKind) -> TypeAdapter[Any]:
    python: dict[str, Any] = {"integer": int, "number": float, "boolean": bool}

    return TypeAdapter(python[kind], config=ConfigDict(allow_inf_nan=False))
