"""What was written of a request before is used again, and never in place of something else."""

from __future__ import annotations

import json
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulacra.wire import GrowingJson, growing_json, strict_json

POOL = [{"role": "user", "content": f"message {number}"} for number in range(6)]


@given(st.lists(st.lists(st.sampled_from(POOL), max_size=12), max_size=6))
def test_each_body_is_written_as_it_is_whatever_came_before(histories):
    write = GrowingJson("messages")

    for history in histories:
        body = {"model": "m", "messages": [*history], "stream": True}
        assert json.loads(write(body)) == body


def test_only_what_is_new_is_written():
    write = GrowingJson("messages")
    written = []

    def note(value):
        written.append(value)
        return strict_json(value)

    with patch.object(growing_json, "strict_json", note):
        for length in (6, 8):
            written.clear()
            body = {"messages": (POOL * 2)[:length]}
            assert json.loads(write(body)) == body

    assert [value for value in written if isinstance(value, list)] == [POOL[2:4], [*POOL[4:], *POOL[:2]]]


@pytest.mark.parametrize(("first", "then"), [(1, True), (1, 1.0), (0, False)])
def test_what_is_equal_and_written_otherwise_is_written_anew(first, then):
    write = GrowingJson("messages")

    for value in (first, then):
        body = {"messages": [{"content": value}, *POOL]}
        assert write(body) == strict_json(body)


def test_a_large_request_is_not_kept():
    write = GrowingJson("messages")
    large = {"content": "x" * (growing_json.KEPT_BYTES + 1)}

    for _ in range(2):
        assert write({"messages": [large, *POOL]}) == strict_json({"messages": [large, *POOL]})

    assert write._kept == ([], b"")


@pytest.mark.parametrize("body", [{}, {"messages": None}, {"messages": "text"}, {"model": "m"}])
def test_a_body_without_the_list_is_written_as_any_other(body):
    assert GrowingJson("messages")(body) == strict_json(body)


def test_what_json_cannot_write_is_refused_and_nothing_is_kept_of_it():
    write = GrowingJson("messages")

    for _ in range(2):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write({"messages": [{"content": float("nan")}, *POOL]})

    assert write({"messages": POOL}) == strict_json({"messages": POOL})
