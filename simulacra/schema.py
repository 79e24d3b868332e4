"""Tool definitions and their parameters: the only writer and reader of JSON Schema.

A schema is written from `ToolParameter`s or from a pydantic model, and read to ask what a value may be and to check
one. What arrives as a JSON Schema object is kept as it is.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError

from simulacra.errors import ConfigurationError

ParameterType = Literal["string", "number", "integer", "boolean", "object", "array"]
JsonKind = Literal["null", "boolean", "integer", "number", "string", "array", "object"]
Schema = Mapping[str, Any] | bool

# How far one reference may lead to the next before it counts as a circle.
_MAX_HOPS = 64
_ANYTHING: Mapping[str, Any] = {}
_NOTHING: Mapping[str, Any] = {"enum": []}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolParameter:
    """One parameter, in the original's form.

    Args:
        name: Name of the argument; of no meaning for `items`.
        type: JSON type.
        description: What the model reads.
        required: Whether the model must give it.
        default: Shown to the model and applied on the way in; optional primitives only.
        enum: Allowed strings.
        properties: Members of an object.
        items: What an array holds.

    Raises:
        ConfigurationError: The fields do not fit each other.
    """

    name: str = ""
    type: ParameterType
    description: str = ""
    required: bool = False
    default: Any = None
    enum: Sequence[str] | None = None
    properties: Sequence[ToolParameter] | None = None
    items: ToolParameter | None = None

    def __post_init__(self) -> None:
        fault = _parameter_fault(self)

        if fault:
            raise ConfigurationError(f"parameter {self.name or '(unnamed)'!r}: {fault}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """What the model is told about a tool.

    Args:
        name: Matches `[A-Za-z0-9_-]{1,64}`.
        description: What the tool does.
        parameters: `ToolParameter`s, or a JSON Schema object that is kept unchanged.
        parallelizable: Whether it may run beside other calls of the same reply.
    """

    name: str
    description: str
    parameters: Sequence[ToolParameter] | Mapping[str, Any] = ()
    parallelizable: bool = True

    def __post_init__(self) -> None:
        given = self.parameters
        taken = copy.deepcopy(dict(given)) if isinstance(given, Mapping) else tuple(given)
        object.__setattr__(self, "parameters", taken)  # taken as a value: later changes of it change nothing here

    def input_schema(self) -> dict[str, Any]:
        """The parameters as one JSON Schema object."""
        if isinstance(self.parameters, Mapping):
            return dict(self.parameters)

        return _object_schema(self.parameters, closed=False)

    def strict_schema(self) -> dict[str, Any]:
        """`input_schema` for checking: objects made of `ToolParameter`s allow no other members."""
        if isinstance(self.parameters, Mapping):
            return dict(self.parameters)

        return _object_schema(self.parameters, closed=True)


def parameter_schema(parameter: ToolParameter, *, closed: bool = False) -> dict[str, Any]:
    """One parameter as JSON Schema; `required` is the parent's affair.

    Args:
        parameter: The parameter.
        closed: Whether objects refuse members that are not listed.
    """
    schema: dict[str, Any] = {"type": parameter.type}

    if parameter.description:
        schema["description"] = parameter.description

    if parameter.enum is not None:
        schema["enum"] = list(parameter.enum)

    if parameter.default is not None:
        schema["default"] = parameter.default

    if parameter.items is not None:
        schema["items"] = parameter_schema(parameter.items, closed=closed)

    if parameter.properties is not None:
        schema.update(_object_schema(parameter.properties, closed=closed))

    return schema


def model_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of what a pydantic model accepts, without the titles pydantic makes up."""
    if not model.model_fields:
        return _object_schema((), closed=False)

    schema = model.model_json_schema(schema_generator=_SchemaWriter)
    schema.pop("title", None)

    return schema


def json_kind(value: Any) -> JsonKind | None:
    """The JSON type of a value; `None` for what is no JSON value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return None


def resolve(schema: Schema, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow a local `$ref`; what cannot be followed allows everything.

    Args:
        schema: A schema inside `root`.
        root: The whole document.
    """
    for _ in range(_MAX_HOPS):
        if isinstance(schema, bool):
            return _ANYTHING if schema else _NOTHING

        reference = schema.get("$ref")

        if not isinstance(reference, str):
            return schema

        schema = _look_up(reference, root)

    return _ANYTHING


def accepts(schema: Schema, kind: JsonKind, root: Mapping[str, Any]) -> bool:
    """Whether some value of this JSON type can be right; when in doubt, yes.

    Args:
        schema: A schema inside `root`.
        kind: The JSON type asked for.
        root: The whole document, for `$ref`.
    """
    return _accepts(schema, kind, root, {})


