"""Connections live as long as their event loop: kept between requests, closed with it, by every plugin."""

from __future__ import annotations

import asyncio
import gc
from weakref import ref

import anyio
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from simulacra_anthropic import AnthropicProvider
from simulacra_openai import OpenAIProvider

from simulacra import Conversation
from simulacra.registry import resolve
from simulacra.testing import AnthropicEmulator, EmulatedReply, GeminiEmulator, OpenAIEmulator
from simulacra.wire import loop_end

EMULATORS = {"anthropic": AnthropicEmulator, "google": GeminiEmulator, "openai": OpenAIEmulator}


@pytest.fixture(params=EMULATORS)
def vendor(request):
    return request.param


def asks_twice(provider, emulator):
    async def ask():
        async with Conversation(provider) as conversation:
            await conversation.prompt("once")
            await conversation.prompt("again")

        assert emulator.open_connections == 1, "the connection was not kept for the next request"

    return ask


def test_a_provider_keeps_its_connection_in_each_loop_and_closes_it_at_the_end(vendor, anyio_backend):
    with EMULATORS[vendor]([EmulatedReply(text="a")] * 6) as emulator:
        provider = resolve(f"{vendor}:m", api_key="k", base_url=emulator.base_url)

        for _ in range(3):
            anyio.run(asks_twice(provider, emulator), backend=anyio_backend)
            anyio.run(emulator.disconnected)


def test_nothing_is_left_of_a_provider_that_is_made_anew_in_each_loop(vendor, anyio_backend):
    # What is left complains when it is collected, and each warning fails the test.
    with EMULATORS[vendor]([EmulatedReply(text="a")] * 10) as emulator:
        for _ in range(5):
            provider = resolve(f"{vendor}:m", api_key="k", base_url=emulator.base_url)
            anyio.run(asks_twice(provider, emulator), backend=anyio_backend)
            del provider
            gc.collect()

        anyio.run(emulator.disconnected)


@pytest.mark.anyio
async def test_a_body_of_several_megabytes_goes_out_without_a_warning(vendor):
    async with EMULATORS[vendor]([EmulatedReply(text="a")] * 2) as emulator:
        async with Conversation(resolve(f"{vendor}:m", api_key="k", base_url=emulator.base_url)) as conversation:
            assert (await conversation.prompt("x" * 3_000_000)).text == "a"
            assert (await conversation.prompt("again")).text == "a"

        assert "x" * 3_000_000 in str(emulator.requests[1].body)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["trio"])  # asyncio's own transports complain when they are dropped
async def test_the_connections_of_a_dropped_provider_are_closed_while_the_loop_runs(vendor):
    async with EMULATORS[vendor]([EmulatedReply(text="a")] * 2) as emulator:
        await asks_twice(resolve(f"{vendor}:m", api_key="k", base_url=emulator.base_url), emulator)()
        await collected()
        await emulator.disconnected()


PROVIDERS = {"anthropic": (AsyncAnthropic, AnthropicProvider), "openai": (AsyncOpenAI, OpenAIProvider)}


@pytest.mark.anyio
@pytest.mark.parametrize("vendor", PROVIDERS)
async def test_a_client_that_several_providers_share_outlives_each_of_them(vendor):
    client_class, provider_class = PROVIDERS[vendor]
    replies = [EmulatedReply(text="first"), EmulatedReply(text=["a", "b", "c"]), EmulatedReply(text="last")]

    async with (
        EMULATORS[vendor](replies) as emulator,
        client_class(api_key="k", base_url=emulator.base_url) as client,
    ):
        first = [provider_class(client, model="m")]
        assert (await Conversation(first[0]).prompt("1")).text == "first"

        async with Conversation(provider_class(client, model="m")).stream("2") as stream:
            deltas = stream.text_deltas()
            said = [await anext(deltas)]
            first.clear()
            await collected()
            said += [delta async for delta in deltas]

        assert said == ["a", "b", "c"]
        del stream, deltas
        await collected()
        assert emulator.open_connections == 1, "the connection was not kept for the next request"
        assert (await Conversation(provider_class(client, model="m")).prompt("3")).text == "last"


async def collected():
    await anyio.wait_all_tasks_blocked()  # until then tasks of a request may refer to its provider
    gc.collect()
    await anyio.wait_all_tasks_blocked()


def test_an_ended_loop_is_let_go_of_while_the_provider_lives(vendor):
    with EMULATORS[vendor]([EmulatedReply(text="a")] * 6) as emulator:
        provider = resolve(f"{vendor}:m", api_key="k", base_url=emulator.base_url)
        loops = []

        async def ask():
            loops.append(ref(asyncio.get_running_loop()))
            await asks_twice(provider, emulator)()

        for _ in range(3):
            asyncio.run(ask())

        gc.collect()
        assert [loop() for loop in loops] == [None, None, None]


def test_a_provider_that_is_dropped_as_the_loop_ends_leaves_nothing_open(vendor, anyio_backend):
    with EMULATORS[vendor]([EmulatedReply(text="a")] * 20) as emulator:

        async def ask():
            provider = resolve(f"{vendor}:m", api_key="k", base_url=emulator.base_url)
            await asks_twice(provider, emulator)()
            del provider
            gc.collect()  # and nothing runs between this and the end

        for _ in range(10):
            anyio.run(ask, backend=anyio_backend)
            gc.collect()

        anyio.run(emulator.disconnected)


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_what_was_cancelled_while_it_closed_is_closed_when_the_loop_ends(vendor, steps):
    """As when a provider is dropped just before: the loop cancels the task that closes its connections."""
    with EMULATORS[vendor]([EmulatedReply(text="a")] * 2) as emulator:

        async def ask():
            provider = resolve(f"{vendor}:m", api_key="k", base_url=emulator.base_url)
            await asks_twice(provider, emulator)()
            end = loop_end._ends[asyncio.get_running_loop()]
            [number] = end._closers
            end._start(number)
            [task] = end._tasks

            for _ in range(steps):
                await asyncio.sleep(0)

            task.cancel()
            await asyncio.wait([task])
            assert number in end._closers or not task.cancelled()

        asyncio.run(ask())
        gc.collect()
        anyio.run(emulator.disconnected)
