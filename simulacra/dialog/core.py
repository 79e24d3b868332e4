"""The moving parts of one conversation, shared by the conversation, its turns and whoever drives them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simulacra.background import Background
from simulacra.dialog.disposal import Disposal
from simulacra.dialog.floor import Floor, QueuedInput, WhenBusy
from simulacra.emitter import Emitter, Event
from simulacra.errors import InvalidStateError
from simulacra.events import (
    CONVERSATION_EVENTS,
    ChildEvent,
    ConversationState,
    HistoryChange,
    HistoryChangeReason,
    InputDropped,
    InputQueued,
    InputSent,
    LifecycleError,
)
from simulacra.journal import EntryDraft, Journal
from simulacra.policies import Policy
from simulacra.provider import ModelProvider, RequestOptions
from simulacra.tokens import TokenCounter
from simulacra.tools import ToolClass, ToolRunner
from simulacra.transformers import ContextTransformer

if TYPE_CHECKING:
    from simulacra.checkpoints import SummarizationStrategy
    from simulacra.conversation import Conversation
    from simulacra.dialog.run import Driver, Run

logger = logging.getLogger("simulacra.conversation")

_LEGAL: Mapping[ConversationState, frozenset[ConversationState]] = {
    "idle": frozenset({"awaiting_response", "disposed"}),
    "awaiting_response": frozenset({"streaming_response", "stopping", "idle", "disposed"}),
    "streaming_response": frozenset({"stopping", "idle", "disposed"}),
    "stopping": frozenset({"idle", "disposed"}),
    "disposed": frozenset(),
}


class Settings:
    """What a conversation asks with; read when a turn starts."""

    def __init__(
        self,
        provider: ModelProvider,
        policy: Policy,
        transformer: ContextTransformer,
        strategy: SummarizationStrategy,
        *,
        options: RequestOptions,
    ) -> None:
        self.provider = provider
        self.policy = policy
        self.transformer = transformer
        self.strategy = strategy
        self.options = options
        self.system: str | None = None
        self.counter = TokenCounter()
        self.runner = ToolRunner(())
        """Runs the toolkit's tools; their definitions are built once per toolkit."""

    @property
    def toolkit(self) -> tuple[type[ToolClass], ...]:
        return self.runner.tools

    @toolkit.setter
    def toolkit(self, tools: Sequence[type[ToolClass]]) -> None:
        self.runner = ToolRunner(tools)

    def snapshot(self) -> Settings:
        """These settings as they are now: a turn keeps them, whatever is assigned meanwhile."""
        twin = object.__new__(Settings)  # copy.copy does the same in ten times the time, for every turn
        twin.__dict__.update(self.__dict__)

        return twin


class Core:
    """State, journal, listeners and floor of one conversation.

    Args:
        conversation: Whose parts these are; named by every event.
        conversation_id: Its id, also the journal's.
        settings: What it asks with.
        when_busy: What becomes of inputs while the floor is taken.
    """

    def __init__(
        self, conversation: Conversation, conversation_id: str, settings: Settings, *, when_busy: WhenBusy
    ) -> None:
        self.conversation = conversation
        self.id = conversation_id
        self.settings = settings
        self.state: ConversationState = "idle"
        self.journal = Journal(conversation_id)
        self.floor = Floor(self, when_busy)
        self.background = Background()
        self.run: Run | None = None
        self.driver: Driver | None = None
        self.is_checkpointing = False
        self.disposal = Disposal()
        self.emitter = Emitter(CONVERSATION_EVENTS, report=self.report_listener, bubble=self._bubble)

    @property
    def is_closing(self) -> bool:
        return self.disposal.has_begun

    def require_state(self, operation: str, *allowed: ConversationState) -> None:
        """Raise unless the state is one of `allowed`.

        Raises:
            InvalidStateError: With the remedy.
        """
        state = "disposed" if self.is_closing else self.state

        if state not in allowed:
            raise InvalidStateError(operation, state=state, allowed=allowed, remedy=_remedy(state))

    def require_free(self, operation: str) -> None:
        """Raise unless nothing is under way: no turn, no tool loop.

        Raises:
            InvalidStateError: With the remedy.
        """
        self.require_state(operation, "idle")

        if self.floor.is_taken:
            raise InvalidStateError(
                operation, state="busy with a tool loop", allowed=("idle",), remedy=_remedy("awaiting_response")
            )

    def is_known(self, message_id: str) -> bool:
        """Whether a message of this id is in history, or about to be."""
        return self.journal.history.position(message_id) is not None or self.floor.is_known(message_id)

    def cancel(self) -> None:
        """Cancel what holds the floor."""
        if self.run is not None:
            self.run.cancel()
        elif self.floor.holder is not None:
            self.floor.holder.is_cancelled = True

    def move_to(self, current: ConversationState) -> ConversationState | None:
        """Change the state; the caller announces it.

        Returns:
            The state before, or `None` when nothing changed.

        Raises:
            InvalidStateError: No such change exists.
        """
        previous = self.state

        if previous == current:
            return None

        if current not in _LEGAL[previous]:
            raise InvalidStateError(f"going to {current}", state=previous, allowed=sorted(_LEGAL[previous]))

        self.state = current

        return previous

    async def report_listener(self, error: Exception, event_name: str) -> None:
        await self.report(error, "listener", {"event": event_name})

    async def report(self, error: Exception, operation: str, context: Mapping[str, Any] | None = None) -> None:
        """Announce a failure beside the turn."""
        logger.error("operation=<%s> | failed beside the turn", operation, exc_info=error)
        await self.emitter.emit(
            LifecycleError(conversation=self.conversation, error=error, operation=operation, context=context or {})
        )

    def rewrite(self, reason: HistoryChangeReason, draft: EntryDraft) -> None:
        """Record a change of history made by a sync call, and announce it."""
        self.journal.record(draft)
        history = self.journal.history
        ids = tuple(message.id or "" for message in history.messages)
        self.emitter.post(
            HistoryChange(conversation=self.conversation, reason=reason, message_ids=ids, seq=self.journal.head)
        )

    def input_queued(self, waiting: QueuedInput) -> None:
        self.journal.record(EntryDraft("input_queued", {"input_id": waiting.input_id, "content": waiting.contents}))
        self.emitter.post(InputQueued(conversation=self.conversation, input_id=waiting.input_id))

    def input_sent(self, waiting: QueuedInput) -> None:
        self.emitter.post(InputSent(conversation=self.conversation, input_id=waiting.input_id))

    def input_dropped(self, waiting: QueuedInput, reason: str) -> None:
        self.journal.record(EntryDraft("input_dropped", {"input_id": waiting.input_id, "reason": reason}))
        self.emitter.post(InputDropped(conversation=self.conversation, input_id=waiting.input_id, reason=reason))

    def _bubble(self, event: Event) -> Event:
        return ChildEvent(conversation=self.conversation, request_id=getattr(event, "request_id", ""), event=event)


def _remedy(state: ConversationState) -> str:
    if state == "disposed":
        return "Create a new Conversation"

    return "Wait for the response, cancel it with cancel_response(), or set when_busy to 'queue'"
