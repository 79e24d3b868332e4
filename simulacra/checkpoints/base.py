"""The port of summaries: from the messages to cover to the prompt that asks for their summary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from simulacra.messages import CheckpointState, Message
from simulacra.provider import ModelProvider


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointConfig:
    """What is special about one checkpoint.

    Args:
        context: What the summary should pay attention to, in words.
        provider: Who writes it, for example a cheaper model; the conversation's provider unless given.
    """

    context: str | None = None
    provider: ModelProvider | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizationContext:
    """What a strategy builds its prompt from.

    Args:
        session_id: The conversation's id.
        messages: What the summary has to cover, oldest first.
        previous_checkpoint: The summary of what came before; the new one replaces it.
        system: The conversation's system prompt.
        context: The checkpoint's own wish, see `CheckpointConfig`.
    """

    session_id: str
    messages: tuple[Message, ...]
    previous_checkpoint: CheckpointState | None = None
    system: str | None = None
    context: str | None = None


class SummarizationStrategy(ABC):
    """Decides what a summarising model is asked."""

    @abstractmethod
    def build_prompt(self, context: SummarizationContext) -> Sequence[Message] | Awaitable[Sequence[Message]]:
        """The messages to send, sync or async.

        Args:
            context: What is to be summarised.

        Returns:
            A user message last, which is sent; earlier messages go before it as history.
        """
