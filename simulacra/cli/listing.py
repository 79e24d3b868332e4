"""The list of providers: what is installed, what is ready, and how to get the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires

from simulacra import registry
from simulacra.cli.choosing import keys_present
from simulacra.cli.failures import one_line
from simulacra.errors import ConfigurationError, SimulacraError
from simulacra.provider import ProviderPlugin

_PLUGIN = re.compile(r"^simulacra-([a-z0-9-]+)\b.*extra\s*==")


def describe_providers() -> Iterator[str]:
    """One line per provider, columns aligned: its word, its default model, its state and remedy."""
    rows = [(vendor, *_describe(vendor)) for vendor in registry.installed()]
    rows += [(vendor, "", f"not installed: pip install 'simulacra[{vendor}]'") for vendor in _not_installed()]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]

    for vendor, model, state in rows:
        yield f"{vendor:<{widths[0]}}  {model:<{widths[1]}}  {state}".rstrip()


def _describe(vendor: str) -> tuple[str, str]:
    try:
        found = registry.plugin(vendor)
    except SimulacraError as error:
        return "", f"broken: {one_line(str(error))}"

    model = f"{vendor}:{found.default_model}" if found.default_model else f"{vendor}:NAME"

    return model, _keyed(found) if found.keys else _keyless(found)


def _keyed(found: ProviderPlugin) -> str:
    present = keys_present(found)

    if present:
        return f"ready: {', '.join(present)} is set"

    return f"key missing: {' or '.join(found.keys)} is not set. {found.remedy}".rstrip()


def _keyless(found: ProviderPlugin) -> str:
    """Without a key only building the provider tells whether all is there."""
    if found.default_model is not None:
        try:
            found.create(found.default_model)
        except ConfigurationError as error:
            return f"incomplete: {one_line(str(error))}"

    return "ready: needs no key"


def _not_installed() -> list[str]:
    """Providers that this distribution offers as extras and that are not here."""
    try:
        offered = requires("simulacra") or []
    except PackageNotFoundError:
        return []

    vendors = {match[1] for requirement in offered if (match := _PLUGIN.match(requirement))}

    return sorted(vendors - registry.installed().keys())
