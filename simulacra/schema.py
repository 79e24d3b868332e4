"""Tool definitions and their parameters: the only writer and reader of JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

ParameterType = Literal["string", "number", "integer", "boolean", "object", "array"]


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
    """

    name: str = ""
    type: ParameterType
    description: str = ""
    required: bool = False
    default: Any = None
    enum: Sequence[str] | None = None
    properties: Sequence[ToolParameter] | None = None
    items: ToolParameter | None = None


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

    def input_schema(self) -> dict[str, Any]:
        """The parameters as one JSON Schema object."""
        if isinstance(self.parameters, Mapping):
            return dict(self.parameters)

        return _object_schema(self.parameters)


def parameter_schema(parameter: ToolParameter) -> dict[str, Any]:
    """One parameter as JSON Schema; `required` is the parent's affair."""
    schema: dict[str, Any] = {"type": parameter.type}

    if parameter.description:
        schema["description"] = parameter.description

    if parameter.enum is not None:
        schema["enum"] = list(parameter.enum)

    if parameter.default is not None:
        schema["default"] = parameter.default

    if parameter.items is not None:
        schema["items"] = parameter_schema(parameter.items)

    if parameter.properties is not None:
        schema.update(_object_schema(parameter.properties))

    return schema


def _object_schema(parameters: Sequence[ToolParameter]) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {parameter.name: parameter_schema(parameter) for parameter in parameters},
    }
    required = [parameter.name for parameter in parameters if parameter.required]

    if required:
        schema["required"] = required

    return schema
