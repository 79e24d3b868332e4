"""Listeners: order, snapshots, once, off, isolation, bubbling, and what nobody listens to."""

from __future__ import annotations

import gc
import logging
from dataclasses import dataclass
from typing import Any, ClassVar

import anyio
import pytest

from simulacra.emitter import Emitter, Event
from simulacra.errors import ConfigurationError

pytestmark = pytest.mark.anyio


@dataclass(slots=True)
class Ping(Event):
    name: ClassVar[str] = "ping"
    number: int = 0


@dataclass(slots=True)
class Pong(Event):
    name: ClassVar[str] = "pong"


@dataclass(slots=True)
class LifecycleError(Event):
    name: ClassVar[str] = "lifecycle_error"
    error: Any = None


@dataclass(slots=True)
class ChildEvent(Event):
    name: ClassVar[str] = "child_event"
    event: Any = None


@dataclass(slots=True)
class Stranger(Event):
    name: ClassVar[str] = "ping"


EVENTS = (Ping, Pong, LifecycleError, ChildEvent)


def new_emitter(parent=None):
    reports = []

    async def report(error, name):
        reports.append((str(error), name))
        await emitter.emit(LifecycleError(error))

    emitter = Emitter(EVENTS, report=report, bubble=ChildEvent)
    emitter.parent = parent

    return emitter, reports


async def test_gen_4_listeners_are_found_by_class_by_name_and_for_all():
    emitter, _ = new_emitter()
    heard = []
    emitter.on(Ping, lambda event: heard.append(("class", event.number)))
    emitter.on("ping", lambda event: heard.append(("name", event.number)))
    emitter.on(Event, lambda event: heard.append(("all", event.name)))
    await emitter.emit(Ping(1))
    await emitter.emit(Pong())
    assert heard == [("class", 1), ("name", 1), ("all", "ping"), ("all", "pong")]


async def test_gen_4_on_returns_a_callable_that_takes_off_this_subscription_only():
    emitter, _ = new_emitter()
    heard = []
    first = emitter.on(Ping, heard.append)
    emitter.on(Ping, heard.append)
    first()
    first()
    await emitter.emit(Ping())
    assert len(heard) == 1


async def test_gen_4_once_hears_one_event():
    emitter, _ = new_emitter()
    heard = []
    emitter.once(Ping, heard.append)
    await emitter.emit(Ping(1))
    await emitter.emit(Ping(2))
    assert [event.number for event in heard] == [1]


async def test_gen_4_once_hears_one_event_also_when_two_are_under_way():
    emitter, _ = new_emitter()
    heard, gate = [], anyio.Event()

    async def slow(event):
        await gate.wait()

    emitter.on(Ping, slow)
    emitter.once(Ping, heard.append)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(emitter.emit, Ping(1))
        tasks.start_soon(emitter.emit, Ping(2))
        await anyio.wait_all_tasks_blocked()
        gate.set()

    assert len(heard) == 1


async def test_gen_4_once_can_be_taken_off_in_both_ways():
    emitter, _ = new_emitter()
    heard = []
    emitter.once(Ping, heard.append)
    emitter.off("ping", heard.append)
    emitter.once(Ping, heard.append)()
    await emitter.emit(Ping())
    assert heard == []


async def test_gen_4_a_once_listener_may_cause_the_same_event():
    emitter, _ = new_emitter()
    heard = []

    async def again(event):
        heard.append(event.number)
        await emitter.emit(Ping(event.number + 1))

    emitter.once(Ping, again)
    await emitter.emit(Ping(1))
    assert heard == [1]


def test_gen_4_off_ignores_unknown_listeners():
    emitter, _ = new_emitter()
    emitter.off(Ping, print)
    emitter.off("pong", print)


@pytest.mark.parametrize("unknown", ["pinng", Stranger, int, None, 5])
def test_gen_4_an_unknown_event_is_refused_and_the_known_ones_are_listed(unknown):
    emitter, _ = new_emitter()

    for subscribe in (emitter.on, emitter.once, emitter.off):
        with pytest.raises(ConfigurationError, match="known events: child_event, lifecycle_error, ping, pong"):
            subscribe(unknown, print)


async def test_gen_4_a_closed_emitter_does_nothing():
    parent, _ = new_emitter()
    emitter, _ = new_emitter(parent)
    heard = []
    parent.on(ChildEvent, heard.append)
    emitter.on(Ping, heard.append)
    emitter.close()
    emitter.on(Ping, heard.append)()
    emitter.once("no such event", heard.append)()
    emitter.off("no such event", heard.append)
    await emitter.emit(Ping())
    emitter.post(Ping())
    assert heard == []
    assert not emitter.wants(Ping)


