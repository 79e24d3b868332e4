from __future__ import annotations

import functools

import pytest
from pydantic import BaseModel

from simulacra.schema import ToolDefinition
from simulacra.tools import ToolClass, ToolDescription, tool


class Point(BaseModel):
    """A place."""

    x: float


class WeatherTool(ToolClass):
    def execute(self): ...


def properties(tool_class):
    return tool_class.get_definition().input_schema()["properties"]


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

    class Derived(WeatherTool): ...

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
