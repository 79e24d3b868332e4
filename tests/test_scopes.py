"""Scopes without a look-up, and signals without an event."""

from __future__ import annotations

import anyio
import pytest

from simulacra.scopes import Signal, cancel_scope

pytestmark = pytest.mark.anyio


async def test_a_scope_can_be_cancelled_and_shielded() -> None:
    with cancel_scope() as outer:
        outer.cancel()

        with cancel_scope(shield=True) as inner:
            await anyio.lowlevel.checkpoint()

        assert not inner.cancelled_caught
        await anyio.sleep_forever()

    assert outer.cancelled_caught


async def test_a_signal_wakes_who_waits_and_lets_pass_who_comes_later() -> None:
    signal = Signal()
    woken: list[str] = []

    async def wait(name: str) -> None:
        await signal.wait()
        woken.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, "first")
        tasks.start_soon(wait, "second")
        await anyio.lowlevel.checkpoint()
        assert not signal.is_set()
        assert woken == []
        signal.set()

    await signal.wait()
    assert signal.is_set()
    assert sorted(woken) == ["first", "second"]


async def test_waiting_for_a_signal_that_is_set_is_a_cancellation_point() -> None:
    signal = Signal()
    signal.set()

    with cancel_scope() as scope:
        scope.cancel()
        await signal.wait()

    assert scope.cancelled_caught
