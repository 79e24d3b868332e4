"""Ctrl-C while a plain script waits for the background loop."""

from __future__ import annotations

import signal
import sys
import threading

import anyio
import pytest

from simulacra.blocking import run_sync

MAIN = threading.main_thread().ident


def functions_of_main():
    frame = sys._current_frames()[MAIN]

    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back


@pytest.fixture
def work():
    """Work that never ends by itself, and what became of it."""
    log = []

    async def run():
        log.append("started")

        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()

            log.append("settled")

    return run, log


def test_ctrl_c_waits_until_the_cancelled_work_has_settled(work):
    run, log = work

    async def interrupted():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)

            while "start_task_soon" in functions_of_main() or not log:
                await anyio.lowlevel.checkpoint()

            signal.pthread_kill(MAIN, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_sync(interrupted())

    assert log == ["started", "settled"]


def test_ctrl_c_before_the_start_is_confirmed_leaves_nothing_running(work):
    run, log = work
    occupied, release = threading.Event(), threading.Event()

    async def occupy():
        occupied.set()
        release.wait()

    def interrupt():
        while "start_task_soon" not in functions_of_main():
            pass

        signal.pthread_kill(MAIN, signal.SIGINT)
        release.set()

    threads = [threading.Thread(target=run_sync, args=(occupy(),)), threading.Thread(target=interrupt)]
    threads[0].start()
    occupied.wait()
    threads[1].start()

    with pytest.raises(KeyboardInterrupt):
        run_sync(run())

    for thread in threads:
        thread.join()

    assert log in ([], ["started", "settled"])
