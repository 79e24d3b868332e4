from __future__ import annotations

import functools

import pytest
from tool_calls import answer, call, result

from simulacra.errors import ToolError, ToolRetry
from simulacra.schema import ToolDefinition
from simulacra.streaming import parse_arguments
from simulacra.tools import ToolClass, ToolContext, ToolRunner, tool

pytestmark = pytest.mark.anyio


@tool
def get_date(zone: str = "UTC") -> str:
    """Tell the date."""
    return f"2026-01-02 {zone}"


@tool
def write(path: str, content: str):
    raise AssertionError("never runs in these tests")


async def run(tools, made, **options):
    return (await ToolRunner(tools, **options).run(made, ToolContext())).result.model_dump()


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("bad zone"), {"message": "bad zone", "error": "ValueError"}),
        (ToolError("cannot"), {"message": "cannot", "error": "ToolError"}),
        (RuntimeError(), {"message": "RuntimeError", "error": "RuntimeError"}),
        (KeyError("k"), {"message": "'k'", "error": "KeyError"}),
        (StopIteration(3), {"message": "3", "error": "StopIteration"}),
        (SystemExit(2), {"message": "2", "error": "SystemExit"}),
        (Unspeakable(), {"message": "Unspeakable", "error": "Unspeakable"}),
        (
            ExceptionGroup("one", [ExceptionGroup("two", [ValueError("leaf")])]),
            {"message": "leaf", "error": "ValueError"},
        ),
        (RecursionError("deep"), {"message": "deep", "error": "RecursionError"}),
    ],
)
@pytest.mark.parametrize("style", ["sync", "async"])
async def test_tool_6_what_a_tool_raises_is_its_error_result(error, told, style):
    def fail():
        raise error

    async def fail_later():
        raise error

    done = await result(tool(fail if style == "sync" else fail_later))

    if isinstance(error, StopIteration) and style == "async":  # Python itself turns it into a RuntimeError
        told = {"message": "coroutine raised StopIteration", "error": "RuntimeError"}

    assert done == {"result": False, **told}


async def test_tool_6_a_group_of_several_errors_is_told_as_a_group():
    @tool
    def f():
        raise ExceptionGroup("two things", [ValueError("a"), ValueError("b")])

    assert await result(f) == {
        "result": False,
        "message": "two things (2 sub-exceptions)",
        "error": "ExceptionGroup",
    }


async def test_tl_r1_what_a_tool_raises_is_logged_with_its_traceback(caplog):
    @tool
    def f():
        raise ValueError("for the log")

    await result(f)
    assert "tool=<f> | the tool raised" in caplog.text
    assert "Traceback" in caplog.text


async def test_tl_r1_an_interrupt_from_the_keyboard_is_not_the_tools_own():
    @tool
    async def f():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await result(f)


async def test_tl_01_one_failing_call_leaves_the_others_their_results():
    @tool
    def f(n: int):
        if n == 2:
            raise ValueError("x")

        return str(n)

    runner = ToolRunner([f])
    told = [(await runner.run(call("f", {"n": n}), ToolContext())).result.model_dump() for n in (1, 2, 3)]
    assert told == [
        {"result": True, "output": "1"},
        {"result": False, "message": "x", "error": "ValueError"},
        {"result": True, "output": "3"},
    ]


async def test_tool_7_an_unknown_name_is_answered_with_the_names_there_are():
    told = await run([get_date, write], call("get_dat"))
    assert told["result"] is False
    assert told["message"].startswith("invalid tool")
    assert told["message"].endswith("the tools are: get_date, write")


async def test_tl_03_a_made_up_name_never_raises():
    assert (await run([get_date], call("get_dat", error="broken")))["message"].startswith("invalid tool 'get_dat'")
    assert (await run([], call("x" * 9000)))["message"].endswith("there are no tools")
    assert len((await run([], call("x" * 9000)))["message"]) < 1000


async def test_tls_4_nothing_is_dropped_silently():
    for name in ("", "GET_DATE", "get_date ", "__init__"):
        assert (await run([get_date], call(name)))["result"] is False


@pytest.mark.parametrize("text", ["null", "[]", "3", '"x"', "true"])
async def test_tl_04_arguments_that_are_no_object_are_asked_for_again(text):
    params, error = parse_arguments(text)
    told = await run([write], call("write", params, error=error))
    assert told["result"] is False
    assert "object" in told["message"] or "JSON" in told["message"]
    assert text in told["message"]
    assert told["expected_schema"] == write.get_definition().input_schema()


