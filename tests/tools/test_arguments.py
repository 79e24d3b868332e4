from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator
from tool_calls import answer, call, result

from simulacra.schema import ToolDefinition, ToolParameter
from simulacra.tools import ToolClass, ToolContext, ToolRunner, tool
from simulacra.tools.readings import Readings

pytestmark = pytest.mark.anyio


class Place(BaseModel):
    name: str
    height: float = 0.0


@dataclass
class Span:
    low: float
    high: float = float("inf")


@tool
def travel(place: Place, tags: list[str], n: int = 3, note: str = "none", speed: float = 1.0, maybe: int | None = 5):
    return {"place": place, "tags": tags, "n": n, "note": note, "speed": speed, "maybe": maybe}


class ByParameters(ToolClass):
    """The same in the original's style."""

    @classmethod
    def get_definition(cls):
        place = [ToolParameter(name="name", type="string", required=True), ToolParameter(name="height", type="number")]
        return ToolDefinition(
            name="by_parameters",
            description="",
            parameters=[
                ToolParameter(name="place", type="object", required=True, properties=place),
                ToolParameter(name="tags", type="array", required=True, items=ToolParameter(type="string")),
                ToolParameter(name="n", type="integer", default=3),
                ToolParameter(name="mode", type="string", enum=["a", "b"]),
                ToolParameter(name="speed", type="number"),
                ToolParameter(name="fast", type="boolean", default=False),
                ToolParameter(name="free", type="object"),
            ],
        )

    def execute(self, params):
        return params


GOOD = {"place": {"name": "Rome"}, "tags": ["a"]}


@pytest.mark.parametrize(
    ("params", "changed"),
    [
        ({}, {}),
        ({"n": "7"}, {"n": 7}),
        ({"n": 7.0}, {"n": 7}),
        ({"speed": 2}, {"speed": 2.0}),
        ({"speed": "2.5"}, {"speed": 2.5}),
        ({"n": None, "speed": None}, {}),
        ({"note": None}, {}),
        ({"maybe": None}, {"maybe": None}),
        ({"tags": '["x", "y"]'}, {"tags": ["x", "y"]}),
        ({"place": '{"name": "Oslo"}'}, {"place": {"name": "Oslo", "height": 0.0}}),
        ({"place": {"name": "Oslo", "height": None}}, {"place": {"name": "Oslo", "height": 0.0}}),
        ({"note": '["x"]'}, {"note": '["x"]'}),
        ({"note": "null"}, {"note": "null"}),
    ],
)
async def test_tls_82_readings_that_lose_nothing_are_always_on(params, changed):
    expected = {
        "place": {"name": "Rome", "height": 0.0},
        "tags": ["a"],
        "n": 3,
        "note": "none",
        "speed": 1.0,
        "maybe": 5,
    }
    assert await result(travel, {**GOOD, **params}) == {"result": True, **expected, **changed}


@pytest.mark.parametrize(
    ("params", "changed"),
    [
        ({}, {}),
        ({"n": "7"}, {"n": 7}),
        ({"n": 7.0}, {"n": 7}),
        ({"speed": 2}, {"speed": 2}),
        ({"speed": "2.5"}, {"speed": 2.5}),
        ({"fast": "true"}, {"fast": True}),
        ({"n": None, "speed": None}, {}),
        ({"tags": '["x", "y"]'}, {"tags": ["x", "y"]}),
        ({"place": '{"name": "Oslo"}'}, {"place": {"name": "Oslo"}}),
        ({"place": {"name": "Oslo", "height": None}}, {"place": {"name": "Oslo"}}),
        ({"place": {"name": "Oslo", "height": "3"}}, {"place": {"name": "Oslo", "height": 3}}),
        ({"free": {"k": [1, None]}}, {"free": {"k": [1, None]}}),
    ],
)
async def test_tls_82_the_same_readings_hold_for_tool_parameters(params, changed):
    expected = {**GOOD, "n": 3, "fast": False}
    read = await result(ByParameters, {**GOOD, **params})
    assert read == {"result": True, **expected, **changed}
    assert type(read["n"]) is int


