from __future__ import annotations

import asyncio
import datetime as dt
import json
import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, computed_field
from strange_values import circle, tower
from tool_calls import answer, call, result

from simulacra.messages import (
    MediaContent,
    TextContent,
    ToolErrorResult,
    ToolResultContent,
    ToolSuccessResult,
    UserMessage,
)
from simulacra.serialization import dump_message_json, load_message_json
from simulacra.tools import ToolContext, ToolRunner, encode_result, tool

pytestmark = pytest.mark.anyio

IMAGE = MediaContent(kind="image", media_type="image/png", data=b"\x89PNG")


@dataclass
class Record:
    name: str
    tags: set[str] = field(default_factory=set)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (None, {"result": True}),
        ({}, {"result": True}),
        ({"a": 1}, {"result": True, "a": 1}),
        ("text", {"result": True, "output": "text"}),
        ([1], {"result": True, "output": [1]}),
        (False, {"result": True, "output": False}),
        (Record("n"), {"result": True, "output": {"name": "n", "tags": []}}),
        ({"result": True, "a": 1}, {"result": True, "a": 1}),
        ({"result": False, "message": "no"}, {"result": False, "message": "no"}),
        ({"result": False, "error": "why"}, {"result": False, "message": "why", "error": "why"}),
        ({"result": False}, {"result": False, "message": "the tool reported a failure"}),
        ({"result": False, "message": {"a": 1}}, {"result": False, "message": '{"a":1}'}),
        ({"result": 42}, {"result": True, "output": {"result": 42}}),
        ({"success": True, "path": "p"}, {"result": True, "success": True, "path": "p"}),
        ({"success": False, "error": "no"}, {"result": False, "message": "no", "success": False, "error": "no"}),
        ({"success": "maybe"}, {"result": True, "success": "maybe"}),
        (ToolSuccessResult(answer=4), {"result": True, "answer": 4}),
        (ToolErrorResult(message="no", error="E", more=1), {"result": False, "message": "no", "error": "E", "more": 1}),
    ],
)
def test_tool_5_plain_returns_are_wrapped(value, encoded):
    assert encode_result(value) == encoded


def test_tls_27_a_tool_that_returns_the_originals_shapes_keeps_every_key():
    failure = {"success": False, "error": "gone", "path": "a.txt", "isDirectory": False}
    assert encode_result(failure).items() >= failure.items()


async def test_tls_27_a_handler_that_fails_gives_message_and_class():
    @tool
    def f():
        raise LookupError("not there")

    assert await result(f) == {"result": False, "message": "not there", "error": "LookupError"}


class Hostile:
    def __getattribute__(self, name):
        raise RuntimeError("leave me alone")


class Evil(BaseModel):
    n: int

    @computed_field
    def bad(self) -> int:
        raise KeyError("bad")


class Loop(BaseModel):
    me: Any = None


def looped():
    value = Loop()
    value.me = value
    return value


STRANGE = {
    "nothing": lambda: None,
    "circle": circle,
    "error": lambda: ValueError("returned"),
    "nan": lambda: math.nan,
    "object": object,
    "deep inside": lambda: {"x": {1: object()}},
    "too deep": lambda: tower(5000),
    "hostile": Hostile,
    "broken field": lambda: Evil(n=1),
    "model in itself": looped,
    "endless": lambda: (n for n in iter(int, 1)),
    "class": lambda: asyncio.Lock,
    "wrong verdict": lambda: {"result": object()},
    "infinities": lambda: [math.inf, {"a": {math.nan}}],
}


@pytest.mark.parametrize("kind", STRANGE)
def test_w_tool_5_every_return_gives_a_result_that_json_holds(kind):
    encoded = encode_result(STRANGE[kind]())
    assert isinstance(encoded["result"], bool)
    assert encoded["result"] or encoded["message"]
    json.dumps(encoded, allow_nan=False).encode()


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("asynchronous", [True, False])
async def test_w_tool_5_no_return_leaves_a_call_open(kind, asynchronous):
    async def later():
        return STRANGE[kind]()

    def now():
        return STRANGE[kind]()

    told = await result(tool(later if asynchronous else now))
    assert isinstance(told["result"], bool)


async def test_w_tool_5_the_deepest_value_that_is_encoded_fits_a_result():
    told = await result(tool(lambda: tower(98)))
    assert json.loads(json.dumps(told)) == {"result": True, "output": tower(98)}
    assert (await result(tool(lambda: tower(100))))["result"] is True


