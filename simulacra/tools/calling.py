"""How calls of one tool are made: which reader checks the arguments, and in which form `execute` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from inspect import Parameter
from typing import Any
from weakref import WeakKeyDictionary

from simulacra.errors import ConfigurationError
from simulacra.schema import ToolDefinition
from simulacra.tools.arguments import ArgumentReader, ArgumentsError, SchemaArguments
from simulacra.tools.signature import Signature, signature_of
from simulacra.tools.tool import ToolClass, signature_arguments


class Calling:
    """The way from a call's arguments to what `execute` is given.

    Args:
        tool: The tool's class.
        definition: What the model was told. Where that is not what the signature says, the arguments are checked
            against the definition first, and then converted to the declared types.

    Raises:
        ConfigurationError: The definition holds no valid JSON Schema, or the signature cannot be read.
    """

    def __init__(self, tool: type[ToolClass], definition: ToolDefinition) -> None:
        schema = definition.strict_schema()
        self.definition = definition
        self._known: tuple[str, ...] = tuple(schema.get("properties", ()))
        self._signature = signature_of(tool)
        self._mapping: str | None = None
        self._readers: list[ArgumentReader] = []

        if not _is_derived(tool, definition):
            self._readers.append(SchemaArguments(schema))
            self._mapping = _mapping_parameter(tool, self._signature, self._known)

        if self._mapping is None and not self._signature.is_open:
            declared = signature_arguments(tool)
            self._readers.append(declared)
            _check_names(definition.name, set(self._known), declared.schema)

    def arrange(self, params: Mapping[str, Any], context: object) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments for `execute`; they share nothing with `params`.

        Raises:
            ArgumentsError: The arguments are not what the model was told to send.
        """
        values: Mapping[str, Any] = params

        for reader in self._readers:
            read = reader.faults_or_values(values)

            if isinstance(read, list):
                raise ArgumentsError(self.definition.name, read, known=self._known)

            values = read

        return self._signature.arrange(values if self._mapping is None else {self._mapping: values}, context)


_callings: WeakKeyDictionary[type, Calling] = WeakKeyDictionary()


def calling_of(tool: type[ToolClass], definition: ToolDefinition) -> Calling:
    """How this tool is called under this definition; made anew only when the definition changed."""
    found = _callings.get(tool)

    if found is None or found.definition != definition:
        found = _callings[tool] = Calling(tool, definition)

    return found


def _is_derived(tool: type[ToolClass], definition: ToolDefinition) -> bool:
    with suppress(ConfigurationError):
        return definition.parameters == signature_arguments(tool).schema

    return False


def _check_names(tool: str, told: set[str], declared: Mapping[str, Any]) -> None:
    unknown = sorted(told - set(declared["properties"]))
    unreachable = sorted(set(declared.get("required", ())) - told)

    if unknown or unreachable:
        raise ConfigurationError(
            f"tool {tool!r}: definition and execute do not fit: "
            f"{', '.join(unknown) or 'nothing'} is told to the model but not taken by execute, "
            f"{', '.join(unreachable) or 'nothing'} is required by execute but not told to the model"
        )


def _mapping_parameter(tool: type[ToolClass], signature: Signature, known: tuple[str, ...]) -> str | None:
    """The parameter that takes all arguments as one mapping: the only one, of a name the definition does not use."""
    single = signature.parameters[0] if len(signature.parameters) == 1 else None

    if single is None or single.kind in {Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL}:
        return None

    takes_mapping = single.name not in known if tool.takes_mapping is None else tool.takes_mapping

    return single.name if takes_mapping else None
