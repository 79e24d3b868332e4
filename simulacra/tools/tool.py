"""The class every tool is: what is told to the model, what it promises, and `execute`."""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FunctionType
from typing import Any, ClassVar, Literal, Self, get_args
from weakref import WeakKeyDictionary

from simulacra.errors import ConfigurationError
from simulacra.schema import ToolDefinition
from simulacra.tools.arguments import SignatureArguments
from simulacra.tools.context import ToolContext
from simulacra.tools.describe import ToolDescription, describe
from simulacra.tools.docstrings import Documentation, read_docstring
from simulacra.tools.signature import signature_of

Effect = Literal["pure", "idempotent", "compensable", "irreversible"]


class _Derived:
    """A class attribute that is worked out for each class until one sets it."""

    def __init__(self, derive: Callable[[type[ToolClass]], str]) -> None:
        self._derive = derive

    def __get__(self, instance: object, owner: type[ToolClass]) -> str:
        return self._derive(owner)


def snake_case(class_name: str) -> str:
    """`HTTPFetch` as `http_fetch`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", class_name).lower().strip("_")


def _class_name(tool: type[ToolClass]) -> str:
    return snake_case(tool.__name__).removesuffix("_tool")


def _first_paragraph(tool: type[ToolClass]) -> str:
    return documentation_of(tool).summary or f"Tool: {tool.name}"


class ToolClass:
    """A tool: subclass it, write a docstring and `execute`.

    What the model is told comes from the signature, the type hints and the docstring of `execute` and the class, or
    from `get_definition` where a subclass overrides that. `execute` is sync (it runs in a thread) or async. It takes
    its parameters by name; with a definition given by hand it may take all of them as one mapping instead. A new
    instance is made for every call, and `self.context` is that call's.

    Attributes:
        name: The class name in snake_case without a trailing `_tool`, unless set.
        description: The first paragraph of the docstring, unless set.
        timeout: Seconds that `execute` may take; `None` or 0 sets no limit.
        parallelizable: Whether it may run beside other calls of the same reply.
        effect: What a call leaves behind; decides whether it may run again.
        capabilities: Labels for people and filters; security never rests on them.
        transactional: Promises that a call which fails, times out or is cancelled left no effect.
        reversible: Whether an effect can be undone; `None` works it out.
        asynchronous: Whether `execute` gives an awaitable; `None` finds out.
        takes_mapping: Whether `execute` takes all arguments as one mapping; `None` finds out.
    """

    name: ClassVar[str] = _Derived(_class_name)  # type: ignore[assignment]  # a descriptor that gives the str
    description: ClassVar[str] = _Derived(_first_paragraph)  # type: ignore[assignment]  # as above
    timeout: ClassVar[float | None] = 30.0
    parallelizable: ClassVar[bool] = True
    effect: ClassVar[Effect] = "irreversible"
    capabilities: ClassVar[tuple[str, ...]] = ("read",)
    transactional: ClassVar[bool] = False
    reversible: ClassVar[bool | None] = None
    asynchronous: ClassVar[bool | None] = None
    takes_mapping: ClassVar[bool | None] = None

    execute: ClassVar[Callable[..., Any]]
    context: ToolContext[Any]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)

        if isinstance(cls.__dict__.get("execute"), FunctionType):
            namespace = sys._getframe(1).f_locals  # noqa: SLF001 -- annotations may use names of the function around it

            with suppress(ConfigurationError):  # told when the tool is used; a name may still be defined further down
                signature_of(cls, namespace)

    def __init__(self, context: ToolContext[Any]) -> None:
        self.context = context

    @classmethod
    def get_definition(cls) -> ToolDefinition:
        """What the model is told."""
        return ToolDefinition(
            name=cls.name,
            description=cls.description,
            parameters=signature_arguments(cls).schema,
            parallelizable=cls.parallelizable,
        )

    @classmethod
    def describe(cls) -> ToolDescription:
        """What people and programs are told; makes no instance."""
        return describe(cls)

    @classmethod
    def for_call(cls, context: ToolContext[Any]) -> Self:
        """The instance that serves one call."""
        tool = cls.__new__(cls)
        tool.context = context  # there before __init__, and also when a subclass forgets to pass it on
        cls.__init__(tool, context)

        return tool


_documentation: WeakKeyDictionary[type, Documentation] = WeakKeyDictionary()
_arguments: WeakKeyDictionary[type, SignatureArguments] = WeakKeyDictionary()


def documentation_of(tool: type[ToolClass]) -> Documentation:
    """What the docstrings of a tool say: the class's own first, then `execute`'s; read once."""
    found = _documentation.get(tool)

    if found is None:
        owners = tool.__mro__[: tool.__mro__.index(ToolClass)]
        of_class = read_docstring(next((owner.__doc__ for owner in owners if owner.__doc__), None))
        of_execute = read_docstring(getattr(getattr(tool, "execute", None), "__doc__", None))
        found = _documentation[tool] = Documentation(
            of_class.summary or of_execute.summary, {**of_class.parameters, **of_execute.parameters}
        )

    return found


def signature_arguments(tool: type[ToolClass]) -> SignatureArguments:
    """The arguments of a tool by the signature of its `execute`; made once.

    Raises:
        ConfigurationError: The signature cannot be described to a model.
    """
    found = _arguments.get(tool)

    if found is None:
        found = _arguments[tool] = SignatureArguments(tool.name, signature_of(tool), documentation_of(tool))

    return found


def check_tool(tool: type[ToolClass]) -> None:
    """Refuse attributes that cannot be right.

    Raises:
        ConfigurationError: Names the tool, the attribute and what is allowed.
    """
    if not callable(getattr(tool, "execute", None)):
        raise ConfigurationError(f"tool {tool.name!r} has no execute; define `def execute(self, ...)`, sync or async")

    try:
        inspect.signature(tool.__init__).bind(None, None)
    except TypeError as error:
        raise ConfigurationError(
            f"tool {tool.name!r}: its constructor is called with the context; write `def __init__(self, context)`"
        ) from error

    timeout = tool.timeout
    numeric = isinstance(timeout, int | float) and not isinstance(timeout, bool)

    if timeout is not None and not (numeric and timeout >= 0 and math.isfinite(timeout)):
        raise ConfigurationError(
            f"tool {tool.name!r}: timeout is seconds, 0 or more, or None for no limit; not {timeout!r}"
        )

    if tool.effect not in get_args(Effect):
        raise ConfigurationError(f"tool {tool.name!r}: effect {tool.effect!r} is none of {', '.join(get_args(Effect))}")
