"""What a checkpoint changes in the requests of a conversation, and what its failures leave alone."""

from __future__ import annotations

import pytest

from simulacra.checkpoints import CheckpointConfig, SummarizationStrategy
from simulacra.conversation import Conversation
from simulacra.errors import ConfigurationError, ProtocolError, ServerError
from simulacra.events import CheckpointComplete, LifecycleError
from simulacra.messages import (
    AssistantMessage,
    TextContent,
    ToolContent,
    ToolResultContent,
    ToolSuccessResult,
    UserMessage,
)
from simulacra.provider import ProviderProfile
from simulacra.testing import ScriptedProvider, calls, fault, reply

pytestmark = pytest.mark.anyio


class Strategy(SummarizationStrategy):
    """Says what it was given and returns what it was told to."""

    def __init__(self, prompt=None) -> None:
        self.prompt = [UserMessage((TextContent("summarise"),))] if prompt is None else prompt
        self.contexts = []

    def build_prompt(self, context):
        self.contexts.append(context)

        if isinstance(self.prompt, Exception):
            raise self.prompt

        return self.prompt


class AsyncStrategy(Strategy):
    async def build_prompt(self, context):
        return super().build_prompt(context)


async def talk(
    *replies, strategy: SummarizationStrategy | None = None, **facts
) -> tuple[Conversation, ScriptedProvider]:
    """A conversation after two turns; the script goes on with `replies`."""
    provider = ScriptedProvider(["one", "two", *replies])
    conversation = Conversation(provider, summarization_strategy=strategy, **facts)
    await conversation.prompt("first")
    await conversation.prompt("second")

    return conversation, provider


def texts(messages) -> list[str]:
    return [block.text for message in messages for block in message.content]


async def test_cp_10_the_next_request_has_summary_boundary_and_what_came_after():
    conversation, provider = await talk("they talked", "three", "four")
    state = await conversation.checkpoint()
    await conversation.prompt("third")
    await conversation.prompt("fourth")

    summary = "<conversation_summary>\nthey talked\n</conversation_summary>"
    assert state.message_id == conversation.messages[3].id
    assert texts(provider.requests[3].messages) == [summary, "two", "third"]
    assert texts(provider.requests[4].messages) == [summary, "two", "third", "three", "fourth"]
    assert provider.requests[4].messages[0] == provider.requests[3].messages[0]
    assert texts(conversation.messages) == [
        "first", "one", "second", "two", "third", "three", "fourth", "four",
    ]  # fmt: skip


async def test_cp_11_the_default_strategy_asks_for_the_whole_conversation():
    conversation, provider = await talk("they talked", system="be kind")
    await conversation.checkpoint(CheckpointConfig(context="mind the prices"))

    (question,) = texts(provider.requests[2].messages)
    assert "User:\nfirst\n\nAssistant:\none\n\nUser:\nsecond\n\nAssistant:\ntwo" in question
    assert "be kind" in question
    assert question.endswith("mind the prices")


async def test_cp_r4_the_summary_is_asked_for_without_tools_and_system():
    conversation, provider = await talk("they talked", system="be kind")
    await conversation.checkpoint()

    assert provider.requests[2].tools == ()
    assert provider.requests[2].system == ()


async def test_cp_r4_calls_in_the_summarys_reply_are_ignored():
    conversation, _ = await talk(calls(("find", {}), text="they talked"))

    assert (await conversation.checkpoint()).summary == "they talked"


async def test_cp_2_a_later_checkpoint_covers_what_is_new_and_knows_the_old_summary():
    strategy = Strategy()
    conversation, _ = await talk("summary 1", "three", "summary 2", strategy=strategy)
    first = await conversation.checkpoint()
    await conversation.prompt("third")
    second = await conversation.checkpoint()

    assert texts(strategy.contexts[0].messages) == ["first", "one", "second", "two"]
    assert strategy.contexts[0].previous_checkpoint is None
    assert texts(strategy.contexts[1].messages) == ["third", "three"]
    assert strategy.contexts[1].previous_checkpoint == first
    assert second.summary == "summary 2"


@pytest.mark.parametrize("kind", [Strategy, AsyncStrategy])
async def test_cp_3_a_strategy_may_be_sync_or_async_and_may_give_history(kind):
    earlier = [UserMessage((TextContent("example"),)), AssistantMessage((TextContent("example summary"),))]
    strategy = kind([*earlier, UserMessage((TextContent("now this"),))])
    conversation, provider = await talk("they talked", strategy=strategy, id="talk", system="be kind")

    await conversation.checkpoint(CheckpointConfig(context="mind the prices"))

    assert texts(provider.requests[2].messages) == ["example", "example summary", "now this"]
    (context,) = strategy.contexts
    assert (context.session_id, context.system, context.context) == ("talk", "be kind", "mind the prices")


