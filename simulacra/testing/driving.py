"""Driving a provider without a conversation: one request, its events, its message or its error."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from simulacra.messages import AssistantMessage, TextContent, UserMessage
from simulacra.provider import ModelProvider, ModelRequest
from simulacra.streaming import Fold, StreamEvent, TextDelta


class Recorder:
    """An observer that keeps what it is told."""

    wants_chunks = True

    def __init__(self, **changes: Any) -> None:
        self.params: list[dict[str, Any]] = []
        self.chunks: list[Any] = []
        self.responses: list[Any] = []
        self._changes = changes

    async def before_request(self, params: dict[str, Any]) -> dict[str, Any]:
        self.params.append(params)

        return params | self._changes

    async def chunk(self, data: Any) -> None:
        self.chunks.append(data)

    async def response(self, data: Any) -> None:
        self.responses.append(data)


def user(text: str = "hello") -> UserMessage:
    """A user message of one text."""
    return UserMessage((TextContent(text),))


def request(*messages: Any, **fields: Any) -> ModelRequest:
    """A request with these messages, or with one that says hello."""
    return ModelRequest(messages=messages or (user(),), **fields)


async def events_of(provider: ModelProvider, asked: ModelRequest) -> list[StreamEvent]:
    """Every event of one reply."""
    async with aclosing(provider.stream(asked)) as events:
        return [event async for event in events]


async def reply_of(provider: ModelProvider, asked: ModelRequest | None = None) -> AssistantMessage:
    """The message that the fold makes of one reply."""
    fold = Fold("reply", 0, model_kind=provider.kind, model=provider.model)

    for event in await events_of(provider, asked or request()):
        assert not fold.is_closed, f"{event} came after the closing event"
        fold.apply(event)

    assert fold.is_closed, "the closing event is missing"

    return fold.message()


async def failure_of(provider: ModelProvider, asked: ModelRequest | None = None) -> tuple[Exception, str]:
    """The error of one reply, and the text that came before it."""
    text = ""

    try:
        async with aclosing(provider.stream(asked or request())) as events:
            async for event in events:
                text += event.text if isinstance(event, TextDelta) else ""
    except Exception as error:  # noqa: BLE001 -- what was raised is what is tested
        return error, text

    raise AssertionError("the request was expected to fail")
