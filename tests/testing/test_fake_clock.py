"""The fake clock: time moves deadline by deadline, and woken tasks run before the next one passes."""

from __future__ import annotations

import anyio
import pytest

from simulacra.clock import clock, time_limit, use_clock
from simulacra.testing import FakeClock

pytestmark = pytest.mark.anyio


async def test_sleepers_wake_in_the_order_of_their_deadlines(fake_clock):
    woken = []

    async def nap(seconds):
        await clock().sleep(seconds)
        woken.append((seconds, clock().monotonic()))

    async with anyio.create_task_group() as tasks:
        for seconds in (3, 1, 2):
            tasks.start_soon(nap, seconds)

        await fake_clock.advance(1.5)
        assert woken == [(1, 1.0)]

        await fake_clock.advance(1.5)
        assert woken == [(1, 1.0), (2, 2.0), (3, 3.0)]

    assert sorted(fake_clock.sleeps) == [1, 2, 3]


async def test_a_woken_task_runs_before_the_next_deadline_passes(fake_clock):
    seen = []

    async def steps():
        for _ in range(3):
            await clock().sleep(0.1)
            seen.append(round(clock().monotonic(), 6))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(steps)
        await fake_clock.advance(0.3)
        assert seen == [0.1, 0.2, 0.3]


async def test_nothing_moves_by_itself(fake_clock):
    woken = []

    async def nap():
        await clock().sleep(0.001)
        woken.append(True)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(nap)
        await fake_clock.advance(0)
        assert not woken
        assert fake_clock.pending == 1
        tasks.cancel_scope.cancel()

    assert fake_clock.pending == 0


async def test_timers_fire_once_and_can_be_cancelled(fake_clock):
    fired = []
    fake_clock.call_later(1, lambda: fired.append("kept"))
    dropped = fake_clock.call_later(1, lambda: fired.append("dropped"))
    dropped.cancel()
    await fake_clock.advance(5)
    assert fired == ["kept"]


async def test_a_time_limit_ends_a_wait(fake_clock):
    limited = []

    async def work():
        with time_limit(2) as scope:
            await anyio.sleep_forever()

        limited.append(scope.cancelled_caught)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await fake_clock.advance(1.9)
        assert not limited
        await fake_clock.advance(0.1)
        assert limited == [True]


async def test_autojump_passes_time_when_everybody_waits():
    jumping = FakeClock(autojump=True)

    with use_clock(jumping):
        await clock().sleep(3600)
        await clock().sleep(60)

    assert jumping.monotonic() == 3660
    assert jumping.sleeps == [3600, 60]


async def test_autojump_waits_for_tasks_that_still_work():
    jumping = FakeClock(autojump=True)
    order = []

    async def work():
        for _ in range(20):
            await anyio.lowlevel.checkpoint()

        order.append("worked")

    async def nap():
        await clock().sleep(1)
        order.append("slept")

    with use_clock(jumping):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(nap)
            tasks.start_soon(work)

    assert order == ["worked", "slept"]


async def test_autojump_fires_timers_on_the_way_but_never_for_their_own_sake():
    jumping = FakeClock(autojump=True)
    fired = []

    with use_clock(jumping):
        jumping.call_later(1, lambda: fired.append(jumping.monotonic()))
        await anyio.lowlevel.checkpoint()
        assert fired == []
        await clock().sleep(2)

    assert fired == [1.0]
    assert jumping.monotonic() == 2


async def test_advance_works_beside_autojump():
    jumping = FakeClock(autojump=True)

    with use_clock(jumping):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(clock().sleep, 5)
            await jumping.advance(1)

    assert jumping.monotonic() >= 5


async def test_waiting_for_the_rest_of_a_time_ends_however_little_is_left(fake_clock):
    begun = fake_clock.monotonic()
    looks = []

    def look():
        looks.append(fake_clock.monotonic() - begun)

        if looks[-1] < 0.3:
            fake_clock.call_later(min(0.3 - looks[-1], 1e-15), look)

    fake_clock.call_later(0.299_999_998, look)
    await fake_clock.advance(1)

    assert looks[-1] >= 0.3


async def test_two_jumping_clocks_on_one_loop_do_not_wait_for_each_other():
    jumping = [FakeClock(autojump=True), FakeClock(autojump=True)]

    async with anyio.create_task_group() as tasks:
        for each in jumping:
            tasks.start_soon(each.sleep, 1)

    assert [each.monotonic() for each in jumping] == [1, 1]


async def test_ids_count_up_and_wall_time_follows(fake_clock):
    start = fake_clock.now_ms()
    assert [fake_clock.new_id(), fake_clock.new_id()] == ["id-000001", "id-000002"]
    await fake_clock.advance(1.25)
    assert fake_clock.now_ms() - start == 1250


async def test_an_endless_sleep_never_wakes(fake_clock):
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clock().sleep, float("inf"))
        await fake_clock.advance(1e9)
        assert fake_clock.pending == 1
        tasks.cancel_scope.cancel()
