"""What a conversation and its descendants used: in total, per model and per conversation."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Self

from simulacra.emitter import Emitter, Event, Observable
from simulacra.events import ChildEvent, MessageComplete, RequestError, ResponseCancelled
from simulacra.messages import Usage

if TYPE_CHECKING:
    from simulacra.conversation import Conversation


def _no_split() -> Mapping[str, Usage]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenStats:
    """Usage so far. There is a new one after each request; one that was handed out never changes.

    Args:
        last_request: What the newest request used.
        total: All requests together.
        by_model: The same per model.
        by_conversation: The same per conversation's id.
    """

    last_request: Usage = field(default_factory=Usage)
    total: Usage = field(default_factory=Usage)
    by_model: Mapping[str, Usage] = field(default_factory=_no_split)
    by_conversation: Mapping[str, Usage] = field(default_factory=_no_split)

    def plus(self, usage: Usage, *, model: str, conversation_id: str) -> TokenStats:
        """The stats after one more request."""
        return TokenStats(
            last_request=usage,
            total=self.total + usage,
            by_model=_with(self.by_model, model, usage),
            by_conversation=_with(self.by_conversation, conversation_id, usage),
        )


def _with(split: Mapping[str, Usage], key: str, usage: Usage) -> Mapping[str, Usage]:
    return MappingProxyType({**split, key: split.get(key, Usage()) + usage})


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsUpdate(Event):
    """A request was counted, or the tracker was reset."""

    name: ClassVar[str] = "stats_update"
    tracker: TokenTracker
    stats: TokenStats


class TokenTracker(Observable):
    """Counts what a conversation and its descendants use, from now on.

    Each finished request is counted once; failed and cancelled ones with what they reported before they ended. As a
    context manager it is disposed at the end of the block.

    Args:
        conversation: Whose requests are counted.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._stats = TokenStats()
        self._emitter = Emitter((StatsUpdate,), report=_already_logged)
        self._unsubscribe = [
            conversation.on(MessageComplete, self._hear),
            conversation.on(RequestError, self._hear),
            conversation.on(ResponseCancelled, self._hear),
            conversation.on(ChildEvent, lambda bubbled: self._hear(bubbled.event)),
        ]

    @property
    def stats(self) -> TokenStats:
        return self._stats

    def reset(self) -> None:
        """Start again from nothing. Async listeners hear of it with the next update."""
        self._stats = TokenStats()
        self._emitter.post(StatsUpdate(tracker=self, stats=self._stats))

    def dispose(self) -> None:
        """Stop counting and drop the listeners; the stats stay readable. Idempotent."""
        self._emitter.close()

        while self._unsubscribe:
            self._unsubscribe.pop()()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()

    async def aclose(self) -> None:
        """As `dispose`."""
        self.dispose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.dispose()

    def _hear(self, event: Event) -> Awaitable[None] | None:
        """Count at once; what is returned, the conversation awaits."""
        if not isinstance(event, MessageComplete | RequestError | ResponseCancelled):
            return None

        if not isinstance(event, MessageComplete) and event.usage == Usage():
            return None

        conversation = event.conversation
        model = _model_of(event) or conversation.provider.model
        self._stats = self._stats.plus(event.usage, model=model, conversation_id=conversation.id)

        return self._emitter.emit(StatsUpdate(tracker=self, stats=self._stats))


def _model_of(event: MessageComplete | RequestError | ResponseCancelled) -> str | None:
    told_by = event.error if isinstance(event, RequestError) else event.message

    return getattr(told_by, "model", None)


async def _already_logged(error: Exception, event: str) -> None:
    """The emitter has logged a listener's failure; a tracker has nobody else to tell."""
    del error, event
