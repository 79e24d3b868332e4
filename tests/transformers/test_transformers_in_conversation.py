"""Transformers where they work: around the requests and replies of a conversation."""

from __future__ import annotations

import dataclasses

import pytest

from simulacra.conversation import Conversation
from simulacra.errors import ConfigurationError, ContextWindowError
from simulacra.events import ContentComplete, ConversationEvent, MessageComplete, RequestError, StateChange
from simulacra.messages import (
    AssistantMessage,
    TextContent,
    ToolContent,
    ToolResultContent,
    ToolSuccessResult,
    UserMessage,
)
from simulacra.testing import ScriptedProvider, fault, reply
from simulacra.transformers import ContextTransformer, NoopContextTransformer, TransformContext

pytestmark = pytest.mark.anyio


class Tagging(ContextTransformer):
    """Adds its tag to the last prompt and to the reply."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.contexts: list[TransformContext] = []
        self.completions = 0

    async def transform_prompt(self, messages, context):
        self.contexts.append(context)
        *before, last = messages

        return [*before, dataclasses.replace(last, content=(*last.content, TextContent(self.tag)))]

    async def transform_completion(self, message, context):
        self.completions += 1

        return dataclasses.replace(message, content=(*message.content, TextContent(self.tag)), id="other")


class Raising(ContextTransformer):
    def __init__(self, *, prompt: bool) -> None:
        self.prompt = prompt
        self.raised = False

    async def transform_prompt(self, messages, context):
        if self.prompt and not self.raised:
            self.raised = True
            raise ConfigurationError("no prompt today")

        return messages

    async def transform_completion(self, message, context):
        if not self.prompt and not self.raised:
            self.raised = True
            raise ConfigurationError("no reply today")

        return message


def texts(message) -> list[str]:
    return [block.text for block in message.content]


async def test_ctx_3_provider_transformers_run_first_in_both_directions():
    provider = ScriptedProvider(["answer"], context_transformers=[Tagging("p1"), Tagging("p2")])
    conversation = Conversation(provider, context_transformer=Tagging("c"))

    response = await conversation.prompt("hi")

    assert texts(provider.requests[0].messages[-1]) == ["hi", "p1", "p2", "c"]
    assert texts(response.message) == ["answer", "p1", "p2", "c"]


async def test_ctx_2_all_transformers_get_one_context_that_knows_the_request():
    first, second = Tagging("p"), Tagging("c")
    provider = ScriptedProvider(["answer"], context_transformers=[first])
    conversation = Conversation(provider, context_transformer=second, id="talk", system="be kind")

    await conversation.prompt("hi")

    (context,) = first.contexts
    assert context is second.contexts[0]
    assert (context.conversation_id, context.system, context.model) == ("talk", ("be kind",), "scripted")
    assert context.profile is provider.profile
    assert context.count_tokens(provider.requests[0].messages) > 0


async def test_w_ctx_4_what_transformers_add_to_the_system_prompt_is_sent():
    class Adding(ContextTransformer):
        async def transform_prompt(self, messages, context):
            context.add_system("answer in rhyme")

            return messages

    provider = ScriptedProvider(["one", "two"])
    conversation = Conversation(provider, context_transformer=Adding(), system="be kind")
    await conversation.prompt("hi")
    await conversation.prompt("hi")

    assert [request.system for request in provider.requests] == [("be kind", "answer in rhyme")] * 2
    assert conversation.system == "be kind"


async def test_ctx_4_prompts_see_history_and_the_new_message_and_change_neither():
    transformer = Tagging("tag")
    provider = ScriptedProvider(["one", "two"])
    conversation = Conversation(provider, context_transformer=transformer)
    await conversation.prompt("first")
    await conversation.prompt("second")

    assert [texts(message) for message in provider.requests[1].messages] == [
        ["first"],
        ["one", "tag"],
        ["second", "tag"],
    ]
    assert [texts(message) for message in conversation.messages] == [
        ["first"],
        ["one", "tag"],
        ["second"],
        ["two", "tag"],
    ]


async def test_ctx_4_completions_are_transformed_once_before_the_commit_and_keep_their_id():
    transformer = Tagging("tag")
    conversation = Conversation(ScriptedProvider([reply(chunks=["an", "swer"])]), context_transformer=transformer)
    completed, blocks = [], []
    conversation.on(MessageComplete, lambda event: completed.append((event.message, conversation.messages[-1])))
    conversation.on(ContentComplete, lambda event: blocks.append(event.content.text))

    response = await conversation.prompt("hi")

    assert transformer.completions == 1
    assert blocks == ["answer"]
    assert completed == [(response.message, response.message)]
    assert texts(response.message) == ["answer", "tag"]
    assert response.message.id != "other"


async def test_ctx_5_a_raising_prompt_transform_calls_no_provider():
    provider = ScriptedProvider(["answer"])
    conversation = Conversation(provider, context_transformer=Raising(prompt=True))
    heard = []
    conversation.on(RequestError, heard.append)
    conversation.on(StateChange, heard.append)

    with pytest.raises(ConfigurationError, match="no prompt today"):
        await conversation.prompt("hi")

    assert [event.name for event in heard] == ["state_change", "request_error", "state_change"]
    assert heard[-1].current == "idle"
    assert provider.requests == []
    assert conversation.messages == ()
    assert (await conversation.prompt("again")).text == "answer"


async def test_ctx_5_a_raising_completion_transform_commits_nothing_and_loses_nothing():
    provider = ScriptedProvider(["precious words", "answer"])
    conversation = Conversation(provider, context_transformer=Raising(prompt=False))
    heard: list[ConversationEvent] = []
    conversation.on(RequestError, heard.append)
    conversation.on(MessageComplete, heard.append)

    with pytest.raises(ConfigurationError, match="no reply today"):
        await conversation.prompt("hi")

    assert [event.name for event in heard] == ["request_error"]
    assert conversation.messages == ()
    assert any("precious words" in repr(entry) for entry in conversation.journal.entries())
    assert (await conversation.prompt("again")).text == "answer"
    assert [texts(message) for message in provider.requests[1].messages] == [["again"]]


async def test_ctx_7_a_loaded_history_with_orphans_becomes_a_valid_request():
    provider = ScriptedProvider(["fine"])
    conversation = Conversation(provider)
    result = ToolResultContent(tool_request_id="x", tool="t", result=ToolSuccessResult())
    stored = [
        UserMessage((TextContent("go"),), id="u1"),
        AssistantMessage((TextContent("calling"), ToolContent(tool_request_id="x", tool="t")), id="a1"),
        AssistantMessage((TextContent("never mind"),), id="a2"),
        UserMessage((ToolResultContent(tool_request_id="lost", tool="t", result=ToolSuccessResult()), result), id="u2"),
    ]
    conversation.load(stored)
    before = conversation.messages

    await conversation.prompt("so?")

    sent = [[block.type for block in message.content] for message in provider.requests[0].messages]
    assert sent == [["text"], ["text", "tool"], ["tool_result"], ["text"], ["text"]]
    assert conversation.messages[: len(before)] == before


async def test_cp_12_a_prompt_that_was_too_large_is_in_no_later_request():
    provider = ScriptedProvider([fault(ContextWindowError("too long")), "hello"])
    conversation = Conversation(provider)

    with pytest.raises(ContextWindowError):
        await conversation.prompt("x" * 1_000_000)

    assert conversation.messages == ()
    assert (await conversation.prompt("hi")).text == "hello"
    assert [texts(message) for message in provider.requests[1].messages] == [["hi"]]


async def test_ctx_1_a_conversation_with_the_identity_sends_history_as_it_is():
    provider = ScriptedProvider(["one", "two"])
    conversation = Conversation(provider, context_transformer=NoopContextTransformer())
    await conversation.prompt("first")
    stored = conversation.messages
    await conversation.prompt("second")

    assert provider.requests[1].messages[:2] == stored
