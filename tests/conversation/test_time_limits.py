"""Time limits of a turn, on a clock that only moves when it is told to."""

from __future__ import annotations

import anyio
import pytest
from conversation_kit import Heard, sketch, talk

from simulacra.conversation import Conversation
from simulacra.errors import ConfigurationError, TimeoutExceededError
from simulacra.events import ContentUpdate
from simulacra.policies import NoopPolicy, RetryPolicy
from simulacra.provider import ModelProvider, RequestOptions
from simulacra.streaming import MessageStart, MessageStop, TextDelta
from simulacra.testing import delay, reply, stall
from simulacra.transformers import ContextTransformer

pytestmark = pytest.mark.anyio


def test_rx_11_the_defaults():
    options = RequestOptions()

    assert (options.first_event_timeout, options.idle_timeout, options.total_timeout) == (600, 120, None)

    for name in ("first_event_timeout", "idle_timeout", "total_timeout"):
        with pytest.raises(ConfigurationError, match=name):
            RequestOptions(**{name: 0})


async def test_rx_11_no_first_event_in_time(ask, fake_clock):
    conversation = talk([MessageStart(), stall()], policy=NoopPolicy())
    heard = Heard(conversation)
    call = await ask(lambda: conversation.prompt("hi", first_event_timeout=5, idle_timeout=1))
    await fake_clock.advance(4.999)
    assert not call.is_over
    await fake_clock.advance(0.001)

    assert isinstance(call.error, TimeoutExceededError)
    assert "first_event_timeout" in str(call.error)
    assert call.error.retryable
    assert (call.error.provider, call.error.model) == ("scripted", "scripted")
    assert call.ended_at == 5
    assert heard.names[-2:] == ["request_error", "awaiting_response>idle"]
    assert conversation.messages == ()
    assert conversation.provider.open_streams == 0
    assert fake_clock.pending == 0


async def test_rx_11_the_first_event_limit_is_per_attempt_and_retried(ask, fake_clock):
    conversation = talk(stall(), [delay(4), *reply("hello")], policy=RetryPolicy(2, 1000, 1, jitter=False))
    call = await ask(lambda: conversation.prompt("hi", first_event_timeout=5))
    await fake_clock.advance(10)

    assert call.outcome.text == "hello"
    assert call.ended_at == 10


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_rx_11_a_stalled_stream_ends_in_a_typed_error(is_streamed, ask, fake_clock):
    conversation = talk(reply(chunks=["Hel", delay(3), "lo", stall()]), "well")
    heard = Heard(conversation)

    async def take():
        async with conversation.stream("hi", idle_timeout=5) as stream:
            await stream.response()

    call = await ask(take if is_streamed else lambda: conversation.prompt("hi", idle_timeout=5))
    await fake_clock.advance(7.999)
    assert not call.is_over
    await fake_clock.advance(0.001)

    assert isinstance(call.error, TimeoutExceededError)
    assert "idle_timeout" in str(call.error)
    assert not call.error.retryable
    assert sketch([call.error.partial]) == ["A! Hello"]
    assert call.ended_at == 8
    assert heard.ends == ["request_error"]
    assert conversation.provider.open_streams == 0
    assert fake_clock.pending == 0
    assert (await conversation.prompt("new")).text == "well"


class Pinging(ModelProvider):
    """Sends a ping each second between two pieces."""

    kind = "pinging"
    model = "m"

    def __init__(self, clock, pings):
        self.clock = clock
        self.pings = pings

    async def stream(self, request):
        yield TextDelta(0, "a")

        for _ in range(self.pings):
            await self.clock.sleep(1)
            await request.observer.chunk({"type": "ping"})

        yield TextDelta(0, "b")
        yield MessageStop()


@pytest.mark.parametrize("heard", [False, True])
async def test_rx_11_pings_of_the_vendor_count(heard, ask, fake_clock):
    conversation = Conversation(Pinging(fake_clock, 10))

    if heard:
        conversation.on("raw_stream", lambda event: None)

    call = await ask(lambda: conversation.prompt("hi", idle_timeout=1.5))
    await fake_clock.advance(20)

    assert call.outcome.text == "ab"
    assert call.ended_at == 10


async def test_rx_11_a_paused_consumer_is_no_stalled_stream(ask, fake_clock):
    conversation = talk(reply(chunks=["a", "b", "c"]))
    taken = []

    async def dawdle():
        async with conversation.stream("hi", idle_timeout=1) as stream:
            async for delta in stream.text_deltas():
                taken.append(delta)
                await fake_clock.sleep(10)

    call = await ask(dawdle)
    await fake_clock.advance(40)

    assert call.error is None
    assert taken == ["a", "b", "c"]


