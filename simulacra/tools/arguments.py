"""From the arguments a model sent to the call of `execute`: read, checked, converted, defaults applied.

A signature is checked by the pydantic model made of it, a schema given by hand by a JSON Schema validator. Whatever is
wrong is told at once, field by field; nothing is replaced by a guess and `execute` never sees a type it did not declare.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from inspect import Parameter
from typing import Annotated, Any, Protocol, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PydanticSchemaGenerationError, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUndefinedAnnotation, PydanticUserError
from pydantic_core import to_json

from simulacra.errors import ConfigurationError, ToolError
from simulacra.schema import Fault, SchemaValidator, model_schema, pointer
from simulacra.tools.docstrings import Documentation
from simulacra.tools.readings import Readings
from simulacra.tools.signature import Signature

ECHO_LIMIT = 500


class ArgumentsError(ToolError):
    """Arguments a tool cannot be called with.

    Args:
        tool: The tool's name.
        faults: Each field that is wrong, and why.
        known: The parameters there are.
    """

    def __init__(self, tool: str, faults: Sequence[Fault], *, known: Sequence[str]) -> None:
        parameters = f"its parameters are {', '.join(known)}" if known else "it has no parameters"
        super().__init__(f"invalid arguments for {tool}: {'; '.join(map(str, faults))} ({parameters})")
        self.faults = tuple(faults)


class ArgumentReader(Protocol):
    """Reads arguments; what it returns shares no container with what it was given."""

    def faults_or_values(self, params: Mapping[str, Any]) -> list[Fault] | dict[str, Any]:
        """The values by parameter name, or everything that is wrong."""
        ...


class SchemaArguments:
    """Arguments by a JSON Schema; the values are JSON values.

    Args:
        schema: The schema, an object's.

    Raises:
        ConfigurationError: It is no JSON Schema.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._validator = SchemaValidator(schema)
        self._readings = Readings(schema, convert=True)

    def faults_or_values(self, params: Mapping[str, Any]) -> list[Fault] | dict[str, Any]:
        values = self._readings.read(params)
        faults = list(_not_finite(values, ())) or self._validator.faults(values)

        return [_bounded(fault) for fault in faults] or values


class SignatureArguments:
    """Arguments by signature and type hints; the values have the declared types.

    Args:
        name: The tool's name.
        signature: What `execute` takes.
        documentation: Texts of its parameters.

    Raises:
        ConfigurationError: A parameter cannot be described to a model.
    """

    def __init__(self, name: str, signature: Signature, documentation: Documentation) -> None:
        fields: dict[str, Any] = {}

        for index, parameter in enumerate(signature.parameters):
            if parameter.kind in {Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL}:
                raise ConfigurationError(
                    f"tool {name!r}: {parameter} cannot be described to a model; "
                    "name the parameters, or give them by schema= or get_definition"
                )

            fields[f"value_{index}"] = _field(parameter, documentation.parameters.get(parameter.name))

        try:
            self._model = create_model("arguments", __config__=ConfigDict(extra="forbid"), **fields)
            self.schema = model_schema(self._model)
        except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUndefinedAnnotation) as error:
            raise ConfigurationError(
                f"tool {name!r}: a parameter's type cannot be described to a model: {error}"
            ) from error
        except (PydanticUserError, TypeError) as error:
            raise ConfigurationError(f"tool {name!r}: its parameters do not work: {error}") from error

        self._names = {f"value_{index}": item.name for index, item in enumerate(signature.parameters)}
        self._readings = Readings(self.schema, convert=False)

    def faults_or_values(self, params: Mapping[str, Any]) -> list[Fault] | dict[str, Any]:
        given = self._readings.read(params)

        try:
            read = self._model.model_validate_json(to_json(given))
        except ValidationError as error:
            return [_fault(item, given) for item in error.errors(include_url=False, include_context=False)]

        plain = all(type(item) in _FINITE for item in vars(read).values())
        faults = [] if plain else list(_not_finite(read, ()))

        return faults or {name: getattr(read, attribute) for attribute, name in self._names.items()}


# Of these types every value is fine; looking no further spares most calls the search.
_FINITE = frozenset({int, str, bool, bytes, type(None)})


def _field(parameter: Parameter, description: str | None) -> tuple[Any, Any]:
    """The model's field; its attribute has a name of its own, as `schema` or `copy` would hide what a model is."""
    annotation = parameter.annotation
    base, *extras = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    ours = Field(alias=parameter.name, description=description)
    default = ... if parameter.default is Parameter.empty else parameter.default

    return Annotated[(base, ours, *extras)], default


def _fault(error: Mapping[str, Any], given: Any) -> Fault:
    kind, reason, place = error["type"], str(error["msg"]), pointer(list(_place(error["loc"], given)))

    match kind:
        case "missing":
            return Fault(place, "missing, but required")
        case "extra_forbidden":
            return Fault(place, "there is no such parameter")
        case _:
            return _bounded(Fault(place, f"{reason} (got {to_json(error['input'], fallback=repr).decode()})"))


def _place(location: Sequence[str | int], given: Any) -> Iterator[str | int]:
    """The steps of pydantic's path that lead through the input; it also names the branches of unions."""
    for position, step in enumerate(location):
        inside = step in given if isinstance(given, Mapping) else isinstance(given, list) and step in range(len(given))
        names_member = isinstance(given, Mapping) and position == len(location) - 1

        if inside or names_member:
            yield step

        if inside:
            given = given[step]


def _bounded(fault: Fault) -> Fault:
    reason = fault.reason

    return fault if len(reason) <= ECHO_LIMIT else Fault(fault.path, f"{reason[:ECHO_LIMIT]}...")


def _not_finite(value: Any, place: tuple[str | int, ...]) -> Iterator[Fault]:
    """NaN and infinity, however they came in; pydantic takes them as text. Defaults may be what they like."""
    match value:
        case float() if not math.isfinite(value):
            yield Fault(pointer(place), "must be a finite number")
        case Mapping():
            for key, item in value.items():
                yield from _not_finite(item, (*place, str(key)))
        case list() | tuple() | set() | frozenset():
            for index, item in enumerate(value):
                yield from _not_finite(item, (*place, index))
        case BaseModel():
            for name in value.model_fields_set:
                field = type(value).model_fields.get(name)
                yield from _not_finite(getattr(value, name), (*place, (field and field.alias) or name))
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            for member in dataclasses.fields(value):
                item = getattr(value, member.name, None)

                if item is not member.default:
                    yield from _not_finite(item, (*place, member.name))
        case _:
            return