@pytest.mark.parametrize("prompt", [[], [AssistantMessage((TextContent("x"),))]])
async def test_cp_3_a_strategy_must_end_with_a_user_message(prompt):
    conversation, provider = await talk(strategy=Strategy(prompt))

    with pytest.raises(ConfigurationError, match="must return a user message last"):
        await conversation.checkpoint()

    assert len(provider.requests) == 2
    assert conversation.checkpoint_state is None


async def test_cp_03_a_history_of_calls_alone_reaches_the_summary():
    strategy = Strategy()
    provider = ScriptedProvider(["what was done", "done"])
    conversation = Conversation(provider, summarization_strategy=strategy)
    history = []

    for number in range(5):
        call = ToolContent(tool_request_id=f"c{number}", tool="look")
        result = ToolResultContent(tool_request_id=f"c{number}", tool="look", result=ToolSuccessResult(n=number))
        history += [AssistantMessage((call,)), UserMessage((result,))]

    conversation.load(history)
    await conversation.checkpoint()
    await conversation.prompt("go on")

    assert strategy.contexts[0].messages == conversation.messages[:10]
    assert texts(provider.requests[1].messages) == [
        "<conversation_summary>\nwhat was done\n</conversation_summary>",
        "go on",
    ]


@pytest.mark.parametrize("summary", ["", "  \n"])
async def test_cp_05_a_blank_summary_changes_nothing(summary):
    conversation, provider = await talk(reply(summary), "three", "they talked", "four")
    before = conversation.messages
    heard = []
    conversation.on(LifecycleError, heard.append)
    conversation.on(CheckpointComplete, heard.append)

    with pytest.raises(ProtocolError, match="checkpoint produced an empty summary"):
        await conversation.checkpoint()

    assert [(event.name, event.operation) for event in heard] == [("lifecycle_error", "checkpoint")]
    assert conversation.messages == before
    assert conversation.checkpoint_state is None
    assert len(provider.requests) == 3

    await conversation.prompt("third")
    assert texts(provider.requests[3].messages) == ["first", "one", "second", "two", "third"]
    assert (await conversation.checkpoint()).summary == "they talked"


async def test_cp_05_a_failing_strategy_or_request_changes_nothing():
    strategy = Strategy(KeyError("broken strategy"))
    conversation, provider = await talk(strategy=strategy)
    heard = []
    conversation.on(LifecycleError, heard.append)

    with pytest.raises(KeyError):
        await conversation.checkpoint()

    strategy.prompt = [UserMessage((TextContent("summarise"),))]
    provider.add(fault(ServerError("boom", retryable=False)))

    with pytest.raises(ServerError):
        await conversation.checkpoint()

    assert [event.operation for event in heard] == ["checkpoint", "checkpoint"]
    assert conversation.checkpoint_state is None
    assert texts(conversation.messages) == ["first", "one", "second", "two"]


@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "content_filter", "context_window", "error"])
async def test_cp_r3_a_reply_that_did_not_end_by_itself_becomes_no_checkpoint(reason):
    conversation, _ = await talk(reply("they tal", stop_reason=reason))

    with pytest.raises(ProtocolError):
        await conversation.checkpoint()

    assert conversation.checkpoint_state is None


async def test_cp_r3_an_old_checkpoint_survives_the_failure_of_a_new_one():
    conversation, provider = await talk("summary 1", "three", reply(" "), "four")
    first = await conversation.checkpoint()
    await conversation.prompt("third")

    with pytest.raises(ProtocolError):
        await conversation.checkpoint()

    await conversation.prompt("fourth")
    assert conversation.checkpoint_state == first
    assert "summary 1" in texts(provider.requests[-1].messages)[0]


async def test_w_cp_4_a_transcript_too_large_is_summarised_in_parts():
    small = ScriptedProvider(
        ["part 1", "part 2", "part 3"], model="small", profile=ProviderProfile(context_window=1_000)
    )
    strategy = Strategy()
    provider = ScriptedProvider([f"{number} " + "word " * 300 for number in range(3)])
    conversation = Conversation(provider, summarization_strategy=strategy)

    for number in range(3):
        await conversation.prompt(f"question {number}")

    state = await conversation.checkpoint(CheckpointConfig(provider=small))

    covered = [text for context in strategy.contexts for text in texts(context.messages)]
    assert covered == texts(conversation.messages)
    assert len(strategy.contexts) > 1
    assert [context.previous_checkpoint and context.previous_checkpoint.summary for context in strategy.contexts] == [
        None,
        *(f"part {number}" for number in range(1, len(strategy.contexts))),
    ]
    assert state.summary == f"part {len(strategy.contexts)}"
    assert state.message_id == conversation.messages[-1].id
    assert len(provider.requests) == 3
