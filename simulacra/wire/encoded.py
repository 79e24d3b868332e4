"""Messages in a vendor's form, made once and used in every later request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar
from weakref import ref

from simulacra.messages import Message

W = TypeVar("W")


class EncodedOnce(Generic[W]):
    """The wire forms of messages, each kept for as long as its message lives.

    Requests share what is kept, so nobody may change it: whoever hands a request to strangers hands out a copy.

    Args:
        encode: The wire form of a message.
    """

    def __init__(self, encode: Callable[[Message], W]) -> None:
        self._encode = encode
        self._kept: dict[int, tuple[ref[Message], W]] = {}

    def __call__(self, message: Message) -> W:
        """The wire form of a message, made now or earlier."""
        key = id(message)
        known = self._kept.get(key)

        if known is not None and known[0]() is message:
            return known[1]

        encoded = self._encode(message)
        self._kept[key] = (ref(message, lambda _: self._kept.pop(key, None)), encoded)

        return encoded

    def each(self, messages: Iterable[Message]) -> list[W]:
        """The wire forms of messages; most of a long history is known, and looked up without a call for each."""
        find = self._kept.get

        return [
            known[1] if (known := find(id(message))) is not None and known[0]() is message else self(message)
            for message in messages
        ]

    def __len__(self) -> int:
        return len(self._kept)
