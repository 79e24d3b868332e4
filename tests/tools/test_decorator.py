from __future__ import annotations

import functools

import pytest
from tool_calls import result

from simulacra.errors import ConfigurationError
from simulacra.tools import FunctionTool, ToolContext, check_toolkit, tool

pytestmark = pytest.mark.anyio


@tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool(name="greeting", timeout=2.0, effect="pure", parallelizable=False)
async def greet(context: ToolContext[dict[str, str]], who: str) -> str:
    """Greet somebody."""
    return f"{context.data['word']} {who}"


async def test_w_tool_8_a_one_line_tool_needs_no_class():
    assert await result(tool(lambda: "hello")) == {"result": True, "output": "hello"}


async def test_tool_1_a_decorated_function_runs():
    assert await result(add, {"a": 1}) == {"result": True, "output": 3}


def test_a_decorated_function_is_still_that_function():
    assert add(1, b=4) == 5
    assert add.__name__ == "add"
    assert add.__doc__ == "Add two numbers."
    assert add.__module__ == __name__

    with pytest.raises(TypeError):
        add()


async def test_a_decorated_async_function_is_still_awaited():
    assert await greet(ToolContext(context_data={"word": "Hi"}), "Ann") == "Hi Ann"


async def test_a_parameter_for_the_context_gets_it_and_is_not_told():
    assert list(greet.get_definition().input_schema()["properties"]) == ["who"]
    context = ToolContext(context_data={"word": "Hi"})
    assert await result(greet, {"who": "Ann"}, context=context) == {"result": True, "output": "Hi Ann"}
    refused = await result(greet, {"who": "Ann", "context": {}}, context=context)
    assert "/context: there is no such parameter" in refused["message"]


async def test_a_context_parameter_may_be_optional_and_anywhere():
    @tool
    def f(a: int, context: ToolContext | None = None, *, b: int = 1):
        return [a, b, context.tool_request_id]

    assert (await result(f, {"a": 1, "b": 2}))["output"] == [1, 2, "t1"]


def test_tls_1_options_become_attributes():
    assert (greet.name, greet.timeout, greet.effect, greet.parallelizable) == ("greeting", 2.0, "pure", False)
    assert greet.get_definition().parallelizable is False
    assert issubclass(greet, FunctionTool)


def test_tls_1_the_decorator_may_be_called_with_the_function():
    def f(): ...

    assert tool(f, description="Told.").description == "Told."


async def test_tls_25_partials_methods_and_callable_objects_are_tools_too():
    class Multiplier:
        def __init__(self, factor):
            self.factor = factor

        async def __call__(self, n: int) -> int:
            """Multiply."""
            return n * self.factor

        def method(self, n: int) -> int:
            return n + self.factor

    async def power(base: int, exponent: int) -> int:
        return base**exponent

    three = Multiplier(3)
    assert await result(tool(three), {"n": 2}) == {"result": True, "output": 6}
    assert tool(three).description == "Multiply."
    assert await result(tool(three.method), {"n": 2}) == {"result": True, "output": 5}
    assert await result(tool(functools.partial(power, exponent=3)), {"base": 2}) == {"result": True, "output": 8}


@pytest.mark.parametrize("thing", [int, 3, "f", None])
def test_what_is_no_function_is_refused(thing):
    with pytest.raises(ConfigurationError, match="makes a tool of a function"):
        tool()(thing)


def test_an_unknown_option_is_refused():
    with pytest.raises(ConfigurationError, match="does not know colour; it takes name, description"):
        tool(lambda: None, colour="red")


async def test_a_type_that_is_defined_further_down_is_found_when_the_tool_is_used():
    namespace = {"tool": tool}
    exec(
        "from __future__ import annotations\n"
        "@tool\n"
        "def f(value: Later): return value.name\n"
        "from enum import Enum\n"
        "class Later(Enum):\n"
        "    A = 'a'\n",
        namespace,
    )
    assert check_toolkit([namespace["f"]])
    assert (await result(namespace["f"], {"value": "a"}))["output"] == "A"


def test_a_tool_class_is_freed_when_nobody_uses_it_any_more():
    import gc
    import weakref

    def make():
        made = tool(lambda n: n, name="short_lived")
        check_toolkit([made])
        made.describe()
        return weakref.ref(made)

    gone = make()
    gc.collect()
    assert gone() is None
