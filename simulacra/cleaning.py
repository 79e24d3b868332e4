"""Text and JSON values that every JSON document and every UTF-8 file can hold, put right once, where they enter."""

from __future__ import annotations

import math
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator


def clean_text(text: str) -> str:
    """Replace lone surrogates by U+FFFD and join surrogate pairs; every other text comes back as it is.

    No JSON document and no UTF-8 file can hold a lone surrogate, so it is replaced once, where text enters.
    """
    if text.isascii():
        return text

    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    return text


def clean_json(value: Any) -> Any:
    """`clean_text` for every text inside a JSON value, keys included; containers are made anew."""
    if isinstance(value, str):
        return clean_text(value)

    if isinstance(value, dict):
        return {clean_json(key): clean_json(item) for key, item in value.items()}

    if isinstance(value, list | tuple):
        return [clean_json(item) for item in value]

    return value


def require_json(value: Any) -> Any:
    """As `clean_json`, but everything in it has to be a JSON value.

    Args:
        value: JSON values; bytes are let through, storage writes them as tagged base64.

    Raises:
        ValueError: There is something in it that no JSON document can hold, such as NaN or a set.
    """
    if value is None or isinstance(value, bool | int | bytes):
        return value

    if isinstance(value, str):
        return clean_text(value)

    if isinstance(value, dict):
        return {_require_key(key): require_json(item) for key, item in value.items()}

    if isinstance(value, list | tuple):
        return [require_json(item) for item in value]

    if isinstance(value, float) and math.isfinite(value):
        return value

    raise ValueError(f"{value!r:.100} is no JSON value")


def _require_key(key: Any) -> str:
    if isinstance(key, str):
        return clean_text(key)

    raise ValueError(f"a JSON object has texts as keys, not {key!r:.100}")


def _clean_input(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) else value


def _refuse_text(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError("bytes are expected; base64 text has to be valid, and decoded first")  # noqa: TRY004 -- pydantic reports ValueError

    return value


Text: TypeAlias = Annotated[str, BeforeValidator(_clean_input)]
Bytes: TypeAlias = Annotated[bytes, BeforeValidator(_refuse_text)]
JsonObject: TypeAlias = Annotated[dict[str, Any], BeforeValidator(require_json)]
