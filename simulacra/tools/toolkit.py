"""A toolkit is checked as a whole when it is set: classes, names, definitions."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from simulacra.errors import ConfigurationError
from simulacra.schema import ToolDefinition
from simulacra.tools.calling import Calling, calling_of
from simulacra.tools.tool import ToolClass, check_tool

logger = logging.getLogger("simulacra.tools")

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolEntry(NamedTuple):
    """A tool of a toolkit.

    Args:
        tool: Its class.
        name: As the model calls it.
        calling: How it is called; `None` when its `get_definition` raised.
        failure: What that raised. Such a tool is not offered, and a call of it is answered with the reason.
    """

    tool: type[ToolClass]
    name: str
    calling: Calling | None = None
    failure: Exception | None = None

    @property
    def definition(self) -> ToolDefinition | None:
        return None if self.calling is None else self.calling.definition


def check_toolkit(tools: Iterable[type[ToolClass]]) -> tuple[type[ToolClass], ...]:
    """Refuse a toolkit that cannot work.

    Args:
        tools: Tool classes; functions decorated with `@tool` count as such.

    Returns:
        The classes.

    Raises:
        ConfigurationError: Something in it is no tool class, a name is taken twice or no vendor accepts it, a
            definition cannot be right; the text says which and what to do.
    """
    return tuple(entry.tool for entry in read_toolkit(tools))


def read_toolkit(tools: Iterable[type[ToolClass]]) -> tuple[ToolEntry, ...]:
    """The tools by name and definition; raises as `check_toolkit`."""
    if isinstance(tools, type | str | Mapping) or not isinstance(tools, Iterable):
        raise ConfigurationError(f"a toolkit is a list of tool classes, not {tools!r}; write [{_label(tools)}]")

    entries: dict[str, ToolEntry] = {}

    for tool in tools:
        entry = _read(tool)
        other = entries.get(entry.name)

        if other is not None:
            raise ConfigurationError(
                f"two tools are named {entry.name!r}: {_origin(other.tool)} and {_origin(tool)}; rename one of them"
            )

        entries[entry.name] = entry

    return tuple(entries.values())


def _read(tool: Any) -> ToolEntry:
    _check_class(tool)
    checked: type[ToolClass] = tool
    check_tool(checked)

    try:
        definition = checked.get_definition()
    except ConfigurationError:
        raise
    except Exception as error:
        logger.exception("tool=<%s> | get_definition raised; the tool is not offered", checked.name)
        _check_name(checked.name, checked)

        return ToolEntry(checked, checked.name, failure=error)

    if not isinstance(definition, ToolDefinition):
        raise ConfigurationError(f"{_origin(tool)}.get_definition returned {definition!r}, not a ToolDefinition")

    _check_name(definition.name, checked)

    return ToolEntry(checked, definition.name, calling_of(checked, definition))


def _check_class(tool: Any) -> None:
    if isinstance(tool, type) and issubclass(tool, ToolClass):
        return

    if isinstance(tool, ToolClass):
        raise ConfigurationError(f"{tool!r} is an instance; put its class {type(tool).__name__} into the toolkit")

    if isinstance(tool, type):
        raise ConfigurationError(f"{_origin(tool)} is no tool class; make it a subclass of ToolClass")

    if callable(tool):
        raise ConfigurationError(f"{_label(tool)} is a plain function; decorate it with @tool to make it a tool")

    raise ConfigurationError(f"{tool!r} is no tool; a toolkit holds ToolClass subclasses and @tool functions")


def _check_name(name: Any, tool: type[ToolClass]) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{_origin(tool)}: the tool name {name!r} is refused by vendors; "
            "use 1 to 64 letters, digits, underscores and hyphens, and set it by `name`"
        )


def _label(tool: Any) -> str:
    return str(getattr(tool, "__name__", None) or repr(tool))


def _origin(tool: Any) -> str:
    return f"{getattr(tool, '__module__', '')}.{getattr(tool, '__qualname__', repr(tool))}"