async def test_gen_4_there_is_no_listener_limit():
    emitter, _ = new_emitter()
    heard = []

    for _ in range(1000):
        emitter.on(Ping, heard.append)

    await emitter.emit(Ping())
    assert len(heard) == 1000


async def test_gen_5_listeners_run_in_order_and_async_ones_are_awaited():
    emitter, _ = new_emitter()
    heard = []

    async def slow(event):
        await anyio.lowlevel.checkpoint()
        heard.append("slow")

    emitter.on(Ping, lambda event: heard.append("first"))
    emitter.on(Ping, slow)
    emitter.on(Ping, lambda event: heard.append("last"))
    await emitter.emit(Ping())
    assert heard == ["first", "slow", "last"]


async def test_gen_5_a_listener_added_during_an_emission_waits_for_the_next():
    emitter, _ = new_emitter()
    heard = []
    emitter.once(Ping, lambda event: emitter.on(Ping, lambda later: heard.append(later.number)))
    await emitter.emit(Ping(1))
    assert heard == []
    await emitter.emit(Ping(2))
    assert heard == [2]


async def test_a_listener_that_raises_is_reported_and_the_others_run(caplog):
    emitter, reports = new_emitter()
    heard = []

    async def fail(event):
        raise ValueError("async")

    def fail_now(event):
        raise KeyError("sync")

    emitter.on(Ping, fail)
    emitter.on(Ping, fail_now)
    emitter.on(Ping, heard.append)

    with caplog.at_level(logging.ERROR, "simulacra.events"):
        await emitter.emit(Ping())

    assert reports == [("async", "ping"), ("'sync'", "ping")]
    assert len(heard) == 1
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]


async def test_a_failing_listener_of_failures_is_only_logged(caplog):
    emitter, reports = new_emitter()

    def fail(event):
        raise ValueError(event.name)

    emitter.on(Event, fail)

    with caplog.at_level(logging.ERROR, "simulacra.events"):
        await emitter.emit(Ping())

    assert reports == [("ping", "ping")]
    assert len(caplog.records) == 2


async def test_cancellation_of_a_listener_is_not_swallowed():
    emitter, reports = new_emitter()

    async def forever(event):
        await anyio.sleep_forever()

    emitter.on(Ping, forever)

    with anyio.CancelScope() as scope:
        scope.cancel()
        await emitter.emit(Ping())

    assert scope.cancelled_caught
    assert reports == []


async def test_every_ancestor_hears_the_originating_event_once():
    root, _ = new_emitter()
    middle, _ = new_emitter(root)
    leaf, _ = new_emitter(middle)
    heard = []
    root.on(ChildEvent, lambda event: heard.append(("root", event.event)))
    middle.on(Event, lambda event: heard.append(("middle", event.event)))
    event = Ping(4)
    await leaf.emit(event)
    assert heard == [("middle", event), ("root", event)]


async def test_an_event_is_wanted_here_or_by_an_ancestor():
    root, _ = new_emitter()
    leaf, _ = new_emitter(root)
    assert not leaf.wants(Ping)
    unsubscribe = root.on(ChildEvent, print)
    assert leaf.wants(Ping)
    assert not root.wants(Ping)
    unsubscribe()
    assert not leaf.wants(Ping)
    leaf.on(Ping, print)
    assert leaf.wants(Ping)
    assert not leaf.wants(Pong)


async def test_posting_reaches_sync_listeners_now_and_async_ones_before_the_next_event():
    parent, _ = new_emitter()
    emitter, _ = new_emitter(parent)
    heard = []

    async def later(event):
        heard.append(("later", event.number))

    def also_later(event):
        return later(event)

    emitter.on(Ping, later)
    emitter.on(Ping, also_later)
    emitter.on(Ping, lambda event: heard.append(("now", event.number)))
    parent.on(ChildEvent, lambda event: heard.append(("parent", event.event.number)))
    emitter.post(Ping(1))
    assert heard == [("now", 1), ("parent", 1)]
    await emitter.emit(Pong())
    assert heard[2:4] == [("later", 1), ("later", 1)]
    await emitter.flush()
    assert len(heard) == 4


async def test_a_listener_that_raises_in_a_posted_event_is_logged_at_once_and_reported_later(caplog):
    emitter, reports = new_emitter()

    def fail(event):
        raise ValueError("boom")

    emitter.on(Ping, fail)

    with caplog.at_level(logging.ERROR, "simulacra.events"):
        emitter.post(Ping())

    assert (len(caplog.records), reports) == (1, [])
    await emitter.flush()
    assert reports == [("boom", "ping")]


async def test_a_closed_emitter_holds_no_listener():
    class Listener:
        def __call__(self, event):
            alive.append(self)

        def __del__(self):
            gone.append(True)

    alive, gone = [], []
    emitter, _ = new_emitter()
    emitter.on(Ping, Listener())
    emitter.close()
    gc.collect()
    assert gone == [True]
