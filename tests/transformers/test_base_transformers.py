from __future__ import annotations

import dataclasses

import pytest

from simulacra.messages import AssistantMessage, TextContent, UserMessage
from simulacra.transformers import (
    CompositeContextTransformer,
    ContextTransformer,
    Explanation,
    NoopContextTransformer,
    TransformContext,
)

pytestmark = pytest.mark.anyio

PROMPT = (UserMessage((TextContent("hi"),), id="u1"),)
REPLY = AssistantMessage((TextContent("yo"),), id="a1")


class Appending(ContextTransformer):
    """Adds its letter to prompts and replies, and remembers the contexts it saw."""

    def __init__(self, letter: str) -> None:
        self.letter = letter
        self.contexts: list[TransformContext] = []
        self.conversations: list[object] = []

    async def transform_prompt(self, messages, context):
        self.contexts.append(context)
        return [*messages, UserMessage((TextContent(self.letter),))]

    async def transform_completion(self, message, context):
        self.contexts.append(context)
        return dataclasses.replace(message, content=(*message.content, TextContent(self.letter)))

    def attach(self, conversation):
        self.conversations.append(conversation)


async def test_ctx_1_both_methods_are_optional(context):
    class PromptOnly(ContextTransformer):
        async def transform_prompt(self, messages, context):
            return messages[1:]

    class Nothing(ContextTransformer):
        pass

    assert await PromptOnly().transform_prompt(PROMPT, context) == ()
    assert await PromptOnly().transform_completion(REPLY, context) is REPLY
    assert await Nothing().transform_prompt(PROMPT, context) is PROMPT


async def test_ctx_6_noop_is_the_identity(context):
    assert await NoopContextTransformer().transform_prompt(PROMPT, context) is PROMPT
    assert await NoopContextTransformer().transform_completion(REPLY, context) is REPLY
    assert context.explanations == []


async def test_ctx_6_a_composite_applies_in_order_with_one_context(context):
    first, second = Appending("1"), Appending("2")
    composite = CompositeContextTransformer([first, second])

    prompt = await composite.transform_prompt(PROMPT, context)
    reply = await composite.transform_completion(REPLY, context)

    assert [message.content[0].text for message in prompt] == ["hi", "1", "2"]
    assert reply.text == "yo12"
    assert all(seen is context for seen in first.contexts + second.contexts)


async def test_ctx_6_a_composite_of_none_is_the_identity(context):
    assert await CompositeContextTransformer([]).transform_prompt(PROMPT, context) is PROMPT
    assert await CompositeContextTransformer([]).transform_completion(REPLY, context) is REPLY


async def test_ctx_6_what_is_inside_is_attached(context):
    inner, conversation = Appending("x"), object()

    CompositeContextTransformer([NoopContextTransformer(), CompositeContextTransformer([inner])]).attach(conversation)

    assert inner.conversations == [conversation]


async def test_w_ctx_4_the_context_explains_counts_records_and_adds(context):
    context.counter = lambda messages: 7 * len(messages)

    context.explain("dropped", "because", ["a", None, "b"])
    context.record("note", {"x": 1})
    context.add_system("be brief")

    assert context.explanations == [Explanation(action="dropped", reason="because", message_ids=("a", "b"))]
    assert context.records == [("note", {"x": 1})]
    assert context.added_system == ["be brief"]
    assert context.count_tokens([*PROMPT, REPLY]) == 14


async def test_w_ctx_4_the_context_tells_system_tools_model_and_profile():
    context = TransformContext(conversation_id="c", system=("s",), model="m")

    assert (context.system, context.tools, context.model, context.profile.context_window) == (("s",), (), "m", None)
