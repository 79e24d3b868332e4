"""Finding providers by name: `"vendor:model"` through the entry points of the group `simulacra.providers`."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points, metadata
from typing import Any

from simulacra.errors import ConfigurationError
from simulacra.provider import ModelProvider, ProviderPlugin

GROUP = "simulacra.providers"


def installed() -> dict[str, EntryPoint]:
    """The installed providers by the vendor's word; nothing is imported."""
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def plugin(vendor: str) -> ProviderPlugin:
    """Load one provider plugin.

    Args:
        vendor: The vendor's word, for example `"openai"`.

    Raises:
        ConfigurationError: It is not installed, or what is installed cannot be loaded or is no plugin.
    """
    points = installed()

    if vendor not in points:
        known = ", ".join(points) or "none"
        raise ConfigurationError(f"unknown provider {vendor!r}. Installed: {known}. {_how_to_install(vendor)}")

    try:
        loaded = points[vendor].load()
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"provider {vendor!r} is installed but cannot be loaded: {error}. "
            f"Install it again with: pip install --force-reinstall 'simulacra[{vendor}]'"
        ) from error

    if not isinstance(loaded, ProviderPlugin):
        raise ConfigurationError(
            f"entry point {points[vendor].value!r} is no ProviderPlugin but {type(loaded).__name__}"
        )

    return loaded


def resolve(name: str, **options: Any) -> ModelProvider:
    """Build a provider from its name.

    Args:
        name: `"vendor:model"`, or `"vendor"` where the plugin has a default model.
        options: Keyword options of the provider's constructor.

    Raises:
        ConfigurationError: Unknown vendor, missing model, or an option the provider refuses.
    """
    vendor, _, model = name.partition(":")
    found = plugin(vendor)
    chosen = model or found.default_model

    if not chosen:
        raise ConfigurationError(f"provider {name!r} names no model. Write 'vendor:model', for example '{vendor}:NAME'")

    return found.create(chosen, **options)


def _how_to_install(vendor: str) -> str:
    extras = metadata("simulacra").get_all("Provides-Extra") or []
    command = f"pip install 'simulacra[{vendor if vendor in extras else 'all'}]'"

    return f"Install it with: {command}" if vendor in extras else f"{command} installs all that come with the engine"
