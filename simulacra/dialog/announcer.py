"""What a turn says while it goes: builds an event only when somebody hears it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from simulacra.emitter import Event
from simulacra.events import (
    ContentComplete,
    ContentStart,
    ContentUpdate,
    ConversationState,
    HistoryChange,
    MessageComplete,
    MessageStart,
    MessageUpdate,
    PromptSend,
    RawResponse,
    RequestError,
    RequestSuccess,
    ResponseCancelled,
    StateChange,
)
from simulacra.messages import AssistantMessage, Usage, UserMessage
from simulacra.streaming import Change, Fold

if TYPE_CHECKING:
    from simulacra.dialog.run import Run


class Announcer:
    """Announces the events of one turn. What nobody would hear is not made: an event that nobody wants costs nothing.

    Args:
        run: Whose listeners and consumer hear them.
        request_id: The turn's id, on every event.
    """

    def __init__(self, run: Run, request_id: str) -> None:
        self.has_started = False
        self._run = run
        self._core = run.core
        self._about: dict[str, Any] = {"conversation": run.core.conversation, "request_id": request_id}
        self._conversation = run.core.conversation
        self._request_id = request_id

    async def state(self, current: ConversationState) -> None:
        """Change the state and announce it."""
        changed = self.state_change(current)

        if changed is not None:
            await self._run.emit(changed)

    def state_change(self, current: ConversationState, before: Callable[[], None] | None = None) -> StateChange | None:
        """Change the state, do what must be done `before` that is announced, and give what is to be announced."""
        previous = None if self._core.state == "disposed" else self._core.move_to(current)

        if before is not None:
            before()

        if previous is None or not self._run.wants(StateChange):
            return None

        return StateChange(previous=previous, current=current, **self._about)

    async def prompt_send(self, message: UserMessage) -> None:
        if self._run.wants(PromptSend):
            await self._run.emit(PromptSend(message=message, **self._about))

    async def message_start(self, fold: Fold) -> None:
        self.has_started = True

        if not self._run.wants(MessageStart):
            return

        await self._run.emit(
            MessageStart(
                message=_empty(fold),
                usage=fold.usage,
                provider_message_id=fold.provider_message_id,
                model=fold.model,
                **self._about,
            )
        )

    async def message_update(self, fold: Fold) -> None:
        if self.has_started and self._run.wants(MessageUpdate):
            await self._run.emit(MessageUpdate(message=_empty(fold), usage=fold.usage, **self._about))

    def change(self, change: Change, fold: Fold) -> Event | None:
        """Put by for the consumer what an event did to a block; on the per-delta path, hence no coroutine.

        Returns:
            The event, when listeners have to be told of it, too.
        """
        kind, block, delta = change

        if kind == "update":
            is_taken = self._run.streaming and (not self._run.text_only or block.type == "text")
            is_heard = self._core.emitter.wants(ContentUpdate)

            if not is_taken and not is_heard:
                return None

            update = ContentUpdate(
                conversation=self._conversation,
                request_id=self._request_id,
                index=block.index,
                delta=delta,
                content=block,
                usage=fold.usage,
            )

            if is_taken:
                self._run.outbox.append(update)

            return update if is_heard else None

        event: Event

        if not self._run.wants(ContentStart if kind == "start" else ContentComplete):
            return None

        if kind == "start":
            event = ContentStart(index=block.index, content=block, usage=fold.usage, **self._about)
        else:
            assert block.value is not None
            event = ContentComplete(index=block.index, content=block.value, usage=fold.usage, **self._about)

        self._run.keep(event)

        return event

    async def raw_response(self, data: Any) -> None:
        if self._core.emitter.wants(RawResponse):
            await self._core.emitter.emit(RawResponse(data=data, **self._about))

    def request_success(self, inputs: tuple[UserMessage, ...], metadata: Mapping[str, Any]) -> RequestSuccess | None:
        if not self._run.wants(RequestSuccess):
            return None

        return RequestSuccess(message=newest(inputs), metadata=metadata, **self._about)

    def request_error(
        self, inputs: tuple[UserMessage, ...], error: Exception, metadata: Mapping[str, Any], usage: Usage
    ) -> RequestError:
        return RequestError(message=newest(inputs), error=error, metadata=metadata, usage=usage, **self._about)

    def response_cancelled(self, message: AssistantMessage | None, usage: Usage) -> ResponseCancelled:
        return ResponseCancelled(message=message, usage=usage, **self._about)

    def history_append(self, message_ids: tuple[str, ...]) -> HistoryChange | None:
        if not message_ids or not self._run.wants(HistoryChange):
            return None

        return HistoryChange(reason="append", message_ids=message_ids, seq=self._core.journal.head, **self._about)

    def message_complete(self, message: AssistantMessage) -> MessageComplete | None:
        if not self._run.wants(MessageComplete):
            return None

        return MessageComplete(
            message=message,
            usage=message.usage or Usage(),
            stop_reason=message.stop_reason or "other",
            stop_details=message.stop_details,
            **self._about,
        )


def newest(inputs: tuple[UserMessage, ...]) -> UserMessage | None:
    return inputs[-1] if inputs else None


def _empty(fold: Fold) -> AssistantMessage:
    return AssistantMessage((), id=fold.message_id, timestamp=fold.timestamp, model=fold.model, usage=fold.usage)