def _accepts(schema: Schema, kind: JsonKind, root: Mapping[str, Any], known: dict[int, bool]) -> bool:
    schema = resolve(schema, root)

    if id(schema) not in known:
        known[id(schema)] = True  # a schema that contains itself says nothing more
        branches = [
            any(_accepts(branch, kind, root, known) for branch in _listed(schema, word))
            for word in ("anyOf", "oneOf")
            if word in schema
        ]
        known[id(schema)] = (
            _names_kind(schema, kind)
            and all(branches)
            and all(_accepts(branch, kind, root, known) for branch in _listed(schema, "allOf"))
        )

    return known[id(schema)]


def _names_kind(schema: Mapping[str, Any], kind: JsonKind) -> bool:
    types = schema.get("type")
    types = [types] if isinstance(types, str) else types

    if isinstance(types, list) and kind not in types and not (kind == "integer" and "number" in types):
        return False

    if "const" in schema and json_kind(schema["const"]) != kind:
        return False

    return "enum" not in schema or kind in map(json_kind, _listed(schema, "enum"))


def _listed(schema: Mapping[str, Any], word: str) -> Sequence[Any]:
    found = schema.get(word)

    return found if isinstance(found, list | tuple) else ()


class Fault(NamedTuple):
    """What is wrong with a value, and where: `path` is a JSON pointer, empty for the value itself (RFC 6901)."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.reason}"


def pointer(parts: Sequence[str | int]) -> str:
    """The JSON pointer of a path."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)


class SchemaValidator:
    """Checks JSON values against a JSON Schema that was given by hand.

    Args:
        schema: The schema; its draft is read off `$schema`, 2020-12 without one.

    Raises:
        ConfigurationError: It is no JSON Schema, or a `$ref` leads out of it. Nothing is ever fetched.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        import jsonschema_rs  # noqa: PLC0415 -- most tools are validated by pydantic and never need it

        try:
            self._validator = jsonschema_rs.validator_for(dict(schema), validate_formats=True, offline=True)
        except ValueError as error:
            place = pointer(getattr(error, "instance_path", ()))
            message = str(getattr(error, "message", error))
            raise ConfigurationError(f"no valid JSON Schema (at {place or '/'}): {message}") from error

    def faults(self, value: Any) -> list[Fault]:
        """What is wrong with a JSON value; empty when nothing is."""
        return [fault for error in self._validator.iter_errors(value) for fault in _faults(error)]


def _faults(error: Any) -> list[Fault]:
    place: list[str | int] = list(error.instance_path)

    match error.kind.name:
        case "additionalProperties" | "unevaluatedProperties":
            return [Fault(pointer([*place, name]), "there is no such parameter") for name in error.kind.unexpected]
        case "required":
            return [Fault(pointer([*place, error.kind.property]), "missing, but required")]
        case _:
            return [Fault(pointer(place), error.message)]


class _SchemaWriter(GenerateJsonSchema):
    """pydantic's writer, less what only costs tokens, and with defaults that every JSON parser reads."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        if kind != "non-serializable-default":
            super().emit_warning(kind, detail)

    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema

        return False

    def encode_default(self, dft: Any) -> Any:
        if isinstance(dft, float) and not math.isfinite(dft):
            raise PydanticSerializationError("JSON has no word for this number")

        return super().encode_default(dft)


def _look_up(reference: str, root: Mapping[str, Any]) -> Schema:
    if not reference.startswith("#"):
        return True

    found: Any = root

    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")

        if not isinstance(found, Mapping) or name not in found:
            return True

        found = found[name]

    return found if isinstance(found, Mapping | bool) else True


def _object_schema(parameters: Sequence[ToolParameter], *, closed: bool) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {parameter.name: parameter_schema(parameter, closed=closed) for parameter in parameters},
    }
    required = [parameter.name for parameter in parameters if parameter.required]

    if required or not parameters:
        schema["required"] = required

    if closed:
        schema["additionalProperties"] = False

    return schema


def _parameter_fault(parameter: ToolParameter) -> str | None:
    kind, default = parameter.type, parameter.default

    if kind not in get_args(ParameterType):
        return f"type {kind!r} is none of {', '.join(get_args(ParameterType))}"

    if parameter.enum is not None and (kind != "string" or not all(isinstance(item, str) for item in parameter.enum)):
        return "enum lists strings, and only for type 'string'"

    if parameter.properties is not None and kind != "object":
        return f"properties belong to type 'object', not {kind!r}"

    if parameter.items is not None and kind != "array":
        return f"items belong to type 'array', not {kind!r}"

    if default is None:
        return None

    if parameter.required:
        return "a required parameter takes no default; drop one of the two"

    if kind in {"object", "array"} or not accepts({"type": kind}, json_kind(default) or "null", {}):
        return f"default {default!r} is no {kind}; defaults are for optional strings, numbers and booleans"

    return None
