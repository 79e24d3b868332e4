from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field
from tool_calls import result
from typing_extensions import TypedDict

from simulacra.errors import ConfigurationError
from simulacra.schema import ToolDefinition, ToolParameter
from simulacra.tools import ToolClass, ToolContext, check_toolkit, tool

pytestmark = pytest.mark.anyio


class Unit(Enum):
    METRIC = "metric"
    IMPERIAL = "imperial"


class Point(BaseModel):
    """A place."""

    x: float
    y: float = 0.0


ORIGIN = Point(x=1)


@dataclass
class Area:
    corner: Point
    size: int = 1


class Options(TypedDict):
    deep: bool


class Node(BaseModel):
    name: str
    children: list[Node] = []


class WeatherForecastTool(ToolClass):
    """Tell the weather.

    It knows the next ten days.

    Args:
        city: Where to look.
        days: How many days,
            from tomorrow on.
    """

    async def execute(self, city: str, days: int = 3) -> dict[str, Any]:
        return {"city": city, "days": days}


class ClassicTool(ToolClass):
    @classmethod
    def get_definition(cls) -> ToolDefinition:
        return ToolDefinition(
            name="classic",
            description="In the original's style.",
            parameters=[ToolParameter(name="city", type="string", required=True)],
            parallelizable=False,
        )

    def __init__(self, context: ToolContext) -> None:
        self.own = context

    async def execute(self, params):
        return {"city": params["city"], "id": self.own.tool_request_id}


def properties(tool_class):
    return tool_class.get_definition().input_schema()["properties"]


async def test_tool_1_a_class_with_a_definition_and_params_works():
    assert await result(ClassicTool, {"city": "Rome"}) == {"result": True, "city": "Rome", "id": "t1"}


async def test_tool_1_a_class_with_a_signature_works():
    assert await result(WeatherForecastTool, {"city": "Rome"}) == {"result": True, "city": "Rome", "days": 3}


async def test_tool_1_a_new_instance_is_made_for_every_call():
    made = []

    class Counting(ToolClass):
        def __init__(self, context):
            super().__init__(context)
            made.append(self)

        async def execute(self):
            return self.context.tool_request_id

    await result(Counting)
    await result(Counting)
    assert len({id(instance) for instance in made}) == 2


async def test_tool_1_the_context_is_there_even_when_init_forgets_it():
    class Forgetful(ToolClass):
        def __init__(self, context):
            self.early = self.context.tool_request_id

        async def execute(self):
            return self.early + self.context.tool_request_id

    assert (await result(Forgetful))["output"] == "t1t1"


def test_tool_1_a_decorated_function_is_a_tool_class():
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    assert check_toolkit([add, WeatherForecastTool]) == (add, WeatherForecastTool)
    assert issubclass(add, ToolClass)


async def test_tool_2_the_definition_comes_from_signature_hints_and_docstring():
    definition = WeatherForecastTool.get_definition()
    assert definition == ToolDefinition(
        name="weather_forecast",
        description="Tell the weather.",
        parameters={
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "city": {"type": "string", "description": "Where to look."},
                "days": {"type": "integer", "default": 3, "description": "How many days, from tomorrow on."},
            },
            "required": ["city"],
        },
        parallelizable=True,
    )


def test_tool_10_defaults_stand_in_the_schema():
    @tool
    def f(n: int = 4, unit: Unit = Unit.METRIC, at: Point = ORIGIN): ...

    assert properties(f)["n"]["default"] == 4
    assert properties(f)["unit"]["default"] == "metric"
    assert properties(f)["at"]["default"] == {"x": 1.0, "y": 0.0}


async def test_w_tool_7_rich_types_are_described_and_arrive_as_declared():
    seen = {}

    @tool
    def f(
        *,
        n: Annotated[int, Field(ge=1, le=9)],
        ratio: float,
        code: Annotated[str, Field(pattern="^[A-Z]+$")],
        day: dt.date,
        key: UUID,
        unit: Unit,
        mode: Literal["a", "b"],
        only: Literal[1],
        maybe: int | None,
        either: int | str,
        free: dict[str, int],
        point: Point,
        area: Area,
        options: Options,
        tree: Node,
        pair: tuple[int, str],
        names: set[str],
        path: Path,
    ):
        seen.update({name: value for name, value in locals().items() if name != "seen"})

    schema = f.get_definition().input_schema()
    described = schema["properties"]
    assert described["n"] == {"type": "integer", "minimum": 1, "maximum": 9}
    assert described["code"]["pattern"] == "^[A-Z]+$"
    assert described["day"] == {"type": "string", "format": "date"}
    assert described["mode"] == {"type": "string", "enum": ["a", "b"]}
    assert described["only"] == {"type": "integer", "const": 1}
    assert described["maybe"]["anyOf"] == [{"type": "integer"}, {"type": "null"}]
    assert described["free"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}

    given = {
        "n": 3,
        "ratio": 1,
        "code": "AB",
        "day": "2026-01-02",
        "key": "12345678-1234-5678-1234-567812345678",
        "unit": "imperial",
        "mode": "a",
        "only": 1,
        "maybe": None,
        "either": "x",
        "free": {"k": 1},
        "point": {"x": 1},
        "area": {"corner": {"x": 2}},
        "options": {"deep": True},
        "tree": {"name": "r", "children": [{"name": "c"}]},
        "pair": [1, "a"],
        "names": ["a", "b"],
        "path": "a/b",
    }
    assert await result(f, given) == {"result": True}
    assert seen == {
        "n": 3,
        "ratio": 1.0,
        "code": "AB",
        "day": dt.date(2026, 1, 2),
        "key": UUID("12345678-1234-5678-1234-567812345678"),
        "unit": Unit.IMPERIAL,
        "mode": "a",
        "only": 1,
        "maybe": None,
        "either": "x",
        "free": {"k": 1},
        "point": Point(x=1),
        "area": Area(corner=Point(x=2)),
        "options": {"deep": True},
        "tree": Node(name="r", children=[Node(name="c")]),
        "pair": (1, "a"),
        "names": {"a", "b"},
        "path": Path("a/b"),
    }


