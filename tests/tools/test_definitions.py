from __future__ import annotations

import datetime as dt
import functools
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
from simulacra.tools import ToolClass, ToolContext, ToolDescription, check_toolkit, tool

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


@pytest.mark.parametrize(
    "docstring",
    [
        "Find it.\n\nMore.\n\nArgs:\n    query: What to find.\n",
        "Find it.\n\nMore.\n\nParameters\n----------\nquery : str\n    What to find.\n",
        "Find it.\n\nMore.\n\n:param query: What to find.\n:returns: It.\n",
        "Find\n    it.\n\n    Args:\n        query (str): What to\n            find.\n    ",
    ],
)
def test_tls_16_docstrings_of_every_style_are_read(docstring):
    def find(query: str): ...

    find.__doc__ = docstring
    definition = tool(find).get_definition()
    assert definition.description == "Find it."
    assert definition.input_schema()["properties"]["query"]["description"] == "What to find."


def test_tls_16_without_a_docstring_the_name_describes_it():
    @tool
    def silent(): ...

    class Mute(ToolClass):
        def execute(self): ...

    assert silent.get_definition().description == "Tool: silent"
    assert Mute.get_definition().description == "Tool: mute"
    assert tool(lambda: None, name="named").get_definition().description == "Tool: named"


def test_tls_16_a_class_is_described_by_its_own_docstring_before_that_of_execute():
    class Both(ToolClass):
        """Of the class.

        Args:
            a: By the class.
        """

        def execute(self, a: int, b: int):
            """Of execute.

            Args:
                b: By execute.
            """

    class Lower(ToolClass):
        def execute(self):
            """Of execute."""

    assert Both.description == "Of the class."
    assert [item["description"] for item in properties(Both).values()] == ["By the class.", "By execute."]
    assert Lower.description == "Of execute."


@pytest.mark.parametrize(
    ("class_name", "tool_name"),
    [
        ("WebSearchTool", "web_search"),
        ("HTTPFetch", "http_fetch"),
        ("Get2ndPage", "get2nd_page"),
        ("Tool", "tool"),
        ("_PrivateTool", "private"),
    ],
)
def test_tls_15_a_class_is_named_in_snake_case_without_tool(class_name, tool_name):
    made = type(class_name, (ToolClass,), {"execute": lambda self: None})
    assert made.name == tool_name


def test_tls_15_a_function_gives_its_name_and_what_has_none_is_unnamed():
    def lookup(): ...

    class Finder:
        def __call__(self, key: str): ...

        def method(self, key: str): ...

    assert tool(lookup).name == "lookup"
    assert tool(lambda: None).name == "unnamed"
    assert tool(functools.partial(lookup)).name == "unnamed"
    assert tool(Finder()).name == "finder"
    assert tool(Finder().method).name == "method"
    assert tool(lookup, name="other").name == "other"


def test_tls_15_a_name_that_was_set_is_inherited_and_a_derived_one_is_not():
    class Named(ToolClass):
        name = "given"

        def execute(self): ...

    class Derived(WeatherForecastTool): ...

    class Child(Named): ...

    assert Child.name == "given"
    assert Derived.name == "derived"


def test_tls_2_a_description_needs_no_instance_and_is_plain_json():
    class Store(ToolClass):
        """Keep it."""

        name = "store"
        timeout = 5
        parallelizable = False
        effect = "idempotent"
        capabilities = ("write", "disk")
        transactional = True

        def __init__(self, context):
            raise AssertionError("no instance is needed")

        def execute(self, key: str) -> Point: ...

    description = Store.describe()
    assert isinstance(description, ToolDescription)
    assert description.to_dict() == {
        "name": "store",
        "description": "Keep it.",
        "schema": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"key": {"type": "string"}},
            "required": ["key"],
        },
        "capabilities": ["write", "disk"],
        "effect": "idempotent",
        "reversible": False,
        "transactional": True,
        "parallelizable": False,
        "timeout": 5,
        "output_schema": Point.model_json_schema(mode="serialization"),
    }


def test_tls_2_a_description_is_built_once_per_class():
    asked = []

    class Asked(ToolClass):
        @classmethod
        def get_definition(cls):
            asked.append(cls)
            return ToolDefinition(name="asked", description="")

        def execute(self): ...

    assert Asked.describe() is Asked.describe()
    assert asked == [Asked]


def test_tls_17_18_20_23_24_defaults_are_cautious():
    @tool
    def f(): ...

    description = f.describe()
    assert description.capabilities == ("read",)
    assert description.transactional is False
    assert description.effect == "irreversible"
    assert description.timeout == 30.0
    assert description.parallelizable is True
    assert description.output_schema is None


@pytest.mark.parametrize("name", ["17", "18", "20", "23", "24"])
def test_tls_1_an_option_of_the_decorator_is_an_attribute_of_the_class(name):
    option, value = {
        "17": ("capabilities", ("a",)),
        "18": ("transactional", True),
        "20": ("effect", "pure"),
        "23": ("timeout", 1.5),
        "24": ("parallelizable", False),
    }[name]
    decorated = tool(lambda: None, **{option: value})
    assert getattr(decorated, option) == getattr(decorated.describe(), option) == value


def test_tls_19_reversible_is_what_is_pure_or_can_be_undone():
    class Undoable(ToolClass):
        def execute(self): ...

        async def undo(self, receipt): ...

    def f(): ...

    assert Undoable.describe().reversible is True
    assert tool(f, effect="pure").describe().reversible is True
    assert tool(f).describe().reversible is False
    assert tool(f, reversible=True).describe().reversible is True


def test_tls_21_no_parameters_give_the_empty_schema():
    @tool
    def f(): ...

    assert f.get_definition().input_schema() == {"type": "object", "properties": {}, "required": []}


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
