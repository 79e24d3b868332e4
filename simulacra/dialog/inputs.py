"""What callers hand in, as user messages: normalised, checked, copied, given id and time."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import TypeAlias, TypeVar, cast

from pydantic import ValidationError

from simulacra.clock import clock
from simulacra.errors import ConfigurationError
from simulacra.messages import (
    AssistantMessage,
    Content,
    Message,
    TextContent,
    ToolResultContent,
    UnknownContent,
    UserContent,
    UserMessage,
)

TextOrContents: TypeAlias = str | UserContent | UserMessage | Sequence[UserContent]
C = TypeVar("C", bound=Content)


def input_of(text_or_contents: TextOrContents) -> UserMessage:
    """What a caller handed in, as a user message without id and time, unless it has them.

    Raises:
        ConfigurationError: Nothing to send, or something that a user message cannot hold.
    """
    if isinstance(text_or_contents, UserMessage):
        message = text_or_contents
    else:
        message = UserMessage(_blocks_of(text_or_contents))

    if all(isinstance(block, TextContent) and not block.text.strip() for block in message.content):
        raise ConfigurationError("a prompt needs content: give a text that is more than blanks, or content blocks")

    return message


def identified(message: Message) -> Message:
    """The message with id and time; blocks without a time take the message's (MSG-5, MSG-8).

    Raises:
        ConfigurationError: It is no message.
    """
    if not isinstance(message, UserMessage | AssistantMessage):
        raise ConfigurationError(f"a UserMessage or AssistantMessage is expected, not {message!r:.100}")

    timestamp = clock().now_ms() if message.timestamp is None else message.timestamp
    message_id = message.id or clock().new_id()

    if isinstance(message, UserMessage):
        content = _stamped(message.content, timestamp)

        return dataclasses.replace(message, content=content, id=message_id, timestamp=timestamp)

    reply = _stamped(message.content, timestamp)

    return dataclasses.replace(message, content=reply, id=message_id, timestamp=timestamp)


def admitted(message: UserMessage) -> UserMessage:
    """`identified`, for an input."""
    return cast(UserMessage, identified(message))


def answering(results: Sequence[ToolResultContent]) -> UserMessage:
    """The message of tool results. They are the engine's own; only what tools put beside them is copied."""
    own = tuple(copy.deepcopy(result) if result.content else result for result in results)

    return UserMessage(own, id=clock().new_id(), timestamp=clock().now_ms())


def merged(messages: Sequence[UserMessage]) -> UserMessage:
    """Several inputs as one."""
    return UserMessage(tuple(block for message in messages for block in message.content))


def _blocks_of(text_or_contents: str | UserContent | Sequence[UserContent]) -> tuple[UserContent, ...]:
    if isinstance(text_or_contents, str):
        return (TextContent(text_or_contents),)

    is_list = isinstance(text_or_contents, Sequence) and not isinstance(text_or_contents, bytes)
    blocks = tuple(cast(Sequence[UserContent], text_or_contents if is_list else (text_or_contents,)))

    for block in blocks:
        try:
            UserMessage((block,))
        except ValidationError as error:
            raise ConfigurationError(
                f"a prompt takes a text or content blocks of a user, such as TextContent, not {type(block).__name__}"
            ) from error

    return blocks


def _stamped(blocks: Sequence[C], timestamp: int) -> tuple[C, ...]:
    return tuple(_stamp(block, timestamp) for block in blocks)


def _stamp(block: C, timestamp: int) -> C:
    """What a caller may still change is copied: the conversation takes values (CC-R2)."""
    own = block if isinstance(block, TextContent) and block.extended is None else copy.deepcopy(block)

    if isinstance(own, UnknownContent) or own.timestamp is not None:
        return own

    return dataclasses.replace(own, timestamp=timestamp)
