"""Merging JSON-like values, and telling empty from absent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from simulacra.errors import ConfigurationError

T = TypeVar("T")


def deep_merge(a: Any, b: Any) -> Any:
    """Both values as one, `b` winning. Neither is changed, and no container is shared with them.

    `None` on one side gives the other side, also inside mappings. Lists are joined, mappings are merged key by key,
    of two texts, two numbers or two booleans the second is taken; a boolean is no number.

    Args:
        a: The value merged into.
        b: The value merged in.

    Raises:
        ConfigurationError: `type mismatch` (a list against a mapping, a text against a number, ...) or
            `unsupported type` (anything that is no JSON value); the text names the place.
    """
    return _merge(a, b, "")


def none_if_empty(value: T) -> T | None:
    """`None` for an empty sequence and for a mapping with nothing but `None` in it; other values as they are.

    Texts, bytes and numbers are never empty in this sense.

    Args:
        value: Any value.
    """
    if isinstance(value, Mapping):
        return value if any(item is not None for item in value.values()) else None

    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return value or None

    return value


def _merge(a: Any, b: Any, path: str) -> Any:
    if a is None or b is None:
        return _copy(b if a is None else a)

    kinds = _kind(a, path), _kind(b, path)

    if kinds[0] != kinds[1]:
        raise ConfigurationError(f"type mismatch{path and ' at '}{path}: {kinds[0]} against {kinds[1]}")

    if kinds[0] == "mapping":
        added = {key: _copy(item) for key, item in b.items() if key not in a}
        merged = {key: _merge(item, b.get(key), f"{path}.{key}" if path else str(key)) for key, item in a.items()}

        return merged | added

    return [*_copy(a), *_copy(b)] if kinds[0] == "list" else b


def _kind(value: Any, path: str) -> str:
    if isinstance(value, Mapping):
        return "mapping"

    if isinstance(value, bool):
        return "boolean"

    for kind, types in (("list", (list, tuple)), ("text", (str,)), ("number", (int, float))):
        if isinstance(value, types):
            return kind

    raise ConfigurationError(f"unsupported type{path and ' at '}{path}: {type(value).__name__}")


def _copy(value: Any) -> Any:
    """The value with containers of its own."""
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}

    return [_copy(item) for item in value] if isinstance(value, list | tuple) else value
