from __future__ import annotations

import functools

import pytest
from tool_calls import call

from simulacra.errors import ConfigurationError, ToolError
from simulacra.schema import ToolDefinition
from simulacra.tools import ToolClass, ToolContext, ToolRunner, check_toolkit, tool

pytestmark = pytest.mark.anyio


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class SearchTool(ToolClass):
    def execute(self, query: str): ...


def named(name):
    return type("Made", (ToolClass,), {"name": name, "execute": lambda self: None})


def test_a_toolkit_is_any_iterable_of_classes():
    assert check_toolkit([]) == ()
    assert check_toolkit(iter([add, SearchTool])) == (add, SearchTool)


def test_tool_8_two_tools_of_one_name_are_refused():
    class Other(ToolClass):
        name = "search"

        def execute(self): ...

    with pytest.raises(ConfigurationError, match=r"two tools are named 'search': .*SearchTool and .*Other"):
        check_toolkit([SearchTool, add, Other])

    with pytest.raises(ConfigurationError, match="two tools are named 'add'"):
        check_toolkit([add, add])


@pytest.mark.parametrize("name", ["", "a" * 65, "get date", "größe", "a.b", "a/b", "a\n", "\x00", None, 3])
def test_tool_8_a_name_that_vendors_refuse_is_refused(name):
    with pytest.raises(ConfigurationError, match="1 to 64 letters, digits, underscores and hyphens"):
        check_toolkit([named(name)])


@pytest.mark.parametrize("name", ["a", "A-b_9", "a" * 64])
def test_tool_8_a_name_that_vendors_take_is_taken(name):
    assert check_toolkit([named(name)])


def test_w_tool_6_the_name_of_a_definition_counts_not_that_of_the_class():
    class Fine(ToolClass):
        @classmethod
        def get_definition(cls):
            return ToolDefinition(name="not fine", description="")

        def execute(self): ...

    with pytest.raises(ConfigurationError, match="'not fine'"):
        check_toolkit([Fine])


@pytest.mark.parametrize(
    ("toolkit", "remedy"),
    [
        ([lambda: None], "decorate it with @tool"),
        ([functools.partial(print)], "decorate it with @tool"),
        ([SearchTool(ToolContext())], "put its class SearchTool into the toolkit"),
        ([int], "make it a subclass of ToolClass"),
        (["search"], "ToolClass subclasses and @tool functions"),
        ([None], "ToolClass subclasses and @tool functions"),
        ([[add]], "ToolClass subclasses and @tool functions"),
        (SearchTool, r"write \[SearchTool\]"),
        ("search", "a toolkit is a list of tool classes"),
        ({"add": add}, "a toolkit is a list of tool classes"),
        (None, "a toolkit is a list of tool classes"),
        ([ToolClass], "define `def execute"),
    ],
)
def test_what_is_no_tool_class_is_refused_with_the_remedy(toolkit, remedy):
    with pytest.raises(ConfigurationError, match=remedy):
        check_toolkit(toolkit)


@pytest.mark.parametrize("timeout", [-1, -0.001, float("nan"), float("inf"), "30", True])
def test_tls_30_a_timeout_that_is_none_is_refused(timeout):
    with pytest.raises(ConfigurationError, match="'made': timeout is seconds, 0 or more, or None"):
        check_toolkit([type("Made", (ToolClass,), {"timeout": timeout, "execute": lambda self: None})])

    with pytest.raises(ConfigurationError, match="timeout is seconds"):
        tool(lambda: None, timeout=timeout)


@pytest.mark.parametrize("source", ["def __init__(self): ...", "def __init__(self, context, more): ..."])
def test_a_constructor_that_cannot_be_called_with_the_context_is_refused(source):
    namespace = {"execute": lambda self: None}
    exec(source, namespace)

    with pytest.raises(ConfigurationError, match=r"write `def __init__\(self, context\)`"):
        check_toolkit([type("Made", (ToolClass,), namespace)])


def test_tls_20_an_unknown_effect_is_refused():
    with pytest.raises(ConfigurationError, match="effect 'harmless' is none of pure, idempotent"):
        tool(lambda: None, effect="harmless")


def test_tls_21_a_hand_made_schema_is_checked_when_the_toolkit_is_set():
    class Bad(ToolClass):
        @classmethod
        def get_definition(cls):
            return ToolDefinition(name="bad", description="", parameters={"type": "object", "required": "all"})

        def execute(self, params): ...

    with pytest.raises(ConfigurationError, match="no valid JSON Schema"):
        check_toolkit([Bad])


def test_a_definition_of_the_wrong_kind_is_refused():
    class Wrong(ToolClass):
        @classmethod
        def get_definition(cls):
            return {"name": "wrong"}

        def execute(self): ...

    with pytest.raises(ConfigurationError, match="not a ToolDefinition"):
        check_toolkit([Wrong])


class BrokenTool(ToolClass):
    @classmethod
    def get_definition(cls):
        raise KeyError("catalogue")

    def execute(self): ...


async def test_w_tool_2_a_definition_that_raises_fails_the_calls_of_that_tool_only():
    runner = ToolRunner([add, BrokenTool])
    assert [definition.name for definition in runner.definitions] == ["add"]
    broken = await runner.run(call("broken"), ToolContext())
    assert broken.result.model_dump() == {
        "result": False,
        "message": "broken cannot be used, its definition failed: 'catalogue'",
        "error": "KeyError",
    }
    fine = await runner.run(call("add", {"a": 1, "b": 2}), ToolContext())
    assert fine.result.model_dump() == {"result": True, "output": 3}


async def test_w_tool_2_a_constructor_that_raises_fails_that_call_only():
    class Moody(ToolClass):
        def __init__(self, context):
            if context.data["mood"] == "bad":
                raise ToolError("not today")

        def execute(self):
            return "fine"

    runner = ToolRunner([Moody])
    bad = await runner.run(call("moody"), ToolContext(context_data={"mood": "bad"}))
    good = await runner.run(call("moody"), ToolContext(context_data={"mood": "good"}))
    assert bad.result.model_dump() == {"result": False, "message": "not today", "error": "ToolError"}
    assert good.result.model_dump() == {"result": True, "output": "fine"}


async def test_w_tool_6_definitions_are_built_once():
    asked = []

    class Asked(ToolClass):
        @classmethod
        def get_definition(cls):
            asked.append(cls)
            return ToolDefinition(name="asked", description="")

        def execute(self): ...

    runner = ToolRunner([Asked])
    await runner.run(call("asked"), ToolContext())
    await runner.run(call("asked"), ToolContext())
    assert runner.definitions is runner.definitions
    assert asked == [Asked]


def test_the_runner_answers_questions_about_names():
    class Alone(ToolClass):
        parallelizable = False
        effect = "pure"

        def execute(self): ...

    runner = ToolRunner([add, Alone, BrokenTool])
    assert (runner.find("add"), runner.find("none")) == (add, None)
    assert [runner.is_parallelizable(name) for name in ("add", "alone", "none", "broken")] == [True, False, True, True]
    assert [runner.effect(name) for name in ("add", "alone", "none")] == ["irreversible", "pure", "irreversible"]


@pytest.mark.parametrize("limits", [{"max_result_bytes": 10}, {"thread_limit": 0}])
def test_limits_that_cannot_be_right_are_refused(limits):
    with pytest.raises(ConfigurationError, match="is at least"):
        ToolRunner([], **limits)


def test_cc_05_runners_share_nothing():
    first, second = ToolRunner([]), ToolRunner([add])
    second.retries["add"] += 1
    assert first.definitions == ()
    assert not first.retries
