"""What a first custom provider gets wrong: a clear error, the attempt in the journal, a conversation that goes on."""

from __future__ import annotations

import pytest

from simulacra import (
    ConfigurationError,
    Conversation,
    MediaDelta,
    MessageStart,
    MessageStop,
    ModelProvider,
    NoopPolicy,
    ProtocolError,
    ProviderError,
    RetryPolicy,
    TextDelta,
    UsageUpdate,
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


class Plain(ModelProvider):
    kind = "plain"
    model = "m"

    def stream(self, request):
        yield MessageStop("end_turn")


class Faulty(Mistaken):
    kind = "faulty"

    async def stream(self, request):
        for event in self.replies[0]:
            yield event

        raise KeyError("choices")


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
        ((MessageStart(model=5), TextDelta(0, "x"), MessageStop("end_turn")), ProtocolError, "model"),
        ((TextDelta(0, 5),), ProtocolError, r"mistaken/m: .* yielded TextDelta\(index=0, text=5\)"),
        ((TextDelta(0, "x"), TextDelta([], "y")), ProtocolError, r"TextDelta\(index=\[\], text='y'\)"),
        ((TextDelta(0, "x"), UsageUpdate(None)), ProtocolError, r"UsageUpdate\(usage=None\)"),
        ((MediaDelta(0, "image/png", "text"), MessageStop("end_turn")), ProtocolError, "which no message can hold"),
    ],
)
async def test_what_no_message_can_hold_fails_the_turn_and_nothing_else(events, error, says):
    async with Conversation(Mistaken(*events), NoopPolicy()) as conversation:
        with pytest.raises(error, match=says):
            await conversation.prompt("1")

        assert (conversation.state, conversation.is_busy, conversation.messages) == ("idle", False, ())
        assert [attempt.inputs[0].content[0].text for attempt in conversation.journal.attempts()] == ["1"]
        assert (await conversation.prompt("2")).text == "good"


@pytest.mark.parametrize("provider", [Returning(), Plain()])
async def test_a_stream_that_is_no_async_generator_is_told_to_be_one(provider):
    async with Conversation(provider) as conversation:
        with pytest.raises(ConfigurationError, match=r"\.stream is no async generator: .*`async def`, with `yield`"):
            await conversation.prompt("1")


@pytest.mark.parametrize("said", [(), (TextDelta(0, "half"),)])
async def test_a_fault_of_the_provider_is_a_typed_error_that_names_it(said):
    async with Conversation(Faulty(*said)) as conversation:
        with pytest.raises(ProviderError, match=r"faulty/m: Faulty\.stream raised KeyError: 'choices'") as caught:
            await conversation.prompt("1")

        assert isinstance(caught.value.__cause__, KeyError)
        assert [caught.value.partial.content[0].text] == ["half"] if said else caught.value.partial is None
        assert (conversation.state, conversation.messages) == ("idle", ())


async def test_the_policy_judges_a_foreign_error_as_it_is():
    judged = []
    policy = RetryPolicy(2, 0, 1, lambda error: not judged.append(type(error)))

    async with Conversation(Faulty(), policy) as conversation:
        with pytest.raises(ProviderError, match="KeyError"):
            await conversation.prompt("1")

    assert set(judged) == {KeyError}


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