@pytest.mark.parametrize("tool_class", [travel, ByParameters])
@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"n": "many"}, "/n"),
        ({"n": 1.5}, "/n"),
        ({"n": [1]}, "/n"),
        ({"tags": "x"}, "/tags"),
        ({"tags": '{"a": 1}'}, "/tags"),
        ({"tags": [1, "b"]}, "/tags/0"),
        ({"tags": None}, "/tags"),
        ({"place": "Rome"}, "/place"),
        ({"place": {}}, "/place/name"),
        ({"place": {"name": 3}}, "/place/name"),
        ({"place": {"name": "Rome", "height": "tall"}}, "/place/height"),
        ({"colour": "red"}, "/colour"),
        ({"a/b~c": 1}, "/a~1b~0c"),
        ({"speed": "NaN"}, "/speed"),
        ({"speed": " -Infinity "}, "/speed"),
        ({"speed": "1e999"}, "/speed"),
    ],
)
async def test_tool_9_a_field_that_is_wrong_is_named_and_execute_does_not_run(tool_class, params, path):
    refused = await result(tool_class, {**GOOD, **params})
    assert refused["result"] is False
    assert refused["error"] == "ArgumentsError"
    assert f"{path}: " in refused["message"]
    assert "place" not in refused


async def test_tool_9_every_wrong_field_is_named_at_once():
    refused = await result(travel, {"tags": [1], "n": "x", "colour": "red"})
    message = refused["message"]
    assert all(f"{path}: " in message for path in ("/place", "/tags/0", "/n", "/colour"))
    assert "/place: missing, but required" in message
    assert "/colour: there is no such parameter" in message
    assert "(its parameters are place, tags, n, note, speed, maybe)" in message


async def test_tool_9_unknown_names_are_refused_in_nested_parameters_too():
    refused = await result(ByParameters, {**GOOD, "place": {"name": "Rome", "zip": "1"}})
    assert "/place/zip: there is no such parameter" in refused["message"]


async def test_tool_9_an_enum_of_a_parameter_is_checked():
    assert (await result(ByParameters, {**GOOD, "mode": "c"}))["result"] is False
    assert (await result(ByParameters, {**GOOD, "mode": "b"}))["mode"] == "b"


async def test_tool_10_a_default_is_applied_on_the_way_in():
    assert (await result(ByParameters, GOOD))["n"] == 3
    assert (await result(travel, GOOD))["n"] == 3


async def test_w_tool_1_a_raw_string_never_reaches_execute():
    ran = []

    @tool
    def f(n: int, items: list[int]):
        ran.append((n, items))

    assert (await result(f, {"n": "x", "items": "[1, x]"}))["result"] is False
    assert (await result(f, {"items": []}))["result"] is False
    assert ran == []
    assert (await result(f, {"n": "1", "items": '["2"]'}))["result"] is True
    assert ran == [(1, [2])]


async def test_w_tool_3_null_for_an_optional_parameter_gives_the_python_default():
    marker = object()
    seen = []

    @tool
    def f(a: int = 1, b: str = None, c: Any = marker, d: list[int] = ()):  # noqa: RUF013 -- such signatures exist
        seen.append((a, b, c, d))

    await result(f, {"a": None, "b": None})
    await result(f, {})
    assert seen == [(1, None, marker, ()), (1, None, marker, ())]


async def test_w_tool_3_null_for_a_required_parameter_is_wrong():
    @tool
    def f(a: int): ...

    assert "/a: " in (await result(f, {"a": None}))["message"]


@pytest.mark.parametrize("bad", ["NaN", "nan", " inf", "-Infinity", "1e400"])
async def test_tl_r2_nan_and_infinity_never_pass_wherever_they_stand(bad):
    @tool
    def f(span: Span | None = None, place: Place | None = None, many: dict[str, list[float]] | None = None): ...

    for params, path in [
        ({"span": {"low": bad}}, "/span/low"),
        ({"place": {"name": "x", "height": bad}}, "/place/height"),
        ({"many": {"k": [1, bad]}}, "/many/k/1"),
    ]:
        assert f"{path}: must be a finite number" in (await result(f, params))["message"]

    assert (await result(f, {"span": {"low": 1}}))["result"] is True


