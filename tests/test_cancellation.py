from __future__ import annotations

import anyio
import pytest

from simulacra.cancellation import CancellationToken, CancellationTokenSource, cancellable, sleep
from simulacra.clock import Clock, use_clock
from simulacra.errors import ConfigurationError, OperationCancelledError, SimulacraError

pytestmark = pytest.mark.anyio


# UTIL-1


def test_util_1_the_token_is_always_the_same():
    source = CancellationTokenSource()

    assert source.token is source.token
    source.cancel()
    assert source.token.is_cancellation_requested
    assert source.is_cancelled


def test_util_1_cancelling_again_does_nothing():
    source = CancellationTokenSource()
    calls = []
    source.once("cancel", lambda: calls.append(1))

    source.cancel()
    source.cancel()

    assert calls == [1]


def test_util_1_handlers_run_in_order_and_can_be_taken_off():
    source = CancellationTokenSource()
    calls = []
    first, second, third = (lambda: calls.append(1)), (lambda: calls.append(2)), (lambda: calls.append(3))
    source.once("cancel", first)
    unsubscribe = source.once("cancel", second)
    source.token.once("cancel", third)

    source.off("cancel", first)
    source.off("cancel", print)
    unsubscribe()
    unsubscribe()
    source.cancel()

    assert calls == [3]


def test_util_1_a_handler_added_after_the_cancel_runs_at_once():
    source = CancellationTokenSource()
    calls = []
    source.cancel()

    unsubscribe = source.once("cancel", lambda: calls.append(1))

    assert calls == [1]
    unsubscribe()


def test_util_1_dispose_removes_handlers_and_disarms():
    source = CancellationTokenSource()
    calls = []
    source.once("cancel", lambda: calls.append(1))

    source.dispose()
    source.dispose()
    source.cancel()

    assert calls == []
    assert not source.is_cancelled

    with CancellationTokenSource() as scoped:
        scoped.once("cancel", lambda: calls.append(2))

    scoped.cancel()
    assert calls == []


def test_util_1_a_handler_that_raises_stops_no_other(caplog):
    source = CancellationTokenSource()
    calls = []
    source.once("cancel", lambda: 1 / 0)
    source.once("cancel", lambda: calls.append(1))

    source.cancel()

    assert calls == [1]
    assert "ZeroDivisionError" in caplog.text


def test_util_1_a_handler_may_take_others_off_while_they_run():
    source = CancellationTokenSource()
    calls = []
    source.once("cancel", lambda: source.off("cancel", second))

    def second():
        calls.append(2)

    source.once("cancel", second)
    source.cancel()

    assert calls == [2]


def test_util_1_unknown_events_are_refused():
    source = CancellationTokenSource()

    for call in (source.once, source.off, source.token.once, source.token.off):
        with pytest.raises(ConfigurationError, match="'cancel' only"):
            call("canceled", print)


# UTIL-2


def test_util_2_a_token_says_and_throws():
    source = CancellationTokenSource()
    source.token.throw_if_cancellation_requested()
    source.cancel()

    with pytest.raises(OperationCancelledError) as caught:
        source.token.throw_if_cancellation_requested()

    assert str(caught.value) == "The operation was cancelled"
    assert caught.value.token is source.token
    assert isinstance(caught.value, SimulacraError)
    assert OperationCancelledError().token is None


def test_util_2_the_empty_token_is_never_cancelled():
    token = CancellationToken.empty()

    assert not token.is_cancellation_requested
    token.throw_if_cancellation_requested()
    assert CancellationToken.empty() is not token


async def test_util_2_waiting_for_the_cancel_raises_once_it_comes():
    source = CancellationTokenSource()
    seen = []

    async def wait():
        try:
            await source.token.await_cancellation()
        except OperationCancelledError as error:
            seen.append(error.token)

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert seen == []
        source.cancel()

    assert seen == [source.token, source.token]

    with pytest.raises(OperationCancelledError):
        await source.token.await_cancellation()


async def test_util_2_a_wait_that_is_given_up_leaves_no_handler():
    source = CancellationTokenSource()

    async with anyio.create_task_group() as group:
        group.start_soon(source.token.await_cancellation)
        await anyio.wait_all_tasks_blocked()
        assert len(source.token._handlers) == 1
        group.cancel_scope.cancel()

    assert source.token._handlers == []


# UTIL-3


async def test_util_3_sleep_goes_by_the_engines_clock(fake_clock):
    source = CancellationTokenSource()
    done = []

    async def nap(*arguments):
        await sleep(*arguments)
        done.append(fake_clock.monotonic())

    async with anyio.create_task_group() as group:
        group.start_soon(nap, 3)
        group.start_soon(nap, 5, source.token)
        await fake_clock.advance(10)

    assert done == [3, 5]
    assert source.token._handlers == []


async def test_util_3_sleep_raises_at_once_when_already_cancelled(fake_clock):
    source = CancellationTokenSource()
    source.cancel()

    with pytest.raises(OperationCancelledError):
        await sleep(10, source.token)

    assert fake_clock.sleeps == []


