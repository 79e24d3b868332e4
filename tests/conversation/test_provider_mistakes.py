"""What a first custom provider gets wrong: a clear error, the attempt in the journal, a conversation that goes on."""

from __future__ import annotations

import pytest

from simulacra import (
    ConfigurationError,
    Conversation,
    MessageStart,
    MessageStop,
    ModelProvider,
    NoopPolicy,
    ProtocolError,
    TextDelta,
    WorkflowManager,
)

pytestmark = pytest.mark.anyio


class Mistaken(ModelProvider):
    """Yields `first` in its first reply, a good answer afterwards."""

    kind = "mistaken"
    model = "m"

    def __init__(self, *first):
        self.replies = [first]

    async def stream(self, request):
        for event in self.replies.pop() if self.replies else (TextDelta(0, "good"), MessageStop("end_turn")):
            yield event


class Returning(ModelProvider):
    kind = "returning"
    model = "m"

    async def stream(self, request):
        return None


class Nameless(ModelProvider):
    model = "m"

    async def stream(self, request):
        yield MessageStop("end_turn")


async def test_an_unknown_stop_reason_is_other_with_the_vendors_word():
    async with Conversation(Mistaken(TextDelta(0, "x"), MessageStop("weird"))) as conversation:
        response = await conversation.prompt("1")

        assert (response.text, response.stop_reason, response.stop_details) == ("x", "other", "weird")
        assert (await conversation.prompt("2")).text == "good"


@pytest.mark.parametrize(
    ("events", "error", "says"),
    [
        (("hello",), ProtocolError, "mistaken/m: a provider yields stream events, such as TextDelta, not str"),
        ((MessageStart(model=5), TextDelta(0, "x"), MessageStop("end_turn")), ValueError, "model"),
    ],
)
async def test_what_no_message_can_hold_fails_the_turn_and_nothing_else(events, error, says):
    async with Conversation(Mistaken(*events), NoopPolicy()) as conversation:
        with pytest.raises(error, match=says):
            await conversation.prompt("1")

        assert (conversation.state, conversation.is_busy, conversation.messages) == ("idle", False, ())
        assert [attempt.inputs[0].content[0].text for attempt in conversation.journal.attempts()] == ["1"]
        assert (await conversation.prompt("2")).text == "good"


async def test_a_stream_that_returns_is_told_to_yield():
    async with Conversation(Returning()) as conversation:
        with pytest.raises(ConfigurationError, match=r"Returning\.stream .*async generator, with `yield`"):
            await conversation.prompt("1")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Conversation(Mistaken), r"write Mistaken\(\.\.\.\)"),
        (lambda: Conversation(Nameless()), "Nameless needs a text 'kind'"),
        (lambda: Conversation(Mistaken(), system=5), "system takes str \\| None, not int"),
        (lambda: Conversation(Mistaken(), toolkit=len), "a toolkit is a list of tool classes"),
        (lambda: WorkflowManager("x"), "conversation takes Conversation, not str"),
    ],
)
async def test_wrong_arguments_are_refused_at_once(make, says):
    with pytest.raises(ConfigurationError, match=says):
        make()