def test_w_tool_5_a_returned_exception_counts_as_raised():
    assert encode_result(ValueError("x")) == {"result": False, "message": "x", "error": "ValueError"}


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=[]))
    | st.binary()
    | st.dates()
    | st.datetimes()
    | st.decimals()
    | st.uuids()
    | st.complex_numbers()
    | st.builds(object),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.integers() | st.text(st.characters(exclude_categories=[])) | st.floats(), inner)
        | st.tuples(inner, inner)
        | st.frozensets(st.integers() | st.text())
    ),
    max_leaves=20,
)


@given(ANYTHING)
def test_tl_r5_whatever_a_tool_returns_passes_a_strict_json_parser(value):
    encoded = encode_result(value)
    assert json.loads(json.dumps(encoded, allow_nan=False).encode().decode()) == encoded


async def test_tl_12_dates_decimals_bytes_and_sets_are_told_and_saved():
    @tool
    def f():
        return {"t": dt.datetime(2026, 1, 2), "d": Decimal("1.10"), "b": b"\xff", "s": {1}}  # noqa: DTZ001 -- as in the case

    done = await answer(f)
    assert done.result.model_dump() == {
        "result": True,
        "t": "2026-01-02T00:00:00",
        "d": "1.10",
        "b": {"base64": "/w==", "bytes": 1},
        "s": [1],
    }
    message = UserMessage((done,), id="m", timestamp=1)
    assert load_message_json(dump_message_json(message)) == message


async def test_un_01_a_lone_surrogate_in_a_result_is_replaced_once():
    @tool
    def f(kind: str):
        if kind == "raise":
            raise ValueError("bad \ud800")

        return {"text": "\ud800", "k\udc9d": ["ok \U0001f600"]} if kind == "return" else TextContent("seen \ud800")

    assert await result(f, {"kind": "return"}) == {"result": True, "text": "\ufffd", "k\ufffd": ["ok \U0001f600"]}
    assert (await result(f, {"kind": "raise"}))["message"] == "bad \ufffd"
    assert (await answer(f, {"kind": "block"})).content == (TextContent("seen \ufffd"),)


@pytest.mark.parametrize(
    ("returned", "told", "content"),
    [
        (IMAGE, {"result": True}, (IMAGE,)),
        (TextContent("t"), {"result": True}, (TextContent("t"),)),
        ([TextContent("t"), IMAGE], {"result": True}, (TextContent("t"), IMAGE)),
        (["caption", IMAGE], {"result": True}, (TextContent("caption"), IMAGE)),
        (({"width": 3}, [IMAGE]), {"result": True, "width": 3}, (IMAGE,)),
        (("a chart", IMAGE), {"result": True, "output": "a chart"}, (IMAGE,)),
        ((IMAGE, "caption"), {"result": True}, (IMAGE, TextContent("caption"))),
        (({"success": False, "error": "dark"}, [IMAGE]), {"result": False, "message": "dark"}, (IMAGE,)),
        (["a", "b"], {"result": True, "output": ["a", "b"]}, ()),
        (("a", "b"), {"result": True, "output": ["a", "b"]}, ()),
        (("a", []), {"result": True, "output": ["a", []]}, ()),
        ([], {"result": True, "output": []}, ()),
    ],
)
async def test_w_tool_7_media_results_go_beside_the_result(returned, told, content):
    @tool
    def f():
        return returned

    done = await answer(f)
    assert done.result.model_dump().items() >= told.items()
    assert done.content == content


async def test_w_tool_7_a_result_block_is_taken_with_its_content():
    @tool
    def with_media():
        return ToolResultContent(tool_request_id="x", tool="y", result=ToolSuccessResult(n=1), content=(IMAGE,))

    @tool
    def without():
        return ToolResultContent(tool_request_id="x", tool="y", result=ToolErrorResult(message="no"))

    done = await answer(with_media)
    assert (done.tool_request_id, done.tool) == ("t1", "with_media")
    assert (done.result.model_dump(), done.content) == ({"result": True, "n": 1}, (IMAGE,))
    assert (await answer(without)).result.model_dump() == {"result": False, "message": "no", "error": None}


async def test_tls_3_the_result_carries_the_id_and_name_of_the_call():
    @tool
    def f(): ...

    done = await ToolRunner([f]).run(call("f", call_id="call-7"), ToolContext())
    assert (done.tool_request_id, done.tool) == ("call-7", "f")


async def test_tl_r4_calls_with_equal_or_empty_ids_are_calls_of_their_own():
    ran = []

    @tool
    def f(n: int):
        ran.append(n)
        return n

    runner = ToolRunner([f])

    for call_id in ("same", "same", "", ""):
        done = await runner.run(call("f", {"n": len(ran)}, call_id=call_id), ToolContext(tool_request_id=call_id))
        assert done.tool_request_id == call_id
        assert done.result.model_dump()["output"] == ran[-1]

    assert ran == [0, 1, 2, 3]