async def test_util_3_sleep_raises_as_soon_as_it_is_cancelled_and_leaves_no_timer(fake_clock):
    source = CancellationTokenSource()
    ended = []

    async def nap():
        with pytest.raises(OperationCancelledError) as caught:
            await sleep(10, source.token)

        ended.append((fake_clock.monotonic(), caught.value.token is source.token))

    async with anyio.create_task_group() as group:
        group.start_soon(nap)
        await fake_clock.advance(4)
        source.cancel()
        await fake_clock.advance(0)
        assert ended == [(4, True)]

    assert fake_clock.pending == 0
    assert source.token._handlers == []


async def test_util_3_sleep_given_up_from_outside_leaves_nothing(fake_clock):
    source = CancellationTokenSource()

    async with anyio.create_task_group() as group:
        group.start_soon(sleep, 10, source.token)
        await fake_clock.advance(1)
        group.cancel_scope.cancel()

    assert fake_clock.pending == 0
    assert source.token._handlers == []


# cancellable


async def test_cancellable_hands_on_arguments_result_and_errors():
    token = CancellationToken.empty()

    async def work(*args, **kwargs):
        return args, kwargs

    async def fail():
        raise KeyError("x")

    assert await cancellable(token, work, 1, two=2) == ((1,), {"two": 2})

    with pytest.raises(KeyError):
        await cancellable(token, fail)

    assert token._handlers == []


async def test_cancellable_ends_the_work_and_lets_it_clean_up():
    source = CancellationTokenSource()
    cleaned = []

    async def work():
        try:
            await anyio.sleep_forever()
        finally:
            cleaned.append(True)

    async def run():
        with pytest.raises(OperationCancelledError):
            await cancellable(source.token, work)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        source.cancel()

    assert cleaned == [True]
    assert source.token._handlers == []


async def test_cancellable_returns_what_was_finished_in_spite_of_the_cancel():
    source = CancellationTokenSource()

    async def work():
        source.cancel()
        return "done"

    assert await cancellable(source.token, work) == "done"


# W-UTIL-3


@pytest.mark.parametrize("which", [0, 1, 2])
def test_w_util_3_a_linked_source_is_cancelled_by_any_of_its_tokens(which):
    sources = [CancellationTokenSource() for _ in range(3)]
    linked = CancellationTokenSource.linked(*(source.token for source in sources))

    sources[which].cancel()

    assert linked.is_cancelled
    assert [source.is_cancelled for source in sources] == [place == which for place in range(3)]
    assert all(source.token._handlers == [] for source in sources)


def test_w_util_3_a_linked_source_cancels_nothing_it_is_linked_to():
    source = CancellationTokenSource()
    linked = CancellationTokenSource.linked(source.token)

    linked.cancel()

    assert not source.is_cancelled
    assert source.token._handlers == []


def test_w_util_3_linking_to_a_cancelled_token_cancels_at_once_and_leaves_nothing():
    first, second, third = (CancellationTokenSource() for _ in range(3))
    second.cancel()

    linked = CancellationTokenSource.linked(first.token, second.token, third.token)

    assert linked.is_cancelled
    assert first.token._handlers == third.token._handlers == []


def test_w_util_3_a_disposed_linked_source_leaves_nothing():
    source = CancellationTokenSource()

    with CancellationTokenSource.linked(source.token) as linked:
        assert len(source.token._handlers) == 1

    source.cancel()
    assert not linked.is_cancelled


async def test_w_util_3_a_source_can_cancel_after_a_time(fake_clock):
    source = CancellationTokenSource()
    source.cancel_after(5)

    await fake_clock.advance(4.9)
    assert not source.is_cancelled
    await fake_clock.advance(0.1)
    assert source.is_cancelled


async def test_w_util_3_a_later_time_replaces_the_earlier_one(fake_clock):
    source = CancellationTokenSource()
    source.cancel_after(5)
    source.cancel_after(50)

    await fake_clock.advance(10)

    assert not source.is_cancelled
    assert fake_clock.pending == 1


async def test_w_util_3_no_timer_outlives_a_cancel_or_a_dispose(fake_clock):
    cancelled, disposed = CancellationTokenSource(), CancellationTokenSource()
    cancelled.cancel_after(5)
    disposed.cancel_after(5)

    cancelled.cancel()
    disposed.dispose()
    cancelled.cancel_after(5)
    disposed.cancel_after(5)

    assert fake_clock.pending == 0
    await fake_clock.advance(10)
    assert not disposed.is_cancelled


async def test_w_util_3_a_time_already_past_cancels_at_once():
    with use_clock(Clock()):
        source = CancellationTokenSource()
        source.cancel_after(-1)

        with anyio.fail_after(5), pytest.raises(OperationCancelledError):
            await source.token.await_cancellation()


async def test_w_util_3_subscribing_late_is_possible():
    source = CancellationTokenSource()
    source.cancel()
    event = anyio.Event()

    source.token.once("cancel", event.set)

    assert event.is_set()
