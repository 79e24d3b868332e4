"""Strict JSON, quickly."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from simulacra.wire import strict_json


@pytest.mark.parametrize(
    "value", [{"a": [1, 2.5, None, True, "ü🙂"]}, "NaN", {"Infinity": "-Infinity"}, [1e22, -0.0, 10**30], {"": ""}]
)
def test_what_is_written_reads_back_the_same(value: Any) -> None:
    assert json.loads(strict_json(value)) == value


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_tl_r5_numbers_that_json_does_not_know_are_refused(number: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        strict_json({"a": [number]})


def test_un_01_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogate"):
        strict_json({"a": "\ud83d"})