async def test_tl_04_only_a_piece_of_what_was_sent_is_echoed():
    params, error = parse_arguments("[" + "1," * 9000 + "1]")
    assert len((await run([write], call("write", params, error=error)))["message"]) < 1000


async def test_tl_07_broken_json_is_not_executed_and_the_schema_is_given():
    params, error = parse_arguments('{"path": "a.txt", "con')
    told = await run([write], call("write", params, error=error))
    assert "no valid JSON" in told["message"]
    assert "write was not run" in told["message"]
    assert told["expected_schema"]["required"] == ["path", "content"]


async def test_tl_r3_a_call_that_was_cut_off_is_told_so():
    params, error = parse_arguments('{"zone":"UT')
    told = await run([get_date], call("get_date", params, error=error))
    assert told["message"].startswith("the call was cut off before its arguments were complete")


async def test_tl_09_arguments_cut_off_are_never_executed_even_when_every_field_has_a_default():
    ran = []

    @tool
    def f(q: str = "", n: int = 1):
        ran.append(q)

    params, error = parse_arguments('{"q":"abc')
    assert (await run([f], call("f", params, error=error)))["result"] is False
    assert ran == []


async def test_tls_29_a_retry_asks_for_another_try_three_times_then_gives_the_plain_error():
    @tool
    def picky(n: int):
        raise ToolRetry("n must be even.")

    runner = ToolRunner([picky])
    told = [(await runner.run(call("picky", {"n": 1}), ToolContext())).result.model_dump() for _ in range(5)]
    again = {
        "result": False,
        "message": "n must be even.\nCorrect this and call picky again.",
        "error": "ToolRetry",
        "retry": True,
    }
    plain = {"result": False, "message": "n must be even.", "error": "ToolRetry"}
    assert told == [again, again, again, plain, plain]
    assert runner.retries["picky"] == 3


async def test_tls_29_retries_are_counted_per_tool_and_per_runner():
    def moody():
        raise ToolRetry("again")

    first, second = tool(moody, name="first"), tool(moody, name="second")
    runner = ToolRunner([first, second])

    for name in ("first", "first", "first", "second"):
        assert (await runner.run(call(name), ToolContext())).result.model_dump()["retry"] is True

    assert "retry" not in (await runner.run(call("first"), ToolContext())).result.model_dump()
    assert (await result(first))["retry"] is True


async def test_tls_25_async_is_found_behind_wrappers():
    async def work(n: int):
        return n

    @functools.wraps(work)
    def wrapped(n):
        return work(n)

    class Later:
        async def __call__(self, n: int):
            return n

    for handler in (work, wrapped, functools.partial(work), Later(), Later().__call__):
        assert (await result(tool(handler), {"n": 4}))["output"] == 4


async def test_tls_25_a_sync_handler_that_returns_an_awaitable_is_awaited():
    async def inner():
        return "later"

    def handler():
        return inner()

    assert (await result(tool(handler)))["output"] == "later"
    assert (await result(tool(inner, asynchronous=False)))["output"] == "later"


async def test_tls_25_the_flag_comes_first_and_must_be_kept():
    def not_async():
        return 3

    told = await result(tool(not_async, asynchronous=True))
    assert told["error"] == "ToolError"
    assert "not_async is declared asynchronous but returned int" in told["message"]


async def test_tls_25_a_wrapper_that_answers_at_once_is_taken_at_its_word():
    async def original(): ...

    @functools.wraps(original)
    def cached():
        return "from the cache"

    assert (await result(tool(cached)))["output"] == "from the cache"


async def test_a_classic_tool_with_a_sync_execute_works():
    class Classic(ToolClass):
        @classmethod
        def get_definition(cls):
            return ToolDefinition(name="classic", description="", parameters={"type": "object"})

        def execute(self, params):
            return {"got": params}

    assert await result(Classic, {"a": [1]}) == {"result": True, "got": {"a": [1]}}


async def test_the_result_is_one_block_with_the_time_of_the_answer(fake_clock):
    done = await answer(get_date)
    assert (done.type, done.timestamp, done.content) == ("tool_result", fake_clock.now_ms(), ())
