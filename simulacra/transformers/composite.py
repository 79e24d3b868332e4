"""Transformers one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from simulacra.messages import AssistantMessage, Message
from simulacra.transformers.base import ContextTransformer, TransformContext

if TYPE_CHECKING:
    from simulacra.conversation import Conversation


class CompositeContextTransformer(ContextTransformer):
    """Applies transformers in order, both ways, with the same context.

    Args:
        transformers: In the order in which they see prompts, and replies.
    """

    def __init__(self, transformers: Iterable[ContextTransformer]) -> None:
        self.transformers = tuple(transformers)

    async def transform_prompt(self, messages: Sequence[Message], context: TransformContext) -> Sequence[Message]:
        for transformer in self.transformers:
            messages = await transformer.transform_prompt(messages, context)

        return messages

    async def transform_completion(self, message: AssistantMessage, context: TransformContext) -> AssistantMessage:
        for transformer in self.transformers:
            message = await transformer.transform_completion(message, context)

        return message

    def attach(self, conversation: Conversation) -> None:
        for transformer in self.transformers:
            transformer.attach(conversation)