@pytest.mark.parametrize("name", ["schema", "copy", "json", "model_config", "self", "validate", "_hidden", "class_"])
async def test_parameters_may_have_names_that_pydantic_uses_itself(name):
    namespace: dict[str, Any] = {}
    exec(f"def f({name}: int): return {name} + 1", namespace)
    assert await result(tool(namespace["f"]), {name: 1}) == {"result": True, "output": 2}


async def test_a_field_may_give_a_parameter_the_name_the_model_sees():
    @tool
    def f(from_: Annotated[str, Field(alias="from", description="Start.")], to: str = Field("home", max_length=5)):
        return [from_, to]

    assert properties(f) == {
        "from": {"type": "string", "description": "Start."},
        "to": {"type": "string", "default": "home", "maxLength": 5},
    }
    assert (await result(f, {"from": "here"}))["output"] == ["here", "home"]
    assert (await result(f, {"from": "here", "to": "too far"}))["result"] is False


async def test_annotations_may_name_types_of_the_function_around_the_tool():
    class Colour(Enum):
        RED = "red"

    @tool
    def paint(colour: Colour):
        return colour is Colour.RED

    class Painter(ToolClass):
        def execute(self, colour: Colour):
            return colour is Colour.RED

    assert await result(paint, {"colour": "red"}) == {"result": True, "output": True}
    assert await result(Painter, {"colour": "red"}) == {"result": True, "output": True}


async def test_positional_only_parameters_work():
    @tool
    def power(base: int, exponent: int = 2, /):
        return base**exponent

    assert (await result(power, {"base": 3}))["output"] == 9
    assert (await result(power, {"base": 3, "exponent": 3}))["output"] == 27


@pytest.mark.parametrize("source", ["def f(*values): ...", "def f(a, **more): ..."])
def test_open_signatures_are_refused_with_the_remedy(source):
    namespace: dict[str, Any] = {}
    exec(source, namespace)

    with pytest.raises(ConfigurationError, match="name the parameters, or give them by schema= or get_definition"):
        check_toolkit([tool(namespace["f"])])


def test_a_type_nobody_can_describe_is_refused_when_the_toolkit_is_set():
    class Opaque: ...

    @tool
    def f(value: Opaque): ...

    with pytest.raises(ConfigurationError, match="'f'.*cannot be described"):
        check_toolkit([f])


def test_an_annotation_that_does_not_exist_at_run_time_is_named():
    @tool
    def f(value: OnlyForTypeCheckers): ...  # noqa: F821 -- this is what the test is about

    with pytest.raises(ConfigurationError, match="'OnlyForTypeCheckers'.*TYPE_CHECKING"):
        check_toolkit([f])


async def test_tls_21_22_a_schema_given_by_hand_is_kept_and_its_handler_gets_one_mapping():
    schema = {"type": "object", "properties": {"n": {"type": "integer", "default": 2}, "params": {"type": "string"}}}

    @tool(schema=schema, description="By hand.")
    def f(params, context: ToolContext):
        return {"got": params, "id": context.tool_request_id}

    assert f.get_definition().parameters == schema
    assert f.get_definition().description == "By hand."
    assert (await result(f, {"n": "3"}))["got"] == {"n": 3}
    assert (await result(f, {"params": "x"}))["got"] == {"n": 2, "params": "x"}
    assert (await result(f, {"n": "x"}))["result"] is False


def test_tls_21_a_schema_that_is_none_is_refused_when_the_tool_is_made():
    with pytest.raises(ConfigurationError, match="no valid JSON Schema"):
        tool(lambda params: None, schema={"type": "nothing"})


async def test_tls_22_a_handler_that_returns_nothing_succeeds():
    assert await result(tool(lambda: None)) == {"result": True}


async def test_a_definition_by_hand_may_go_with_a_keyword_signature():
    class Mixed(ToolClass):
        @classmethod
        def get_definition(cls):
            return ToolDefinition(
                name="mixed",
                description="",
                parameters=[
                    ToolParameter(name="day", type="string", required=True),
                    ToolParameter(name="n", type="integer"),
                ],
            )

        def execute(self, day: dt.date, n: int = 7):
            return [type(day).__name__, n]

    assert (await result(Mixed, {"day": "2026-01-02"}))["output"] == ["date", 7]
    assert (await result(Mixed, {"day": "someday"}))["result"] is False
    assert (await result(Mixed, {"day": "2026-01-02", "n": None}))["output"] == ["date", 7]


def test_a_definition_by_hand_that_does_not_fit_execute_is_refused():
    class Torn(ToolClass):
        @classmethod
        def get_definition(cls):
            return ToolDefinition(name="torn", description="", parameters=[ToolParameter(name="a", type="string")])

        def execute(self, b: str, c: str): ...

    with pytest.raises(ConfigurationError, match="a is told to the model but not taken.*b, c is required"):
        check_toolkit([Torn])


async def test_a_derived_definition_may_be_refined():
    class Refined(WeatherForecastTool):
        @classmethod
        def get_definition(cls):
            derived = super().get_definition()
            return ToolDefinition(name="refined", description="Better.", parameters=derived.parameters)

    assert Refined.get_definition().description == "Better."
    assert (await result(Refined, {"city": "Rome", "days": "2"}))["days"] == 2
