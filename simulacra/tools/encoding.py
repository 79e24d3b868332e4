"""Any value as a JSON value, by one rule (TLS-28).

========================  ==========================================================
value                     JSON
========================  ==========================================================
text                      itself, lone surrogates as U+FFFD
float                     itself; NaN and the infinities are `null`
datetime, date, time      ISO 8601 text
Decimal, UUID, path       text
Enum                      its value
bytes                     `{"base64": ..., "bytes": <how many>}`
mapping                   object; keys that are no text become their JSON text
list, tuple, sequence     array
set                       array, sorted
dataclass, pydantic       object of its fields
exception                 `{"error": <class>, "message": ...}`
========================  ==========================================================

Further single values go by pydantic's rules (durations, URLs, IP addresses, ...). What is left is refused by its place:
a value inside itself, more than 100 levels, two keys that become one, an object nobody knows.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from simulacra.cleaning import clean_text
from simulacra.errors import ToolError
from simulacra.schema import pointer

MAX_DEPTH = 100
_MAX_INTEGER_BITS = 10_000  # Python writes integers of at most 4300 digits


class EncodingError(ToolError):
    """A value JSON has no place for; the text says where it stands."""


def encode_value(value: Any) -> Any:
    """The value as a JSON value; everything in it is new.

    Args:
        value: Anything.

    Raises:
        EncodingError: Something in it cannot be written; names the place as a JSON pointer.
    """
    return _Encoder().encode(value)


class _Encoder:
    """One pass over one value; knows where it is and which containers are open."""

    def __init__(self) -> None:
        self._place: list[str | int] = []
        self._open: set[int] = set()

    def encode(self, value: Any) -> Any:
        match value:
            case Enum():
                return self.encode(value.value)
            case None | bool():
                return value
            case str():
                return clean_text(str.__str__(value))
            case int():
                return self._integer(value)
            case float():
                return float(value) if math.isfinite(value) else None
            case dt.date() | dt.time():
                return value.isoformat()
            case Decimal() | UUID() | PurePath():
                return clean_text(str(value))
            case bytes() | bytearray() | memoryview():
                return {"base64": base64.b64encode(bytes(value)).decode("ascii"), "bytes": len(bytes(value))}
            case BaseException():
                return {"error": type(value).__name__, "message": clean_text(str(value))}
            case _:
                return self._compound(value)

    def _compound(self, value: Any) -> Any:
        if id(value) in self._open:
            raise self._refuse("a value that contains itself")

        if len(self._place) >= MAX_DEPTH:
            raise self._refuse(f"more than {MAX_DEPTH} levels")

        self._open.add(id(value))

        try:
            return self._members(value)
        finally:
            self._open.discard(id(value))

    def _members(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return self._object(value)

        if isinstance(value, BaseModel):
            return self.encode(self._fields(value))

        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._object({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})

        if isinstance(value, AbstractSet):
            return self._array(_in_order(value))

        return self._array(value) if isinstance(value, Sequence) else self._single(value)

    def _object(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        encoded: dict[str, Any] = {}

        for key, item in value.items():
            name = self._key(key)

            if name in encoded:
                raise self._refuse(f"two keys that both become {name!r}")

            encoded[name] = self._inside(name, item)

        return encoded

    def _array(self, value: Sequence[Any]) -> list[Any]:
        return [self._inside(index, item) for index, item in enumerate(value)]

    def _inside(self, step: str | int, item: Any) -> Any:
        self._place.append(step)
        encoded = self.encode(item)
        self._place.pop()

        return encoded

    def _key(self, key: Any) -> str:
        encoded = self.encode(key)

        return encoded if isinstance(encoded, str) else json.dumps(encoded, ensure_ascii=False)

    def _integer(self, value: int) -> int:
        if value.bit_length() > _MAX_INTEGER_BITS:
            raise self._refuse("an integer of thousands of digits")

        return int(value)

    def _fields(self, value: BaseModel) -> Any:
        try:
            return value.model_dump(warnings=False)
        except (ValueError, PydanticSerializationError) as error:
            raise self._refuse(f"a {type(value).__name__} that cannot be written ({error})") from error

    def _single(self, value: Any) -> Any:
        if isinstance(value, Iterator):
            raise self._refuse(f"a {type(value).__name__}; return a list of what it yields")

        try:
            return to_jsonable_python(value)
        except (PydanticSerializationError, ValueError) as error:
            raise self._refuse(f"an object of type {type(value).__name__}") from error

    def _refuse(self, what: str) -> EncodingError:
        return EncodingError(f"{what} at {pointer(self._place) or 'its top'}")


def _in_order(values: AbstractSet[Any]) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda item: (type(item).__name__, repr(item)))
