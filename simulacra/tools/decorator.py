"""`@tool`: a tool class made of a function, which stays callable as the function it is."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Generic, ParamSpec, Self, TypedDict, TypeVar, Unpack, cast, overload

from simulacra.errors import ConfigurationError
from simulacra.schema import ToolDefinition
from simulacra.tools.calling import calling_of
from simulacra.tools.context import ToolContext
from simulacra.tools.docstrings import read_docstring
from simulacra.tools.signature import plain_function, signature_of
from simulacra.tools.tool import Effect, ToolClass, check_tool, snake_case

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class ToolOptions(TypedDict, total=False):
    """What `@tool` takes; each is an attribute of `ToolClass` and has its default there.

    Attributes:
        name: The function's name, unless given; `unnamed` for lambdas and partials.
        description: The first paragraph of the docstring, unless given.
        timeout: Seconds a call may take; `None` or 0 sets no limit.
        effect: What a call leaves behind.
        parallelizable: Whether it may run beside other calls of the same reply.
        capabilities: Labels for people and filters.
        transactional: Promises that a call which did not succeed left no effect.
        reversible: Whether an effect can be undone; `None` works it out.
        schema: JSON Schema of the arguments, kept unchanged; the function then takes one validated mapping.
        asynchronous: Whether the function gives an awaitable; `None` finds out.
    """

    name: str
    description: str
    timeout: float | None
    effect: Effect
    parallelizable: bool
    capabilities: tuple[str, ...]
    transactional: bool
    reversible: bool | None
    schema: Mapping[str, Any] | None
    asynchronous: bool | None


class FunctionTool(ToolClass, Generic[P, R_co]):
    """A tool class made by `@tool`. Calling it calls the function; the engine makes instances by `for_call`."""

    schema: ClassVar[Mapping[str, Any] | None] = None

    def __new__(cls, *args: P.args, **kwargs: P.kwargs) -> R_co:  # type: ignore[misc]  # calling a tool calls its function
        outcome: R_co = cls.execute(*args, **kwargs)

        return outcome

    @classmethod
    def get_definition(cls) -> ToolDefinition:
        if cls.schema is None:
            return super().get_definition()

        return ToolDefinition(
            name=cls.name, description=cls.description, parameters=cls.schema, parallelizable=cls.parallelizable
        )

    @classmethod
    def for_call(cls, context: ToolContext[Any]) -> Self:
        instance = object.__new__(cls)
        instance.context = context

        return instance


@overload
def tool(handler: Callable[P, R_co], /, **options: Unpack[ToolOptions]) -> type[FunctionTool[P, R_co]]: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[P, R_co]], type[FunctionTool[P, R_co]]]: ...


def tool(handler: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Make a tool class of a function: `@tool`, `@tool(...)` or `tool(function, ...)`.

    A parameter annotated `ToolContext` receives the call's context and is not told to the model. The class can be
    called as the function it was made of.

    Args:
        handler: The function, sync or async.
        options: See `ToolOptions`.

    Raises:
        ConfigurationError: An option cannot be right, or the schema is no JSON Schema.
    """
    unknown = sorted(options.keys() - ToolOptions.__annotations__.keys())

    if unknown:
        raise ConfigurationError(
            f"@tool does not know {', '.join(unknown)}; it takes {', '.join(ToolOptions.__annotations__)}"
        )

    namespace = sys._getframe(1).f_locals  # noqa: SLF001 -- annotations may use names of the function around the tool

    def make(function: Callable[..., Any]) -> type[ToolClass]:
        return _make(function, options, namespace)

    return make if handler is None else make(handler)


def _make(function: Any, options: ToolOptions, namespace: Mapping[str, Any]) -> type[ToolClass]:
    if not callable(function) or isinstance(function, type):
        raise ConfigurationError(f"@tool makes a tool of a function, not of {function!r}; subclass ToolClass instead")

    plain = plain_function(function)
    name = _name(function)
    attributes = {
        "name": name,
        "description": read_docstring(plain.__doc__).summary or f"Tool: {options.get('name', name)}",
        "__doc__": plain.__doc__,
        "__module__": plain.__module__,
        "__qualname__": getattr(plain, "__qualname__", name),
        "execute": staticmethod(function),
        "takes_mapping": True if options.get("schema") is not None else None,
        **options,
    }
    made = cast("type[FunctionTool[..., Any]]", type(name, (FunctionTool,), attributes))
    check_tool(made)

    with suppress(ConfigurationError):  # told when the tool is used; a name may still be defined further down
        signature_of(made, namespace)

    if made.schema is not None:
        calling_of(made, made.get_definition())

    return made


def _name(function: Callable[..., Any]) -> str:
    if isinstance(function, functools.partial):
        return "unnamed"

    name = getattr(function, "__name__", None) or snake_case(type(function).__name__)

    return "unnamed" if name == "<lambda>" else name
