"""Reading a request that may be any JSON: what is not as it should be is passed over, never raised about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic_core import to_json

from simulacra.rules.table import Path

JsonMap = dict[str, Any]


def objects_in(value: Any) -> Iterator[tuple[int, JsonMap]]:
    """The objects in an array, each with its place; none in anything else."""
    return (
        ((at, item) for at, item in enumerate(value) if isinstance(item, dict)) if isinstance(value, list) else iter(())
    )


def map_of(value: Any) -> JsonMap:
    """An object, or an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def text_of(value: Any) -> str:
    """A text, or an empty one in place of anything else."""
    return value if isinstance(value, str) else ""


def is_blank(value: Any) -> bool:
    """Whether a value is no text that says anything (AN-R1)."""
    return not isinstance(value, str) or not value or value.isspace()


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can hold a text: it has no lone surrogate (UN-01)."""
    if text.isascii():
        return True

    try:
        text.encode()
    except UnicodeEncodeError:
        return False

    return True


def is_writable(value: Any) -> bool:
    """Whether a JSON value can be written as UTF-8; asked of the writer, which is quicker than a look at each text."""
    try:
        to_json(value)
    except ValueError:
        return False

    return True


def texts_in(value: Any, *path: str | int) -> Iterator[tuple[Path, str]]:
    """Every text in a JSON value with its path, keys of objects included."""
    waiting: list[tuple[Path, Any]] = [(path, value)]

    while waiting:
        here, found = waiting.pop()

        if isinstance(found, str):
            yield here, found
        elif isinstance(found, dict):
            yield from ((here, key) for key in found if isinstance(key, str))
            waiting += [((*here, key), item) for key, item in found.items()]
        elif isinstance(found, list):
            waiting += [((*here, at), item) for at, item in enumerate(found)]
