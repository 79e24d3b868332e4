"""The floor by itself: who gets it next."""

from __future__ import annotations

import anyio
import pytest

from simulacra.dialog.floor import Floor, Grant
from simulacra.errors import InvalidStateError
from simulacra.messages import Response, TextContent, UserMessage

pytestmark = pytest.mark.anyio


class Host:
    def __init__(self):
        self.told = []

    def input_queued(self, waiting):
        self.told.append(("queued", text_of(waiting)))

    def input_sent(self, waiting):
        self.told.append(("sent", text_of(waiting)))

    def input_dropped(self, waiting, reason):
        self.told.append((reason, text_of(waiting)))


def text_of(waiting):
    return waiting.contents[0].text


def message(text):
    return UserMessage((TextContent(text),))


def texts(grant):
    return [[block.text for block in each.content] for each in grant.inputs]


def taken(when_busy, *names, firsts=(), callerless=()):
    """A floor that is taken, with inputs that wait."""
    host = Host()
    floor = Floor(host, when_busy)
    holder = floor.take(message("holder"))
    waiting = {
        name: floor.enqueue(message(name), first=name in firsts, has_caller=name not in callerless) for name in names
    }

    return floor, holder, waiting, host


async def test_a_free_floor_is_taken_at_once():
    floor = Floor(Host(), "reject")
    assert not floor.is_taken
    grant = floor.take(message("a"))
    assert (floor.holder, floor.is_taken) == (grant, True)
    floor.release(grant)
    assert not floor.is_taken


@pytest.mark.parametrize(
    ("when_busy", "given", "left"),
    [
        ("reject", [["1"]], ["2", "3"]),
        ("queue", [["1"]], ["2", "3"]),
        ("merge", [["1", "2", "3"]], []),
        ("interrupt", [["1"], ["2"], ["3"]], []),
        ("latest", [["3"]], []),
    ],
)
async def test_who_is_next(when_busy, given, left):
    floor, holder, _, host = taken(when_busy, "1", "2", "3")
    floor.release(holder)

    assert texts(floor.holder) == given
    assert [text_of(waiting) for waiting in floor.queued] == left
    sent = [name for kind, name in host.told if kind == "sent"]
    assert sent == [name for names in given for name in names]
    assert [entry for entry in host.told if entry[0] == "superseded"] == (
        [("superseded", "1"), ("superseded", "2")] if when_busy == "latest" else []
    )


@pytest.mark.parametrize("when_busy", ["reject", "queue"])
async def test_interrupts_go_first_and_together(when_busy):
    floor, holder, _, _ = taken(when_busy, "1", "2", "first", "second", firsts=("first", "second"))

    assert [text_of(waiting) for waiting in floor.queued] == ["first", "second", "1", "2"]
    floor.release(holder)
    assert texts(floor.holder) == [["first"], ["second"]]
    floor.release(floor.holder)
    assert texts(floor.holder) == [["1"]]


async def test_the_newest_counts_for_latest_wherever_it_stands():
    floor, holder, waiting, _ = taken("latest", "1", "urgent", firsts=("urgent",))
    floor.release(holder)

    assert texts(floor.holder) == [["urgent"]]
    assert (await waiting["1"].wait()).stop_details == "superseded"


async def test_inputs_without_a_caller_wait_for_the_tool_loop():
    floor, holder, _, host = taken("merge", "1", "queued", callerless=("queued",))
    floor.release(holder)

    assert texts(floor.holder) == [["1"]]
    assert text_of(floor.next_message()) == "queued"
    assert floor.next_message() is None
    assert host.told[-1] == ("sent", "queued")


async def test_only_the_holder_can_release():
    floor, holder, _, _ = taken("queue", "1")
    floor.release(Grant((message("stranger"),)))
    assert floor.holder is holder
    floor.release(holder)
    floor.release(holder)
    assert texts(floor.holder) == [["1"]]


async def test_followers_share_the_outcome():
    floor, holder, waiting, _ = taken("merge", "1", "2")
    floor.release(holder)
    grant = await floor.wait(waiting["1"])
    response = Response(message=None, stop_reason="end_turn")
    grant.share(response)

    assert await floor.wait(waiting["2"]) is response


async def test_followers_share_a_failure():
    floor, holder, waiting, _ = taken("merge", "1", "2")
    floor.release(holder)
    (await floor.wait(waiting["1"])).share(ZeroDivisionError())

    with pytest.raises(ZeroDivisionError):
        await floor.wait(waiting["2"])


async def test_clearing_settles_every_caller():
    floor, _, waiting, host = taken("queue", "1", "2")

    assert floor.clear("gone") == 2
    assert floor.clear("gone") == 0
    assert [(await one.wait()).stop_details for one in waiting.values()] == ["gone", "gone"]
    assert host.told[-2:] == [("gone", "1"), ("gone", "2")]


async def test_at_most_32_wait():
    floor, _, _, _ = taken("queue", *map(str, range(32)))

    with pytest.raises(InvalidStateError, match="clear_queue"):
        floor.enqueue(message("33"))


async def test_a_leader_that_gives_up_leaves_its_followers_waiting():
    floor, holder, waiting, host = taken("merge", "1", "2", "3")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(floor.wait, waiting["1"])
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        floor.release(holder)  # it was cancelled, but does not know yet

    assert texts(floor.holder) == [["2", "3"]]
    assert ("withdrawn", "1") in host.told
    assert isinstance(await waiting["2"].wait(), Grant)
