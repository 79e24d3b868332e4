from __future__ import annotations

from contextlib import aclosing

import anyio
import pytest

from simulacra.clock import time_limit
from simulacra.errors import ConnectionFailedError
from simulacra.messages import Usage
from simulacra.streaming import (
    ContentStop,
    MessageStart,
    MessageStop,
    OpenStream,
    RawBlock,
    TextDelta,
    ThinkingStart,
    ToolCallStart,
    UsageUpdate,
    opens_reply,
    peek_generator,
)

pytestmark = pytest.mark.anyio


class Source:
    """An async generator that notes what was asked of it and when it was closed."""

    def __init__(self, *items, error: Exception | None = None, hang: bool = False) -> None:
        self.items = items
        self.error = error
        self.hang = hang
        self.given = 0
        self.closed = False

    async def stream(self):
        try:
            for item in self.items:
                self.given += 1
                yield item

            if self.hang:
                await anyio.sleep_forever()

            if self.error is not None:
                raise self.error
        finally:
            self.closed = True


async def rest(iterator) -> list:
    return [item async for item in iterator]


# UTIL-6


async def test_util_6_reads_the_first_item_and_replays_it():
    source = Source(1, 2, 3)

    first, iterator = await peek_generator(source.stream())

    assert first == 1
    assert source.given == 1
    assert await rest(iterator) == [1, 2, 3]
    assert source.closed


async def test_util_6_reads_up_to_the_item_that_is_wanted():
    source = Source(1, 2, 3, 4)

    found, iterator = await peek_generator(source.stream(), lambda item: item >= 3)

    assert found == 3
    assert source.given == 3
    assert await rest(iterator) == [1, 2, 3, 4]


async def test_util_6_a_falsy_item_is_an_item():
    first, iterator = await peek_generator(Source(0, 1).stream())

    assert first == 0
    assert await rest(iterator) == [0, 1]


async def test_util_6_an_empty_source_gives_nothing():
    first, iterator = await peek_generator(Source().stream())

    assert first is None
    assert await rest(iterator) == []


async def test_util_6_a_source_without_the_wanted_item_is_replayed_whole():
    found, iterator = await peek_generator(Source(1, 2).stream(), lambda item: item > 5)

    assert found is None
    assert await rest(iterator) == [1, 2]


async def test_util_6_an_error_while_reading_is_raised_and_the_source_closed():
    source = Source(1, error=ConnectionFailedError("gone"))

    with pytest.raises(ConnectionFailedError):
        await peek_generator(source.stream(), lambda item: item > 1)

    assert source.closed


async def test_util_6_an_error_after_the_first_item_comes_at_its_place():
    _, iterator = await peek_generator(Source(1, 2, error=ConnectionFailedError("gone")).stream())
    seen = []

    with pytest.raises(ConnectionFailedError):
        async for item in iterator:
            seen.append(item)

    assert seen == [1, 2]


async def test_util_6_cancelling_the_wait_for_the_first_item_closes_the_source():
    source = Source(hang=True)

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(peek_generator, source.stream())
            await anyio.wait_all_tasks_blocked()
            scope.cancel()

    assert source.closed


async def test_util_6_a_source_that_will_not_close_holds_nobody_up(fake_clock):
    class Stubborn:
        def __aiter__(self):
            return self

        async def __anext__(self):
            await anyio.sleep_forever()

        async def aclose(self):
            await anyio.sleep_forever()

    ended = []

    async def peek():
        with time_limit(1):
            await peek_generator(Stubborn())

        ended.append(fake_clock.monotonic())

    async with anyio.create_task_group() as group:
        group.start_soon(peek)
        await fake_clock.advance(1.1)

    assert ended
    assert ended[0] <= 1.1


async def test_util_6_failing_to_close_does_not_hide_what_went_wrong():
    class Broken:
        def __aiter__(self):
            return self

        async def __anext__(self):
            raise ConnectionFailedError("gone")

        async def aclose(self):
            raise KeyError("close")

    with pytest.raises(ConnectionFailedError):
        await peek_generator(Broken())


