"""Messages in a vendor's form, made once."""

from __future__ import annotations

import gc

from simulacra.messages import Message, TextContent, UserMessage
from simulacra.wire import EncodedOnce


def said(text: str) -> UserMessage:
    return UserMessage((TextContent(text),))


def test_a_message_is_encoded_once_and_equal_ones_each_on_their_own() -> None:
    asked: list[Message] = []

    def encode(message: Message) -> dict[str, int]:
        asked.append(message)
        return {"number": len(asked)}

    once = EncodedOnce(encode)
    first, equal = said("a"), said("a")

    assert once(first) is once(first)
    assert once(equal) == {"number": 2}
    assert asked[0] is first


def test_nothing_is_kept_of_a_message_that_is_gone() -> None:
    once = EncodedOnce(lambda message: [message.role])
    messages = [said(str(number)) for number in range(50)]

    for message in messages:
        once(message)

    assert len(once) == 50
    del messages, message
    gc.collect()
    assert len(once) == 0
