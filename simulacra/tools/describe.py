"""What a tool says about itself, to people and to programs, without an instance of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from inspect import Parameter
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pydantic import PydanticUserError, TypeAdapter

from simulacra.errors import ConfigurationError
from simulacra.messages import MediaContent, TextContent, ToolErrorResult, ToolSuccessResult
from simulacra.tools.signature import signature_of

if TYPE_CHECKING:
    from simulacra.tools.tool import Effect, ToolClass

_SAYS_NOTHING = frozenset({Parameter.empty, Any, None, type(None)})
_NO_JSON = (MediaContent, TextContent, ToolErrorResult, ToolSuccessResult)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDescription:
    """A tool, described.

    Args:
        name: As the model calls it.
        description: What it does.
        schema: JSON Schema of its arguments.
        capabilities: Labels for people and filters.
        effect: What a call leaves behind.
        reversible: Whether that can be undone.
        transactional: Whether a call that did not succeed left nothing behind.
        parallelizable: Whether it may run beside other calls.
        timeout: Seconds a call may take; `None` is no limit.
        output_schema: JSON Schema of what it returns, where its annotation tells.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    capabilities: tuple[str, ...]
    effect: Effect
    reversible: bool
    transactional: bool
    parallelizable: bool
    timeout: float | None
    output_schema: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The description as plain JSON values."""
        return {**asdict(self), "capabilities": list(self.capabilities)}


_descriptions: WeakKeyDictionary[type, ToolDescription] = WeakKeyDictionary()


def describe(tool: type[ToolClass]) -> ToolDescription:
    """Describe a tool class; runs none of its code but `get_definition`, and that once."""
    found = _descriptions.get(tool)

    if found is None:
        found = _descriptions[tool] = _describe(tool)

    return found


def _describe(tool: type[ToolClass]) -> ToolDescription:
    definition = tool.get_definition()
    undoes = tool.effect == "pure" or hasattr(tool, "undo")

    return ToolDescription(
        name=definition.name,
        description=definition.description,
        schema=definition.input_schema(),
        capabilities=tuple(tool.capabilities),
        effect=tool.effect,
        reversible=undoes if tool.reversible is None else tool.reversible,
        transactional=tool.transactional,
        parallelizable=definition.parallelizable,
        timeout=tool.timeout or None,
        output_schema=_output_schema(tool),
    )


def _output_schema(tool: type[ToolClass]) -> dict[str, Any] | None:
    try:
        returns = signature_of(tool).returns

        if returns in _SAYS_NOTHING or returns in _NO_JSON:
            return None

        return TypeAdapter(returns).json_schema(mode="serialization")
    except (ConfigurationError, PydanticUserError, TypeError):  # it tells nothing that JSON Schema has words for
        return None
