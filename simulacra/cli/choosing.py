"""Who answers, and with which tools."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from simulacra import registry
from simulacra.cli.failures import one_line
from simulacra.errors import ConfigurationError, SimulacraError
from simulacra.provider import ModelProvider, ProviderPlugin
from simulacra.tools import ToolClass


@dataclass(frozen=True, slots=True)
class Choice:
    """Who answers, and why, unless the user said so."""

    provider: ModelProvider
    reason: str = ""


def choose_model(name: str | None) -> Choice:
    """The model asked for; else one whose key is set; else the one that needs none.

    Args:
        name: `"vendor:name"`, or nothing.

    Raises:
        ConfigurationError: There is no such model, or none at all.
    """
    if name is not None:
        return Choice(registry.resolve(name))

    plugins = [found for found in map(loaded, registry.installed()) if found is not None]
    keyed = [(found, key) for found in plugins for key in keys_present(found)]

    for found, key in keyed:
        if found.default_model:
            reason = f"{found.kind}:{found.default_model} answers: {key} is set"
            return Choice(registry.resolve(found.kind), reason)

    for found in plugins:
        if found.default_model and not found.keys:
            answering = f"{found.kind}:{found.default_model} answers, on this machine"
            others = ", ".join(f"{key} is set: --model {other.kind}:NAME" for other, key in keyed)
            reason = (
                f"No --model given: {answering} ({others})"
                if others
                else (f"No key is set: {answering} (see: simulacra providers)")
            )
            return Choice(registry.resolve(found.kind), reason)

    raise ConfigurationError(
        "no model to talk to: install the local one with: pip install 'simulacra[local]', or set a key (see: "
        "simulacra providers)"
    )


def loaded(vendor: str) -> ProviderPlugin | None:
    """The plugin, or `None` when it cannot be loaded; `simulacra providers` tells why."""
    try:
        return registry.plugin(vendor)
    except SimulacraError:
        return None


def keys_present(found: ProviderPlugin) -> list[str]:
    return [key for key in found.keys if os.environ.get(key)]


def load_tool(name: str) -> type[ToolClass]:
    """Import a tool; modules in the working directory are found, too.

    Args:
        name: `"module:Name"`.

    Raises:
        ConfigurationError: It cannot be imported, or is no tool.
    """
    module_name, _, attribute = name.partition(":")

    if not module_name or not attribute:
        raise ConfigurationError(f"--tool {name!r}: write it as 'module:Name', for example 'my_tools:Search'")

    here = str(Path.cwd())

    if here not in sys.path:
        sys.path.insert(0, here)

    try:
        found = getattr(import_module(module_name), attribute)
    except AttributeError:
        raise ConfigurationError(f"--tool {name!r}: module {module_name!r} has no {attribute!r}") from None
    except Exception as error:
        reason = f"{type(error).__name__}: {one_line(str(error))}"
        raise ConfigurationError(f"--tool {name!r}: {module_name!r} cannot be imported ({reason})") from error

    if not isinstance(found, type) or not issubclass(found, ToolClass):
        raise ConfigurationError(
            f"--tool {name!r} is no tool but {type(found).__name__}: it has to be a subclass of ToolClass, or a function "
            f"decorated with @tool"
        )

    return found