async def test_tl_r2_a_tool_never_gets_a_type_it_did_not_declare():
    seen = []

    class Hand(ToolClass):
        @classmethod
        def get_definition(cls):
            schema = {
                "type": "object",
                "properties": {"n": {"type": "integer"}, "flags": {"type": "array", "items": {"type": "boolean"}}},
            }
            return ToolDefinition(name="hand", description="", parameters=schema)

        def execute(self, params):
            seen.append(params)

    await result(Hand, {"n": "4", "flags": ["true", 0]})
    await result(Hand, {"n": 4.0})
    await result(Hand, {"n": "four"})
    await result(Hand, {"flags": ["perhaps"]})
    assert seen == [{"n": 4, "flags": [True, False]}, {"n": 4}]
    assert [type(params["n"]) for params in seen] == [int, int]


async def test_tl_r2_nothing_is_replaced_by_a_default():
    refused = await result(travel, {**GOOD, "n": {}})
    assert "/n: " in refused["message"]


async def test_a_long_value_is_echoed_in_part():
    refused = await result(travel, {**GOOD, "n": "9" * 9000 + "x"})
    assert len(refused["message"]) < 1000


async def test_a_union_is_named_by_the_field_not_by_its_branches():
    @tool
    def f(value: int | list[int]): ...

    assert "/value/1: " in (await result(f, {"value": [1, "x"]}))["message"]
    assert "/value/int" not in (await result(f, {"value": [1, "x"]}))["message"]


async def test_text_in_a_union_of_object_types_is_unwrapped():
    @tool
    def f(value: dict[str, int] | list[int] | None):
        return [value]

    assert (await result(f, {"value": '{"a": 1}'}))["output"] == [{"a": 1}]
    assert (await result(f, {"value": "[1]"}))["output"] == [[1]]
    assert (await result(f, {"value": "1"}))["result"] is False


async def test_a_validator_of_the_tool_that_breaks_fails_that_call():
    def explode(value):
        raise KeyError(value)

    @tool
    def f(value: Annotated[str, BeforeValidator(explode)]): ...

    assert await result(f, {"value": "x"}) == {"result": False, "message": "'x'", "error": "KeyError"}


async def test_references_and_recursive_schemas_are_read_through():
    class Tree(ToolClass):
        @classmethod
        def get_definition(cls):
            node = {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                },
            }
            schema = {"type": "object", "properties": {"top": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
            return ToolDefinition(name="tree", description="", parameters=schema)

        def execute(self, params):
            return params

    given = {"top": {"size": "1", "kids": [{"size": "2", "kids": '[{"size": "3"}]'}]}}
    assert (await result(Tree, given))["top"] == {"size": 1, "kids": [{"size": 2, "kids": [{"size": 3}]}]}


async def test_cc_07_a_tool_that_changes_its_arguments_changes_no_history():
    @tool
    def spoil(x: list[Any], y: dict[str, Any], z: Any):
        x.append(1)
        x[0]["in"] = "spoilt"
        y["k"]["deep"].append(2)
        z.append(3)

    class Hand(ToolClass):
        @classmethod
        def get_definition(cls):
            return ToolDefinition(name="hand", description="", parameters={"type": "object"})

        def execute(self, params):
            params["x"][0]["in"] = "spoilt"
            params["y"]["k"]["deep"].clear()
            del params["z"]

    for tool_class in (spoil, Hand):
        made = call(tool_class.name, {"x": [{"in": 0}], "y": {"k": {"deep": []}}, "z": [[]]})
        before = copy.deepcopy(made)
        done = await ToolRunner([tool_class]).run(made, ToolContext())
        assert done.result.result is True
        assert made == before


async def test_cc_05_a_mutable_default_is_not_shared_by_calls():
    @tool
    def collect(items: list[int] = []):  # noqa: B006 -- this is what the test is about
        items.append(1)
        return items

    assert (await result(collect))["output"] == [1]
    assert (await result(collect))["output"] == [1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_readings_of_what_nothing_is_said_about_are_equal_and_new(params):
    read = Readings({"type": "object"}, convert=True).read(params)
    assert json.dumps(read, sort_keys=True) == json.dumps(params, sort_keys=True)
    assert read is not params


@given(st.dictionaries(st.sampled_from(["place", "tags", "n", "note", "speed", "maybe", "x"]), JSON, max_size=5))
async def test_no_arguments_whatever_break_the_runner(params):
    done = await answer(travel, params)
    assert (done.result.result is True) or done.result.message.startswith("invalid arguments for travel: /")
