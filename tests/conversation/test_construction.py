"""How a conversation is made, and what can be read and assigned."""

from __future__ import annotations

import uuid

import anyio
import pytest
from conversation_kit import Heard, talk

from simulacra.checkpoints import DefaultSummarizationStrategy
from simulacra.conversation import Conversation
from simulacra.errors import (
    ConfigurationError,
    InvalidStateError,
    ServerError,
)
from simulacra.events import HistoryChange, PromptSend
from simulacra.messages import (
    AssistantMessage,
    CheckpointState,
    TextContent,
    ToolContent,
    ToolResultContent,
    ToolSuccessResult,
    UserMessage,
)
from simulacra.policies import CompositePolicy, NoopPolicy
from simulacra.provider import RequestOptions
from simulacra.testing import ScriptedProvider, calls, fault, reply, stall
from simulacra.tokens import TokenCounter
from simulacra.tools import ToolClass, tool
from simulacra.transformers import (
    CheckpointContextTransformer,
    CompositeContextTransformer,
    ContextTransformer,
    ToolContextTransformer,
)

pytestmark = pytest.mark.anyio


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def user(text, **fields):
    return UserMessage((TextContent(text),), **fields)


def test_conv_28_defaults():
    conversation = Conversation(ScriptedProvider())
    settings = conversation.core.settings

    assert isinstance(settings.policy, CompositePolicy)
    assert [type(policy).__name__ for policy in settings.policy.policies] == ["RetryPolicy"]
    assert isinstance(settings.transformer, CompositeContextTransformer)
    assert [type(each) for each in settings.transformer.transformers] == [
        ToolContextTransformer,
        CheckpointContextTransformer,
    ]
    assert isinstance(settings.strategy, DefaultSummarizationStrategy)
    assert (conversation.system, conversation.toolkit, conversation.options) == (None, (), RequestOptions())
    assert conversation.when_busy == "reject"


def test_conv_28_every_part_can_be_given():
    policy, transformer, strategy = NoopPolicy(), ContextTransformer(), DefaultSummarizationStrategy()
    conversation = Conversation(
        ScriptedProvider(),
        policy,
        transformer,
        strategy,
        id="mine",
        system="Be brief.",
        toolkit=[add],
        options=RequestOptions(max_tokens=5),
        when_busy="queue",
    )
    settings = conversation.core.settings

    assert (settings.policy, settings.transformer, settings.strategy) == (policy, transformer, strategy)
    assert (conversation.id, conversation.system, conversation.toolkit) == ("mine", "Be brief.", (add,))
    assert (conversation.options.max_tokens, conversation.when_busy) == (5, "queue")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("provider", 7),
        ("provider", "nobody:model"),
        ("policy", "retry"),
        ("context_transformer", print),
        ("summarization_strategy", "short"),
        ("options", {"max_tokens": 5}),
        ("toolkit", [print]),
        ("toolkit", [add, add]),
        ("when_busy", "sometimes"),
    ],
)
def test_conv_28_a_wrong_part_is_refused(name, value):
    parts = {"provider": ScriptedProvider(), name: value}

    with pytest.raises(ConfigurationError):
        Conversation(**parts)


def test_conv_29_the_id_is_a_uuid4_unless_given_and_cannot_be_assigned():
    conversation = talk()

    assert uuid.UUID(conversation.id).version == 4

    for name in ("id", "state", "is_checkpoint", "parent", "messages", "checkpoints", "turn_count", "journal"):
        with pytest.raises(AttributeError):
            setattr(conversation, name, None)


async def test_conv_29_settings_are_read_when_a_turn_starts(ask):
    conversation = talk(reply(chunks=["a", stall()]), otherwise="b")
    other = ScriptedProvider(["c"])
    await ask(lambda: conversation.prompt("1"))
    conversation.provider = other
    conversation.system = "Be brief."
    conversation.toolkit = [add]
    conversation.options = RequestOptions(max_tokens=7)
    conversation.token_counter = TokenCounter()
    conversation.cancel_response()
    await ask(anyio.lowlevel.checkpoint)
    await conversation.prompt("2")
    (request,) = other.requests

    assert conversation.provider is other
    assert request.system == ("Be brief.",)
    assert [definition.name for definition in request.tools] == ["add"]
    assert request.options.max_tokens == 7
    assert conversation.toolkit == (add,)


