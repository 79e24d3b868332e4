from __future__ import annotations

import collections
import datetime as dt
import ipaddress
import json
import math
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

import pytest
from pydantic import BaseModel, SecretStr, computed_field
from strange_values import circle, tower

from simulacra.tools.encoding import EncodingError, encode_value


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Word(StrEnum):
    YES = "yes"


class Model(BaseModel):
    when: dt.date
    inner: list[Decimal]

    @computed_field
    def count(self) -> int:
        return len(self.inner)


@dataclass
class Record:
    name: str
    tags: set[str] = field(default_factory=set)


class Pair(NamedTuple):
    a: int
    b: int


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (1.5, 1.5),
        ("text", "text"),
        (10**40, 10**40),
        (math.nan, None),
        (math.inf, None),
        (-math.inf, None),
        (dt.datetime(2026, 1, 2, tzinfo=dt.UTC), "2026-01-02T00:00:00+00:00"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (dt.time(3, 4), "03:04:00"),
        (dt.timedelta(seconds=90), "PT1M30S"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Word.YES, "yes"),
        (PurePosixPath("a/b"), "a/b"),
        (ipaddress.ip_address("127.0.0.1"), "127.0.0.1"),
        (SecretStr("key"), "**********"),
        (b"\xff", {"base64": "/w==", "bytes": 1}),
        (bytearray(b"ab"), {"base64": "YWI=", "bytes": 2}),
        (memoryview(b"ab"), {"base64": "YWI=", "bytes": 2}),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        ((1, [2]), [1, [2]]),
        (Pair(1, 2), [1, 2]),
        (range(3), [0, 1, 2]),
        (collections.deque([1]), [1]),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ({1: "a", None: "b", (1, "x"): "c", False: "d"}, {"1": "a", "false": "d", "null": "b", '[1, "x"]': "c"}),
        ({Colour.RED: 1, dt.date(2026, 1, 2): 2}, {"red": 1, "2026-01-02": 2}),
        (Model(when=dt.date(2026, 1, 2), inner=[Decimal("0.1")]), {"when": "2026-01-02", "inner": ["0.1"], "count": 1}),
        (Record("n", {"b", "a"}), {"name": "n", "tags": ["a", "b"]}),
        ([ValueError("x")], [{"error": "ValueError", "message": "x"}]),
        ("a\ud800b", "a\ufffdb"),
        ("\ud83d\ude00", "\U0001f600"),
        ({"k\udc9d": "\ud800"}, {"k\ufffd": "\ufffd"}),
    ],
)
def test_tls_28_every_value_is_encoded_by_one_rule(value, encoded):
    assert encode_value(value) == encoded
    json.dumps(encode_value(value), allow_nan=False)


def test_tls_28_a_set_of_what_cannot_be_sorted_has_one_order():
    assert encode_value({1, "a", None, 2.5, "b"}) == [None, 2.5, 1, "a", "b"]


@pytest.mark.parametrize(
    ("value", "reason", "place"),
    [
        (circle(), "a value that contains itself", "/top/again/0"),
        (tower(101), "more than 100 levels", "/0" * 100),
        ({"a": [1, object()]}, "an object of type object", "/a/1"),
        ({"a": {1: "x", "1": "y"}}, "two keys that both become '1'", "/a"),
        ((n for n in "ab"), "a generator; return a list", "its top"),
        ([10**5000], "an integer of thousands of digits", "/0"),
        ({"f": len}, "an object of type builtin_function_or_method", "/f"),
    ],
)
def test_tls_28_what_cannot_be_encoded_is_refused_with_its_place(value, reason, place):
    with pytest.raises(EncodingError, match=reason) as caught:
        encode_value(value)

    assert str(caught.value).endswith(place)


def test_tls_28_100_levels_and_a_value_used_twice_are_fine():
    shared = [1]
    assert encode_value(tower(100)) == tower(100)
    assert encode_value({"a": shared, "b": shared}) == {"a": [1], "b": [1]}


def test_the_encoding_shares_nothing_with_the_value():
    value = {"a": [{"b": 1}]}
    encoded = encode_value(value)
    value["a"][0]["b"] = 2
    assert encoded == {"a": [{"b": 1}]}