async def test_rx_11_a_slow_listener_is_no_stalled_stream(ask, fake_clock):
    conversation = talk(reply(chunks=["a", "b"]))

    async def dawdle(event):
        await fake_clock.sleep(10)

    conversation.on(ContentUpdate, dawdle)
    call = await ask(lambda: conversation.prompt("hi", idle_timeout=1))
    await fake_clock.advance(30)

    assert call.outcome.text == "ab"
    assert call.ended_at == 20


async def test_rx_11_the_total_limit_covers_retries_and_waits(ask, fake_clock):
    conversation = talk(*[stall()] * 3, policy=RetryPolicy(3, 1000, 1, jitter=False))
    call = await ask(lambda: conversation.prompt("hi", first_event_timeout=5, total_timeout=8))
    await fake_clock.advance(20)

    assert isinstance(call.error, TimeoutExceededError)
    assert "total_timeout" in str(call.error)
    assert call.ended_at == 8
    assert len(conversation.provider.requests) == 2
    assert conversation.provider.open_streams == 0
    assert fake_clock.pending == 0


async def test_rx_11_the_total_limit_covers_back_off(ask, fake_clock):
    conversation = talk(stall(), "never", policy=RetryPolicy(3, 30_000, 1, jitter=False))
    call = await ask(lambda: conversation.prompt("hi", first_event_timeout=1, total_timeout=4))
    await fake_clock.advance(60)

    assert isinstance(call.error, TimeoutExceededError)
    assert call.ended_at == 4


async def test_rx_11_the_total_limit_covers_a_stream_that_never_pauses_long(ask, fake_clock):
    conversation = talk(reply(chunks=[part for n in range(100) for part in (str(n % 10), delay(1))]))
    call = await ask(lambda: conversation.prompt("hi", total_timeout=4.5))
    await fake_clock.advance(60)

    assert isinstance(call.error, TimeoutExceededError)
    assert call.ended_at == 4.5
    assert call.error.partial.text == "01234"


async def test_rx_11_the_total_limit_covers_transformers(ask, fake_clock):
    class Endless(ContextTransformer):
        async def transform_completion(self, message, context):
            await anyio.sleep_forever()
            return message

    conversation = talk("hello", context_transformer=Endless())
    call = await ask(lambda: conversation.prompt("hi", total_timeout=3))
    await fake_clock.advance(3)

    assert isinstance(call.error, TimeoutExceededError)
    assert conversation.messages == ()
    assert sketch([conversation.journal.attempts()[0].partial]) == ["A! hello"]


async def test_rx_11_the_total_limit_ends_with_the_reply(ask, fake_clock):
    conversation = talk("hello", "again")

    async def go_on(event):
        if conversation.turn_count == 1:
            await fake_clock.sleep(100)

    conversation.on("message_complete", go_on)
    conversation.on("state_change", go_on)
    call = await ask(lambda: conversation.prompt("hi", total_timeout=3))
    await fake_clock.advance(400)

    assert call.outcome.text == "hello"
    assert sketch(conversation.messages) == ["U hi", "A hello"]


async def test_rx_11_the_total_limit_counts_while_a_consumer_pauses(ask, fake_clock):
    conversation = talk(reply(chunks=["a", "b", "c"]))

    async def dawdle():
        async with conversation.stream("hi", total_timeout=15) as stream:
            async for _ in stream.text_deltas():
                await fake_clock.sleep(10)

    call = await ask(dawdle)
    await fake_clock.advance(60)

    assert isinstance(call.error, TimeoutExceededError)
    assert sketch([call.error.partial]) == ["A! ab"]


async def test_rx_11_limits_can_be_switched_off(ask, fake_clock):
    conversation = talk([delay(10_000), *reply(chunks=["a", delay(10_000), "b"])])
    call = await ask(lambda: conversation.prompt("hi", first_event_timeout=None, idle_timeout=None))
    await fake_clock.advance(30_000)

    assert call.outcome.text == "ab"


async def test_w_conv_3_nothing_waits_for_ever_by_default(ask, fake_clock):
    conversation = talk(reply(chunks=["a", stall()]), stall(), policy=NoopPolicy())
    first = await ask(lambda: conversation.prompt("hi"))
    await fake_clock.advance(120)
    second = await ask(lambda: conversation.prompt("hi"))
    await fake_clock.advance(600)

    assert isinstance(first.error, TimeoutExceededError)
    assert isinstance(second.error, TimeoutExceededError)
