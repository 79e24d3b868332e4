"""The seam for time and ids, on the real clock: no test here waits for more than an instant."""

from __future__ import annotations

import threading
import time
import uuid

import anyio
import pytest

from simulacra.clock import Clock, clock, time_limit, use_clock

pytestmark = pytest.mark.anyio


class Standing(Clock):
    def __init__(self, now):
        super().__init__()
        self.now = now

    def now_ms(self):
        return self.now


def test_gen_1_wall_time_is_whole_milliseconds_since_the_epoch():
    before = int(time.time() * 1000) - 1
    now = Clock().now_ms()
    assert isinstance(now, int)
    assert before <= now <= int(time.time() * 1000) + 1


def test_gen_8_monotonic_time_never_goes_backwards():
    source = Clock()
    readings = [source.monotonic() for _ in range(1000)]
    assert readings == sorted(readings)


def test_ids_are_uuid7_texts_that_hold_their_time():
    made = uuid.UUID(Standing(1_700_000_000_123).new_id())
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == 1_700_000_000_123


def test_ids_are_ordered_within_a_millisecond_and_when_the_clock_goes_back():
    source = Standing(1_700_000_000_000)
    ids = [source.new_id() for _ in range(5000)]
    source.now -= 60_000
    ids += [source.new_id() for _ in range(5)]
    source.now += 120_000
    ids.append(source.new_id())
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_ids_made_in_threads_are_different():
    source, made = Standing(1), []

    def make():
        made.extend(source.new_id() for _ in range(500))

    threads = [threading.Thread(target=make) for _ in range(8)]

    for thread in threads:
        thread.start()

    for thread in threads:
        thread.join()

    assert len(set(made)) == 4000


def test_another_clock_stands_in_for_the_length_of_a_block():
    usual, other = clock(), Clock()

    with pytest.raises(KeyError), use_clock(other):
        assert clock() is other
        raise KeyError

    assert clock() is usual


async def test_a_timer_fires_once_and_a_cancelled_one_never():
    fired, done = [], anyio.Event()
    Clock().call_later(0, lambda: fired.append("dropped")).cancel()
    Clock().call_later(0, lambda: (fired.append("kept"), done.set()))

    with anyio.fail_after(5):
        await done.wait()

    assert fired == ["kept"]


async def test_a_timer_may_be_cancelled_after_it_fired():
    done = anyio.Event()
    timer = Clock().call_later(0, done.set)

    with anyio.fail_after(5):
        await done.wait()

    timer.cancel()


async def test_sleep_is_a_cancellation_point_even_for_no_time():
    with anyio.CancelScope() as scope:
        scope.cancel()
        await Clock().sleep(-1)

    assert scope.cancelled_caught


async def test_a_time_limit_of_the_real_clock_ends_a_wait():
    with time_limit(0) as scope:
        await anyio.sleep_forever()

    assert scope.cancelled_caught


async def test_work_within_its_time_limit_is_left_alone_and_no_timer_stays(fake_clock):
    with time_limit(1) as scope:
        await anyio.lowlevel.checkpoint()

    assert not scope.cancelled_caught
    assert fake_clock.pending == 0


async def test_no_limit_sets_no_timer(fake_clock):
    with time_limit(None):
        assert fake_clock.pending == 0


async def test_a_time_limit_can_keep_cancellation_from_outside_away():
    finished = []

    with anyio.CancelScope() as outer:
        outer.cancel()

        with time_limit(5, shield=True):
            await anyio.lowlevel.checkpoint()
            finished.append(True)

    assert finished == [True]
