"""A summary in place of the messages it covers."""

from __future__ import annotations

from collections.abc import Sequence

from simulacra.fencing import fence
from simulacra.messages import CheckpointState, Message, TextContent, UserMessage
from simulacra.transformers.base import ContextTransformer, TransformContext

SUMMARY_TAG = "conversation_summary"
_SUMMARY_TIMESTAMP = 0  # constant, so that the same checkpoint gives the same bytes and a cached prefix holds


class CheckpointContextTransformer(ContextTransformer):
    """Sends the checkpoint's summary and what came after its boundary.

    The boundary itself is sent too when it is the assistant's, so that what follows the summary answers to it. A
    boundary that is not among the messages changes nothing.
    """

    async def transform_prompt(self, messages: Sequence[Message], context: TransformContext) -> Sequence[Message]:
        checkpoint = context.checkpoint

        if checkpoint is None:
            return messages

        boundary = _place_of(checkpoint.message_id, messages)

        if boundary is None:
            return messages

        start = boundary if messages[boundary].role == "assistant" else boundary + 1
        covered = [message.id for message in messages[:start]]
        context.explain("summarised", "the checkpoint's summary stands for these messages", covered)

        return [summary_message(checkpoint), *messages[start:]]


def summary_message(checkpoint: CheckpointState) -> UserMessage:
    """The checkpoint as a message, marked as a summary; the same checkpoint always gives an equal one."""
    return UserMessage(
        content=(TextContent(fence(SUMMARY_TAG, checkpoint.summary)),),
        id=f"checkpoint:{checkpoint.message_id}",
        timestamp=_SUMMARY_TIMESTAMP,
    )


def _place_of(message_id: str, messages: Sequence[Message]) -> int | None:
    return next((place for place, message in enumerate(messages) if message.id == message_id), None)
