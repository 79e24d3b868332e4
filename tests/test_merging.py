from __future__ import annotations

import copy
import inspect
import math
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

import simulacra.merging
from simulacra.errors import ConfigurationError
from simulacra.merging import deep_merge, none_if_empty


@pytest.mark.parametrize(
    ("a", "b", "merged"),
    [
        (None, None, None),
        (None, 3, 3),
        ({"x": 1}, None, {"x": 1}),
        ([1, 2], [2, 3], [1, 2, 2, 3]),
        ([], [1], [1]),
        ((1,), [2], [1, 2]),
        ("a", "b", "b"),
        ("a", "", ""),
        (1, 2.5, 2.5),
        (2.5, 0, 0),
        (True, False, False),
        ({"x": 1, "y": 2}, {"y": 3, "z": 4}, {"x": 1, "y": 3, "z": 4}),
        ({"x": 1}, {"x": None}, {"x": 1}),
        ({"x": None}, {"x": 1}, {"x": 1}),
        ({"x": None}, {"y": None}, {"x": None, "y": None}),
        ({"x": {"l": [1], "k": "a"}}, {"x": {"l": [2], "m": True}}, {"x": {"l": [1, 2], "k": "a", "m": True}}),
        ({1: "a"}, {1: "b"}, {1: "b"}),
        (MappingProxyType({"x": 1}), {"y": 2}, {"x": 1, "y": 2}),
    ],
)
def test_util_4_deep_merge(a, b, merged):
    assert deep_merge(a, b) == merged


@pytest.mark.parametrize(
    ("a", "b"), [([1], {"x": 1}), ({"x": 1}, [1]), (1, "1"), ("1", 1), (True, 1), (0, False), ([1], "ab"), ({}, "x")]
)
def test_util_4_different_kinds_do_not_merge(a, b):
    with pytest.raises(ConfigurationError, match="type mismatch"):
        deep_merge(a, b)


@pytest.mark.parametrize(("a", "b"), [({1}, {2}), (object(), 1), (1, object()), (b"a", b"b"), (1j, 1j)])
def test_util_4_values_that_are_no_json_do_not_merge(a, b):
    with pytest.raises(ConfigurationError, match="unsupported type"):
        deep_merge(a, b)


def test_util_4_the_error_names_the_place():
    with pytest.raises(ConfigurationError, match=r"type mismatch at a\.b: list against mapping"):
        deep_merge({"a": {"b": [1]}}, {"a": {"b": {}}})


def test_util_4_inputs_are_neither_changed_nor_shared():
    a, b = {"x": {"l": [1]}, "only": [1]}, {"x": {"l": [2]}, "new": {"k": []}}
    before = copy.deepcopy((a, b))

    merged = deep_merge(a, b)
    merged["x"]["l"].append(9)
    merged["only"].append(9)
    merged["new"]["k"].append(9)

    assert (a, b) == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(value=JSON)
def test_util_4_none_is_neutral(value):
    assert deep_merge(value, None) == value
    assert deep_merge(None, value) == value


@pytest.mark.parametrize("empty", [None, [], (), {}, {"x": None}, {"x": None, "y": None}, range(0)])
def test_util_5_empty_becomes_none(empty):
    assert none_if_empty(empty) is None


@pytest.mark.parametrize("kept", [0, "", False, b"", 0.0, math.nan, [None], [0], {"x": 0}, {"x": None, "y": ""}, set()])
def test_util_5_everything_else_is_returned_unchanged(kept):
    assert none_if_empty(kept) is kept


def test_util_7_there_are_no_dotted_path_helpers():
    functions = inspect.getmembers(simulacra.merging, inspect.isfunction)

    assert [name for name, _ in functions if not name.startswith("_")] == ["deep_merge", "none_if_empty"]
