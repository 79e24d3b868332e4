"""Async work from plain scripts: the background loop, refusals, Ctrl-C, forks and the end of the process."""

from __future__ import annotations

import contextvars
import os
import subprocess
import sys
import textwrap
import threading
from contextlib import asynccontextmanager

import anyio
import pytest
from ctrl_c import press_when

from simulacra.blocking import Pump, refuse_inside_loop, run_sync
from simulacra.errors import InvalidStateError

PREAMBLE = """
import os, signal, sys, threading
from simulacra import Conversation
from simulacra.testing import ScriptedProvider, reply, stall
"""


def run_script(body, timeout=30):
    """A script in a process of its own."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", PREAMBLE + textwrap.dedent(body)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


async def number():
    await anyio.lowlevel.checkpoint()

    return 7


async def failing():
    raise ZeroDivisionError


def test_a_coroutine_gives_its_result_or_its_error():
    assert run_sync(number()) == 7

    with pytest.raises(ZeroDivisionError):
        run_sync(failing())


def test_all_work_shares_one_loop():
    async def loop():
        return anyio.lowlevel.current_token(), threading.current_thread().name

    first, second = run_sync(loop()), run_sync(loop())

    assert first == second
    assert first[1] == "simulacra"


def test_context_variables_are_the_callers():
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("mine")

    async def read():
        return variable.get()

    assert run_sync(read()) == "mine"


@pytest.mark.anyio
async def test_inside_a_loop_it_is_refused_with_the_remedy():
    with pytest.raises(InvalidStateError, match="await the coroutine"):
        run_sync(number())

    with pytest.raises(InvalidStateError, match="inside a running event loop.*Do that"):
        refuse_inside_loop("this", "Do that")


def test_threads_may_ask_at_once():
    results = []

    def ask():
        results.append(run_sync(number()))

    threads = [threading.Thread(target=ask) for _ in range(8)]

    for thread in threads:
        thread.start()

    for thread in threads:
        thread.join()

    assert results == [7] * 8


def test_ctrl_c_cancels_waits_until_it_has_settled_and_comes_out():
    waiting, order = threading.Event(), []

    async def work():
        try:
            waiting.set()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()

            order.append("settled")

    thread = press_when(waiting, waiting_in="result")

    with pytest.raises(KeyboardInterrupt):
        run_sync(work())

    order.append("raised")
    thread.join()
    assert order == ["settled", "raised"]


class Counter:
    """A source that counts, and records how it ended."""

    def __init__(self, last=None):
        self.made = 0
        self.last = last
        self.ended = threading.Event()
        self.returned = []

    def __call__(self):
        return Pump(self.open(), self.returned.extend)

    @asynccontextmanager
    async def open(self):
        try:
            yield self.count()
        finally:
            self.ended.set()

    async def count(self):
        while self.last is None or self.made < self.last:
            self.made += 1
            yield self.made

        raise ZeroDivisionError


def test_a_pump_hands_items_over_in_order_and_then_the_error():
    pump = Counter(last=200)()
    items = []

    with pytest.raises(ZeroDivisionError):
        items.extend(pump)

    assert items == list(range(1, 201))
    pump.close()


def test_w_rx_1_a_pump_does_not_run_ahead_without_bound():
    counter = Counter()
    pump = counter()

    for expected in range(1, 301):
        assert next(pump) == expected
        assert counter.made <= expected + 100

    pump.close()
    assert counter.ended.is_set()


def test_a_closed_pump_is_over_and_returns_what_nobody_took():
    counter = Counter()
    pump = counter()
    assert [next(pump), next(pump)] == [1, 2]
    pump.close()

    assert list(pump) == []
    assert counter.returned[0] == 3
    assert counter.returned == list(range(3, 3 + len(counter.returned)))
    pump.close()


def test_ctrl_c_while_a_pump_is_waited_for():
    waiting = threading.Event()

    @asynccontextmanager
    async def source():
        async def silence():
            waiting.set()
            await anyio.sleep_forever()
            yield 1

        yield silence()

    pump = Pump(source(), print)
    thread = press_when(waiting, waiting_in="wait_for")

    with pytest.raises(KeyboardInterrupt):
        next(pump)

    pump.close()
    thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_forked_child_starts_a_loop_of_its_own():
    done = run_script("""
        def ask():
            return Conversation(ScriptedProvider(["hello"])).prompt_sync("hi").text

        print(ask(), flush=True)
        pid = os.fork()

        if pid == 0:
            print("child", ask(), flush=True)
        else:
            _, status = os.waitpid(pid, 0)
            print("parent", ask(), status)
    """)

    assert done.stdout.splitlines() == ["hello", "child hello", "parent hello 0"], done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_child_forked_while_work_is_under_way_can_work_and_leave():
    done = run_script("""
        conversation = Conversation(ScriptedProvider([reply(chunks=["Hel", stall()])]))

        with conversation.stream_sync("hi") as stream:
            print(next(stream.text_deltas()), flush=True)
            pid = os.fork()

            if pid == 0:
                print("child", Conversation(ScriptedProvider(["hello"])).prompt_sync("hi").text, flush=True)
                os._exit(0)

            os.waitpid(pid, 0)

        print(conversation.messages[-1].text)
    """)

    assert done.stdout.splitlines() == ["Hel", "child hello", "Hel"], done.stderr


def test_a_script_that_leaves_work_behind_ends():
    done = run_script("""
        conversation = Conversation(ScriptedProvider([reply(chunks=["Hel", stall()])]))
        stream = conversation.stream_sync("hi")
        stream.__enter__()
        print(next(stream.text_deltas()))
    """)

    assert (done.returncode, done.stdout.strip()) == (0, "Hel"), done.stderr


def test_a_script_that_used_tools_in_threads_ends():
    done = run_script("""
        from simulacra import tool
        from simulacra.testing import calls

        @tool
        def add(a: int, b: int) -> int:
            "Add."
            return a + b

        provider = ScriptedProvider([calls(("add", {"a": 1, "b": 2})), "3"])
        print(Conversation(provider, toolkit=[add]).prompt_sync("1 + 2?").text)
    """)

    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "3", "")


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT can be sent to one process there")
def test_a_real_signal_keeps_what_was_delivered():
    done = run_script("""
        conversation = Conversation(ScriptedProvider([reply(chunks=["Hel", "lo", stall()]), "well"]))
        conversation.on("content_update", lambda event: event.delta == "lo" and os.kill(os.getpid(), signal.SIGINT))

        try:
            conversation.prompt_sync("hi")
        except KeyboardInterrupt:
            print(conversation.state, conversation.messages[-1].status, conversation.messages[-1].text)

        print(conversation.prompt_sync("new").text)
    """)

    assert done.stdout.splitlines() == ["idle interrupted Hello", "well"], done.stderr


def test_work_that_leaves_the_program_does_not_end_the_sync_calls_after_it():
    done = run_script("""
        from simulacra import run_sync

        async def leave():
            raise SystemExit(3)

        async def five():
            return 5

        try:
            run_sync(leave())
        except SystemExit as error:
            print(error.code)

        for thread in threading.enumerate():
            if thread.name == "simulacra":
                thread.join()

        print(run_sync(five()))
    """)

    assert (done.returncode, done.stdout.split()) == (0, ["3", "5"])
