"""How `execute` wants to be called, read off its signature and type hints."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from simulacra.errors import ConfigurationError
from simulacra.tools.context import ToolContext

_signatures: WeakKeyDictionary[type, Signature] = WeakKeyDictionary()


class Signature(NamedTuple):
    """The parameters of `execute` without `self`, annotations evaluated.

    Args:
        parameters: In order, the one for the context left out.
        context: The name of the parameter that takes the context, if there is one.
        returns: The annotation of the result; `inspect.Parameter.empty` without one.
    """

    parameters: tuple[Parameter, ...]
    context: str | None
    returns: Any

    @property
    def is_open(self) -> bool:
        """Whether it takes arguments it does not name."""
        return any(item.kind in {Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL} for item in self.parameters)

    def arrange(self, values: Mapping[str, Any], context: object) -> tuple[list[Any], dict[str, Any]]:
        """Values by name as positional and keyword arguments, the context among them."""
        named = dict(values)
        placed = [
            named.pop(item.name)
            for item in self.parameters
            if item.kind is Parameter.POSITIONAL_ONLY and item.name in named
        ]

        if self.context is not None:
            named[self.context] = context

        return placed, named


def signature_of(tool: type, namespace: Mapping[str, Any] | None = None) -> Signature:
    """The signature of a tool class's `execute`; read once.

    Args:
        tool: The class.
        namespace: Names that its annotations may use beside those of its module.

    Raises:
        ConfigurationError: It cannot be read, or an annotation names what does not exist at run time.
    """
    found = _signatures.get(tool)

    if found is None:
        found = _signatures[tool] = _read(tool, namespace)

    return found


def plain_function(handler: Any) -> Any:
    """The function behind partials, decorators, bound methods and callable objects."""
    while isinstance(handler, functools.partial | functools.partialmethod):
        handler = handler.func

    if not inspect.isroutine(handler) and not isinstance(handler, type) and callable(handler):
        handler = type(handler).__call__

    return inspect.unwrap(handler)


def is_asynchronous(handler: Callable[..., Any]) -> bool:
    """Whether calling it gives an awaitable, as far as can be told without calling it (TLS-25)."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(plain_function(handler))


def _read(tool: type, namespace: Mapping[str, Any] | None) -> Signature:
    name = getattr(tool, "name", tool.__name__)
    declared = inspect.getattr_static(tool, "execute")
    handler = tool.execute  # type: ignore[attr-defined]  # every caller has checked that there is one

    try:
        parameters = list(inspect.signature(handler).parameters.values())
        hints = get_type_hints(plain_function(handler), localns=_writable(namespace), include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"tool {name!r}: an annotation names {error.name!r}, which does not exist at run time; "
            "import it outside of TYPE_CHECKING, or define it at the top of its module"
        ) from error
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"tool {name!r}: its signature cannot be read ({error}); give the parameters by schema= or get_definition"
        ) from error

    if inspect.isfunction(declared):
        parameters = parameters[1:]

    known = [item.replace(annotation=hints.get(item.name, Any)) for item in parameters]
    contexts = [item.name for item in known if _is_context(item.annotation)]

    return Signature(
        parameters=tuple(item for item in known if item.name not in contexts),
        context=contexts[0] if contexts else None,
        returns=hints.get("return", Parameter.empty),
    )


def _writable(namespace: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if namespace is None else dict(namespace)


def _is_context(annotation: Any) -> bool:
    origin = get_origin(annotation)

    if origin is Annotated:
        return _is_context(get_args(annotation)[0])

    if isinstance(origin, type) and issubclass(origin, ToolContext):
        return True

    if isinstance(annotation, type) and issubclass(annotation, ToolContext):
        return True

    return origin in {Union, UnionType} and any(map(_is_context, get_args(annotation)))