async def test_conv_29_a_turn_keeps_the_settings_it_began_with():
    conversation = talk(fault(ServerError("busy")), "one", system="before")
    first = conversation.provider
    second = ScriptedProvider([])

    def change(event):
        conversation.provider = second
        conversation.system = "after"
        conversation.toolkit = [add]

    conversation.on(PromptSend, change)
    conversation.core.settings.policy.policies[0].jitter = False
    conversation.core.settings.policy.policies[0].initial_backoff_ms = 0
    await conversation.prompt("hi")

    assert [request.system for request in first.requests] == [("before",)] * 2
    assert [request.tools for request in first.requests] == [()] * 2
    assert second.requests == []


async def test_conv_29_settings_cannot_be_assigned_when_disposed():
    conversation = talk()
    await conversation.aclose()

    for name, value in [
        ("provider", ScriptedProvider()),
        ("system", "x"),
        ("toolkit", [add]),
        ("options", RequestOptions()),
        ("token_counter", TokenCounter()),
        ("checkpoint_state", None),
    ]:
        with pytest.raises(InvalidStateError, match="disposed"):
            setattr(conversation, name, value)


async def test_conv_29_a_checkpoint_can_be_assigned_when_idle(ask):
    conversation = talk("one", stall())
    heard = Heard(conversation)
    await conversation.prompt("hi")
    state = CheckpointState(message_id=conversation.messages[0].id, summary="s")
    later = CheckpointState(message_id=conversation.messages[1].id, summary="t")
    conversation.checkpoint_state = state
    conversation.checkpoint_state = later
    assert conversation.checkpoints == (state, later)

    conversation.checkpoint_state = state
    assert (conversation.checkpoint_state, conversation.checkpoints) == (state, (state,))
    assert [event.reason for event in heard.of(HistoryChange)] == ["append", "restore", "restore", "restore"]

    with pytest.raises(ConfigurationError, match="nowhere"):
        conversation.checkpoint_state = CheckpointState(message_id="nowhere", summary="s")

    await ask(lambda: conversation.prompt("more"))

    with pytest.raises(InvalidStateError):
        conversation.checkpoint_state = None

    conversation.cancel_response()
    await ask(anyio.lowlevel.checkpoint)
    conversation.checkpoint_state = None
    assert (conversation.checkpoint_state, conversation.checkpoints) == (None, ())


async def test_w_conv_15_messages_is_the_same_tuple_until_history_changes():
    conversation = talk("one", "two")
    await conversation.prompt("hi")
    before = conversation.messages
    assert conversation.messages is before
    conversation.clear_queue()
    assert conversation.messages is before
    await conversation.prompt("more")

    assert conversation.messages is not before
    assert conversation.messages[:2] == before


async def test_w_conv_15_no_one_gets_a_nested_value_of_history_to_change():
    changed = []

    class Meddle(ToolClass):
        """Change the arguments."""

        async def execute(self, items: list[int]) -> int:
            items.append(99)
            changed.append(items)
            return len(items)

    conversation = talk(calls(("meddle", {"items": [1]})), "done", toolkit=[Meddle])
    conversation.on("before_request", lambda event: event.params["messages"].clear())
    await conversation.prompt("hi")

    assert changed == [[1, 99]]
    assert conversation.messages[1].content[0].params == {"items": [1]}
    assert conversation.provider.requests[1].messages[1].content[0].params == {"items": [1]}


async def test_cc_07_a_tool_that_changes_its_arguments_changes_no_request():
    class Meddle(ToolClass):
        """Change the arguments."""

        async def execute(self, x: list[int]) -> int:
            x.append(1)
            return len(x)

    conversation = talk(calls(("meddle", {"x": []})), "done", toolkit=[Meddle])
    await conversation.prompt("hi")

    assert conversation.provider.requests[-1].messages[1].content[0].params == {"x": []}


async def test_cc_r2_what_is_given_is_taken_as_a_value():
    extended = {"note": {"k": [1]}}
    given = [TextContent("hi", extended=extended)]
    history = [user("before"), AssistantMessage((ToolContent(tool_request_id="t", tool="f", params={"a": [1]}),))]
    params = history[1].content[0].params
    result = UserMessage((ToolResultContent(tool_request_id="t", tool="f", result=ToolSuccessResult()),))
    toolkit = [add]
    conversation = talk("one", toolkit=toolkit)
    conversation.load([*history, result])
    await conversation.prompt(given)
    extended["note"]["k"].append(2)
    given[0].extended["note"]["k"].append(3)
    params["a"].append(2)
    given.clear()
    history.clear()
    toolkit.clear()

    assert conversation.messages[3].content[0].extended == {"note": {"k": [1]}}
    assert conversation.messages[1].content[0].params == {"a": [1]}
    assert conversation.toolkit == (add,)
