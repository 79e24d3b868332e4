"""The watchdog by itself: silence and total length, on a clock that is moved by hand."""

from __future__ import annotations

import pytest

from simulacra.dialog.watchdog import Watchdog

pytestmark = pytest.mark.anyio


def watch(**limits):
    barks = []
    watchdog = Watchdog(**{"idle": None, "total": None, **limits}, bark=lambda: barks.append(1))

    return watchdog, barks


async def test_rx_11_silence_counts_while_the_vendor_is_waited_for(fake_clock):
    watchdog, barks = watch(idle=5)
    watchdog.watch_stream()
    await fake_clock.advance(20)
    assert barks == []

    watchdog.waits()
    await fake_clock.advance(4.9)
    watchdog.heard()
    await fake_clock.advance(4.9)
    assert barks == []
    await fake_clock.advance(0.1)
    assert barks == [1]
    assert "idle_timeout=5" in str(watchdog.expired)
    assert not watchdog.expired.retryable


async def test_rx_11_one_timer_serves_any_number_of_pieces(fake_clock):
    watchdog, barks = watch(idle=5)
    watchdog.watch_stream()

    for _ in range(1000):
        watchdog.waits()
        watchdog.waiting_since = None

    assert fake_clock.pending == 1
    watchdog.stop()
    assert fake_clock.pending == 0
    assert barks == []


async def test_rx_11_the_total_runs_from_the_start(fake_clock):
    watchdog, barks = watch(total=3)
    await fake_clock.advance(3)

    assert barks == [1]
    assert "total_timeout=3" in str(watchdog.expired)


async def test_rx_11_the_first_limit_that_passes_is_the_one_told(fake_clock):
    watchdog, barks = watch(idle=1, total=2)
    watchdog.watch_stream()
    watchdog.waits()
    await fake_clock.advance(5)

    assert "idle_timeout" in str(watchdog.expired)
    assert barks == [1, 1]


async def test_rx_11_without_limits_nothing_is_watched(fake_clock):
    watchdog, barks = watch()
    watchdog.watch_stream()
    watchdog.waits()
    watchdog.heard()

    assert fake_clock.pending == 0
    watchdog.stop()
    assert barks == []
