"""The transformer port: what shapes the messages of a request, and what looks at the reply before it is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simulacra.messages import AssistantMessage, CheckpointState, Message
from simulacra.provider import ProviderProfile
from simulacra.schema import ToolDefinition

if TYPE_CHECKING:
    from simulacra.conversation import Conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a message of history is not in the request as it is stored."""

    action: str
    reason: str
    message_ids: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class TransformContext:
    """What a transformer may know and say about one request.

    Args:
        conversation_id: The conversation's id.
        checkpoint: The summary in force.
        system: The texts of the system prompt.
        tools: The definitions offered.
        model: The model asked for.
        profile: What it can do.
        counter: Estimates the tokens of messages.
    """

    conversation_id: str
    checkpoint: CheckpointState | None = None
    system: tuple[str, ...] = ()
    tools: tuple[ToolDefinition, ...] = ()
    model: str = ""
    profile: ProviderProfile = field(default_factory=ProviderProfile)
    counter: Callable[[Sequence[Message]], int] = len
    explanations: list[Explanation] = field(default_factory=list)
    added_system: list[str] = field(default_factory=list)
    records: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Estimated tokens of these messages."""
        return self.counter(messages)

    def explain(self, action: str, reason: str, message_ids: Sequence[str | None] = ()) -> None:
        """Say what was done to messages and why.

        Args:
            action: `dropped`, `cut`, `moved`, `summarised`, `hidden` or `repaired`.
            reason: A sentence for people.
            message_ids: The messages concerned.
        """
        ids = tuple(message_id for message_id in message_ids if message_id is not None)
        self.explanations.append(Explanation(action=action, reason=reason, message_ids=ids))

    def record(self, kind: str, body: Mapping[str, Any]) -> None:
        """Ask the conversation to journal an entry before the request goes out."""
        self.records.append((kind, body))

    def add_system(self, text: str) -> None:
        """Add a text to the system prompt of this request."""
        self.added_system.append(text)


class ContextTransformer:
    """Shapes prompts and replies. Both methods are optional; a subclass overrides what it needs.

    A transformer sees messages, never the network. It never changes stored history, makes no empty message and never
    splits a call from its result.
    """

    async def transform_prompt(self, messages: Sequence[Message], context: TransformContext) -> Sequence[Message]:
        """The messages to send, made of history and the new message.

        Args:
            messages: History plus the new message, or what the transformer before this one gave.
            context: The request's context.
        """
        del context

        return messages

    async def transform_completion(self, message: AssistantMessage, context: TransformContext) -> AssistantMessage:
        """The reply to store; runs once, before the commit."""
        del context

        return message

    def attach(self, conversation: Conversation) -> None:
        """Told of each conversation that uses it; again for the same one is harmless."""
