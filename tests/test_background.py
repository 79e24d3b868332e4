"""Work beside its caller: bounded, owned, and never in anybody's way."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import anyio
import pytest
import trio

from simulacra.background import CLOSE_SECONDS, Background, HomeLoop

pytestmark = pytest.mark.anyio

variable = ContextVar("variable", default="unset")


async def test_work_runs_beside_the_caller_and_ends(fake_clock):
    background, done = Background(), []

    async def work():
        await fake_clock.sleep(1)
        done.append(variable.get())

    variable.set("mine")
    job = background.start(work)
    assert not job.is_done
    await fake_clock.advance(1)

    assert job.is_done
    assert done == ["mine"]
    await job.wait()


async def test_a_failure_is_logged_and_reaches_nobody(fake_clock, caplog):
    async def work():
        raise ZeroDivisionError

    background = Background()
    job = background.start(work)
    await job.wait()

    assert "background work failed" in caplog.text
    await background.aclose()


async def test_a_job_can_be_cancelled(fake_clock):
    background = Background()
    job = background.start(anyio.sleep_forever)
    await fake_clock.advance(0)
    job.cancel()
    job.cancel()
    await job.wait()

    assert job.is_done


async def test_closing_leaves_nothing_running_that_stops_when_asked(fake_clock):
    background = Background()
    jobs = [background.start(anyio.sleep_forever) for _ in range(5)]
    await background.aclose()

    assert all(job.is_done for job in jobs)
    assert fake_clock.pending == 0
    await background.aclose()


async def test_closing_is_bounded_for_work_that_will_not_stop(fake_clock):
    go_on = anyio.Event()
    background = Background()

    async def stubborn():
        with anyio.CancelScope(shield=True):
            await go_on.wait()

    job = background.start(stubborn)
    await fake_clock.advance(0)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(background.aclose)
        await fake_clock.advance(CLOSE_SECONDS)

    assert not job.is_done
    go_on.set()
    await job.wait()


async def test_a_job_lives_beside_the_scope_that_started_it(fake_clock):
    background, done = Background(), []

    async def work():
        await fake_clock.sleep(1)
        done.append(1)

    with anyio.CancelScope() as scope:
        job = background.start(work)
        scope.cancel()
        await anyio.lowlevel.checkpoint()

    await fake_clock.advance(1)
    await job.wait()
    assert done == [1]


async def test_closing_works_in_a_cancelled_scope(fake_clock):
    background = Background()
    job = background.start(anyio.sleep_forever)

    with anyio.CancelScope() as scope:
        scope.cancel()
        await background.aclose()

    assert job.is_done


def in_thread(function):
    """Call it in another thread, which must not wait for anything; what it raised."""
    raised = []

    def call():
        try:
            function()
        except RuntimeError as error:
            raised.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(30)

    assert not thread.is_alive(), "the thread waits for the loop"

    return raised


async def test_another_thread_calls_home_in_its_order():
    home, called, all_called = HomeLoop(), [], anyio.Event()

    def call():
        for number in range(3):
            home.call(lambda number=number: called.append((number, threading.get_ident())))

        home.call(all_called.set)

    assert await anyio.to_thread.run_sync(in_thread, call) == []
    await all_called.wait()

    assert called == [(number, threading.get_ident()) for number in range(3)]


async def test_a_call_from_home_is_made_at_once():
    called = []
    HomeLoop().call(lambda: called.append(True))

    assert called == [True]


async def make_home():
    return HomeLoop()


@pytest.mark.parametrize("is_closed", [False, True])
def test_no_thread_waits_for_an_asyncio_loop_that_has_ended(is_closed):
    loop = asyncio.new_event_loop()

    try:
        home = loop.run_until_complete(make_home())

        if is_closed:
            loop.close()

        assert len(in_thread(lambda: home.call(lambda: None))) == is_closed
    finally:
        loop.close()


def test_no_thread_waits_for_a_trio_loop_that_has_ended():
    home = trio.run(make_home)

    assert [type(error) for error in in_thread(lambda: home.call(lambda: None))] == [trio.RunFinishedError]