async def test_util_6_a_plain_iterator_will_do():
    class Plain:
        def __init__(self):
            self.items = [1, 2]

        def __aiter__(self):
            return self

        async def __anext__(self):
            if not self.items:
                raise StopAsyncIteration

            return self.items.pop(0)

    first, iterator = await peek_generator(Plain())
    assert (first, await rest(iterator)) == (1, [1, 2])

    _, unread = await peek_generator(Plain())
    await unread.aclose()
    assert await rest(unread) == []


# W-UTIL-1


async def test_w_util_1_the_source_is_closed_when_the_consumer_stops_early():
    source = Source(1, 2, 3)
    _, iterator = await peek_generator(source.stream())

    async with aclosing(iterator):
        async for item in iterator:
            if item == 2:
                break

    assert source.closed
    assert source.given == 2


async def test_w_util_1_the_source_is_closed_when_nothing_was_read_after_the_peek():
    source = Source(1, 2, 3)
    _, iterator = await peek_generator(source.stream())

    await iterator.aclose()
    await iterator.aclose()

    assert source.closed
    assert source.given == 1
    assert await rest(iterator) == []


async def test_w_util_1_throwing_into_the_iterator_closes_the_source():
    source = Source(1, 2, 3)
    _, iterator = await peek_generator(source.stream())

    with pytest.raises(KeyError):
        await iterator.athrow(KeyError("x"))

    assert source.closed


# RX-3: the first event


@pytest.mark.parametrize(
    ("event", "opens"),
    [
        (MessageStart(), False),
        (UsageUpdate(Usage(input_tokens=1)), False),
        (TextDelta(0, "x"), True),
        (TextDelta(0, ""), True),
        (ThinkingStart(0), True),
        (ToolCallStart(0, "id", "tool"), True),
        (RawBlock(0, {}), True),
        (ContentStop(0), True),
        (MessageStop(), True),
    ],
)
async def test_rx_3_what_counts_as_the_first_event(event, opens):
    assert opens_reply(event) is opens


async def test_rx_3_events_before_the_first_are_held_back_and_not_lost():
    events = [MessageStart(model="m"), UsageUpdate(Usage(input_tokens=1)), TextDelta(0, "x"), MessageStop()]
    source = Source(*events)

    first, iterator = await peek_generator(source.stream(), opens_reply)

    assert first is events[2]
    assert source.given == 3
    assert await rest(iterator) == events


# OpenStream


def opened(source: Source) -> OpenStream:
    return OpenStream(source.stream(), provider_kind="acme", model="m")


async def test_an_open_stream_tells_its_usage_and_its_end_once():
    source = Source(1)
    stream = opened(source)
    told = []

    async def slowly(usage):
        told.append(("async", usage.input_tokens))

    stream.on_usage(lambda usage: told.append(("sync", usage.input_tokens)))
    stream.on_usage(slowly)
    stream.on_close(lambda usage: told.append(("closed", usage.input_tokens)))
    await anext(stream.events)
    await stream.report_usage(Usage(input_tokens=1))
    await stream.report_usage(Usage(input_tokens=2))
    await stream.aclose()
    await stream.aclose()

    assert told == [("sync", 1), ("async", 1), ("sync", 2), ("async", 2), ("closed", 2)]
    assert source.closed


async def test_what_a_usage_hook_raises_reaches_the_turn():
    stream = opened(Source(1))
    stream.on_usage(lambda usage: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        await stream.report_usage(Usage(input_tokens=1))

    await stream.aclose()


async def test_every_close_hook_runs_whatever_another_one_does():
    stream = opened(Source(1))
    settled = []
    stream.on_close(lambda usage: 1 / 0)
    stream.on_close(settled.append)

    with pytest.raises(ZeroDivisionError):
        await stream.aclose()

    assert settled == [Usage()]


async def test_close_hooks_run_when_closing_the_source_fails():
    class Broken(Source):
        async def stream(self):
            try:
                yield 1
            finally:
                raise KeyError("close")

    stream = opened(Broken())
    settled = []
    stream.on_close(settled.append)
    await anext(stream.events)

    with pytest.raises(KeyError):
        await stream.aclose()

    assert settled == [Usage()]
