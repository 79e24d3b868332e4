"""The scripted provider: plays its steps as a real provider would, and fails loudly when script and use differ."""

from __future__ import annotations

from contextlib import aclosing

import anyio
import pytest

from simulacra.errors import ConfigurationError, ProviderError, RateLimitError
from simulacra.messages import TextContent, Usage, UserMessage
from simulacra.provider import ModelRequest, SilentObserver
from simulacra.streaming import (
    ContentStop,
    Fold,
    MessageStart,
    MessageStop,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStart,
)
from simulacra.testing import (
    FakeClock,
    ScriptedProvider,
    UnexpectedRequestError,
    UnusedStepsError,
    calls,
    delay,
    fault,
    fault_after,
    reply,
    stall,
)

pytestmark = pytest.mark.anyio


class Ear(SilentObserver):
    wants_chunks = True

    def __init__(self):
        self.told = []

    async def before_request(self, params):
        self.told.append("before")

        return {**params, "seed": 7}

    async def chunk(self, data):
        self.told.append(data)

    async def response(self, data):
        self.told.append(data)


def ask(text="hi", observer=None):
    return ModelRequest(messages=(UserMessage((TextContent(text),)),), observer=observer or SilentObserver())


async def collect(provider, request=None):
    async with aclosing(provider.stream(request or ask())) as events:
        return [event async for event in events]


def folded(events):
    fold = Fold("m", 1, model_kind="scripted")

    for event in events:
        fold.apply(event)

    return fold.message()


async def test_steps_are_answered_in_order_and_requests_recorded():
    async with ScriptedProvider(["one", reply(chunks=["t", "wo"], usage=Usage(input_tokens=3))]) as provider:
        first, second = ask("a"), ask("b")
        assert folded(await collect(provider, first)).text == "one"
        message = folded(await collect(provider, second))

    assert message.text == "two"
    assert message.usage.input_tokens == 3
    assert provider.requests == [first, second]
    assert provider.closed_streams == 2
    assert provider.open_streams == 0


async def test_events_are_played_as_they_stand():
    events = [MessageStart("id"), TextDelta(0, "x"), MessageStop("max_tokens")]
    assert await collect(ScriptedProvider([events])) == events


async def test_calls_get_ids_in_the_order_of_play_unless_given():
    provider = ScriptedProvider([calls(("a", {"x": 1}), ("b", "{broken", "mine"), text="so"), calls(("c", {}))])
    assert await collect(provider) == [
        MessageStart(),
        TextDelta(0, "so"),
        ContentStop(0),
        ToolCallStart(1, "call_1", "a"),
        ToolArgumentsDelta(1, '{"x": 1}'),
        ContentStop(1),
        ToolCallStart(2, "mine", "b"),
        ToolArgumentsDelta(2, "{broken"),
        ContentStop(2),
        MessageStop("tool_use"),
    ]
    assert [event for event in await collect(provider) if isinstance(event, ToolCallStart)] == [
        ToolCallStart(0, "call_3", "c")
    ]


async def test_a_fault_comes_before_the_first_event():
    error = RateLimitError("slow down")
    provider = ScriptedProvider([fault(error)])

    with pytest.raises(RateLimitError) as raised:
        await collect(provider)

    assert raised.value is error
    assert provider.closed_streams == 1


@pytest.mark.parametrize(("delivered", "pieces"), [("half", ["half"]), (3, ["x", "x", "x"])])
async def test_a_fault_after_something_was_delivered(delivered, pieces):
    seen = []
    stream = ScriptedProvider([fault_after(delivered, ValueError("cut"))]).stream(ask())

    with pytest.raises(ValueError, match="cut"):
        async for event in stream:
            seen.append(event)

    assert [event.text for event in seen if isinstance(event, TextDelta)] == pieces


async def test_delays_pass_on_the_engines_clock(fake_clock):
    provider = ScriptedProvider([reply("ab", chunks=["a", delay(2), "b"])])
    arrived = []

    async def read():
        async for event in provider.stream(ask()):
            if isinstance(event, TextDelta):
                arrived.append((event.text, fake_clock.monotonic()))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await fake_clock.advance(1)
        assert arrived == [("a", 0.0)]
        await fake_clock.advance(1)
        assert arrived == [("a", 0.0), ("b", 2.0)]


async def test_a_stall_lasts_until_cancelled(fake_clock: FakeClock):
    provider = ScriptedProvider([[TextDelta(0, "x"), stall()]])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(collect, provider)
        await fake_clock.advance(10_000)
        assert provider.open_streams == 1
        tasks.cancel_scope.cancel()

    assert provider.closed_streams == 1


async def test_closing_the_iterator_early_is_recorded():
    provider = ScriptedProvider(["long answer"])
    stream = provider.stream(ask())
    await anext(stream)
    assert (provider.open_streams, provider.closed_streams) == (1, 0)
    await stream.aclose()
    assert (provider.open_streams, provider.closed_streams) == (0, 1)


async def test_a_step_may_be_a_function_of_the_request():
    async def later(request):
        return reply(request.messages[0].content[0].text.upper())

    provider = ScriptedProvider([lambda request: later, lambda request: "plain"])
    assert folded(await collect(provider, ask("shout"))).text == "SHOUT"
    assert folded(await collect(provider)).text == "plain"


async def test_the_observer_is_told_everything():
    ear = Ear()
    provider = ScriptedProvider(["x"])
    events = await collect(provider, ask(observer=ear))
    assert ear.told == ["before", *events, {"events": events}]
    assert provider.sent[0]["seed"] == 7
    assert provider.sent[0]["model"] == "scripted"


async def test_an_unexpected_request_is_loud_even_when_swallowed():
    provider = ScriptedProvider([])

    with pytest.raises(UnexpectedRequestError, match="beyond the script") as raised:
        await collect(provider)

    assert isinstance(raised.value, AssertionError)
    assert not isinstance(raised.value, ProviderError)

    with pytest.raises(UnexpectedRequestError):
        provider.assert_complete()


async def test_otherwise_answers_every_further_request():
    async with ScriptedProvider(["first"], otherwise="again") as provider:
        assert [folded(await collect(provider)).text for _ in range(3)] == ["first", "again", "again"]


def test_unused_steps_fail_on_leaving():
    with pytest.raises(UnusedStepsError, match="1 unused"), ScriptedProvider(["never"]):
        pass


def test_an_error_inside_the_block_is_not_hidden_by_unused_steps():
    with pytest.raises(KeyError), ScriptedProvider(["never"]):
        raise KeyError


async def test_clones_play_the_same_script():
    provider = ScriptedProvider(["one", "two"])
    clone = provider.clone()
    assert folded(await collect(clone)).text == "one"
    provider.add("three")
    assert [folded(await collect(source)).text for source in (provider, clone)] == ["two", "three"]
    assert len(provider.requests) == len(clone.requests) == 3
    provider.assert_complete()


def test_calls_that_are_no_tuples_are_refused():
    with pytest.raises(ConfigurationError, match="takes tuples"):
        calls("search")


def test_chunks_must_say_what_the_text_says():
    with pytest.raises(ConfigurationError, match="chunks say"):
        reply("abc", chunks=["a", "b"])
