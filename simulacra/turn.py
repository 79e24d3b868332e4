"""One exchange: transform, open, fold, commit. A turn ends in exactly one of three ways, each announced once.

The turn is an async generator of events. Its work is cut into steps; a step runs inside a scope that a cancel ends,
and nothing is yielded inside such a scope, so a consumer may leave, or be cancelled, at any yield. Without a
consumer the whole stream is one step.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from simulacra.clock import clock, time_limit
from simulacra.dialog.announcer import Announcer
from simulacra.dialog.opening import Opening, name_place
from simulacra.dialog.watchdog import Watchdog
from simulacra.emitter import Event
from simulacra.errors import (
    LimitExceededError,
    OperationCancelledError,
    ProviderError,
    StreamInterruptedError,
)
from simulacra.journal import EntryDraft
from simulacra.messages import (
    AssistantMessage,
    MessageStatus,
    Response,
    ToolErrorResult,
    ToolResultContent,
    Usage,
    UserMessage,
)
from simulacra.streaming import Fold, OpenStream, StreamEvent, opens_reply

if TYPE_CHECKING:
    from simulacra.dialog.run import Run

SETTLE_SECONDS = 0.1
Step = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """What one exchange sends.

    Args:
        inputs: The user messages, usually one.
        committed: Whether they are in history already, as tool results are.
        tool_choice: Overrides the options' choice for this turn.
        added_system: A text added to the system prompt of this turn.
    """

    inputs: tuple[UserMessage, ...]
    committed: bool = False
    tool_choice: str | None = None
    added_system: str | None = None


class Turn:
    """One exchange of a run. Iterate `events()` to its end; then `response` is there, or it raised.

    Args:
        run: What holds the floor.
        plan: What to send.
    """

    def __init__(self, run: Run, plan: TurnPlan) -> None:
        self.request_id = clock().new_id()
        self.response: Response | None = None
        self._run = run
        self._core = run.core
        self._plan = plan
        self._tell = Announcer(run, self.request_id)
        self._opening = Opening(run, plan, self.request_id)
        self._fold = Fold(
            clock().new_id(),
            clock().now_ms(),
            model_kind=self._opening.provider.kind,
            model=self._opening.provider.model,
        )
        options = self._opening.options
        self._watchdog = Watchdog(idle=options.idle_timeout, total=options.total_timeout, bark=run.interrupt_step)
        self._opening.heard = self._watchdog.heard
        self._stream: OpenStream | None = None
        self._slot = 0
        self._has_begun = False
        self._is_settled = False
        self._failure: Exception | None = None

    @property
    def usage(self) -> Usage:
        """What the vendor reported so far."""
        return self._fold.usage

    async def events(self) -> AsyncGenerator[Event, None]:
        """Do the exchange.

        Raises:
            ProviderError: The turn failed; history is as before it. What a transformer raised comes out unchanged.
        """
        outbox = self._run.outbox

        try:
            for step in self._steps():
                await self._perform(step)

                while outbox:
                    yield outbox.popleft()
        finally:
            self._watchdog.stop()

            if self._has_begun and not self._is_settled:  # the consumer closed this generator
                await self._settle_interrupted()

        if self._failure is not None:
            raise self._failure

    def _steps(self) -> Iterator[Step]:
        yield self._begin

        if not self._is_settled:
            yield self._open

        while not self._is_settled and not self._fold.is_closed:
            yield self._pull

        if not self._is_settled:
            yield self._finish

    async def _perform(self, step: Step) -> None:
        """Run one step; whatever ends it early settles the turn."""
        if self._has_begun and (self._run.is_cancelled or self._watchdog.expired is not None):
            await self._settle_stopped()
            return

        try:
            with self._run.step() as scope:
                await step()
        except anyio.get_cancelled_exc_class():
            await self._settle_interrupted()
            raise
        except OperationCancelledError as error:
            await (self._settle_interrupted() if self._run.is_cancelled else self._settle_failed(error))
        except Exception as error:  # noqa: BLE001 -- raised by events() once the consumer has what was delivered
            await self._settle_failed(error)
        else:
            if scope.cancelled_caught:
                await self._settle_stopped()

    async def _settle_stopped(self) -> None:
        if self._watchdog.expired is not None and not self._run.is_cancelled:
            await self._settle_failed(self._watchdog.expired)
        else:
            await self._settle_interrupted()

    async def _begin(self) -> None:
        """Admit: nothing that was typed is lost, whatever comes next (CONV-7, CONV-32)."""
        core, plan = self._core, self._plan
        admitted = () if plan.committed else plan.inputs
        opened = {"response_id": self._fold.message_id, "request_id": self.request_id, "model": self._fold.model}
        core.journal.record(
            *(EntryDraft("user_admitted", {"message": each, "request_id": self.request_id}) for each in admitted),
            EntryDraft("response_opened", opened),
        )
        self._slot = core.journal.head
        self._has_begun = True
        await self._tell.state("awaiting_response")

        for message in plan.inputs:
            await self._tell.prompt_send(message)

    async def _open(self) -> None:
        history = self._core.journal.history.messages
        admitted = () if self._plan.committed else self._plan.inputs
        self._stream = await self._opening.open((*history, *admitted))
        self._fold.model_kind = self._opening.provider.kind
        self._fold.model = self._opening.provider.model
        self._watchdog.watch_stream()

    async def _pull(self) -> None:
        """Take one event, or without a consumer all of them."""
        assert self._stream is not None
        events, watchdog, fold = self._stream.events, self._watchdog, self._fold

        while not fold.is_closed:
            watchdog.waits()

            try:
                event = await anext(events)
            except StopAsyncIteration:
                raise StreamInterruptedError("the stream ended without its closing event") from None

            watchdog.waiting_since = None
            await self._take(event)

            if self._run.outbox:
                return

    async def _take(self, event: StreamEvent) -> None:
        """Fold one event in and announce what it did."""
        fold, tell = self._fold, self._tell
        usage = fold.usage
        changes = fold.apply(event)

        if not tell.has_started and opens_reply(event):
            await tell.state("streaming_response")
            await tell.message_start(fold)

        if fold.usage is not usage and self._stream is not None:
            await self._stream.report_usage(fold.usage)
            await tell.message_update(fold)

        for change in changes:
            await tell.change(change, fold)

    async def _finish(self) -> None:
        """The closing event came: store and announce the reply."""
        await self._close_stream()
        message = await self._opening.transform_completion(self._fold.message())
        self._is_settled = True
        await self._complete(message)

    async def _complete(self, message: AssistantMessage) -> None:
        tell = self._tell

        if self._opening.raw_response is not None:
            await tell.raw_response(self._opening.raw_response)

        await tell.request_success(self._plan.inputs, self._opening.metadata)
        entered = self._record_close(message, "complete")
        self.response = self._response_of(message)
        await tell.history_append(entered)
        await tell.message_complete(message)
        await self._become_idle()

    async def _settle_interrupted(self) -> None:
        """Cancelled: keep what was delivered, give every complete call its result, be idle within the bound."""
        if self._is_settled:
            return

        self._is_settled = True

        with anyio.CancelScope(shield=True):
            if self._fold.is_closed:  # the closing event came first: the reply is complete (CONV-10)
                await self._close_stream()
                await self._complete(self._fold.message())
                return

            await self._tell.state("stopping")
            await self._close_stream()
            self._fold.stop_reason = "cancelled"
            message = self._fold.partial("interrupted")
            entered = self._record_close(message, "interrupted")
            self.response = Response(
                message=message, stop_reason="cancelled", usage=self._fold.usage, request_id=self.request_id
            )
            await self._tell.history_append(entered + self._answer_calls(message))
            await self._tell.response_cancelled(message, self._fold.usage)
            await self._become_idle()

    async def _settle_failed(self, error: Exception) -> None:
        """Failed: history as before, everything in the journal, the error says what had been delivered."""
        if self._is_settled:
            self._failure = error
            return

        self._is_settled = True
        self._failure = error

        with anyio.CancelScope(shield=True):
            await self._close_stream()
            partial = self._fold.partial("failed")

            if isinstance(error, ProviderError):
                name_place(error, self._opening.provider)

            if isinstance(error, ProviderError | LimitExceededError):
                error.partial = error.partial or partial

            self._record_close(partial, "failed", error)
            await self._tell.request_error(self._plan.inputs, error, self._opening.metadata, self._fold.usage)
            await self._become_idle()

    def _record_close(
        self, message: AssistantMessage | None, status: MessageStatus, error: Exception | None = None
    ) -> tuple[str, ...]:
        return self._core.journal.record(
            EntryDraft(
                "response_closed",
                {
                    "request_id": self.request_id,
                    "status": status,
                    "message": message,
                    "error": None if error is None else f"{type(error).__name__}: {error}",
                    "provider_message_id": self._fold.provider_message_id,
                },
                slot=self._slot,
            )
        )

    def _answer_calls(self, message: AssistantMessage | None) -> tuple[str, ...]:
        """Every complete call of an interrupted reply gets exactly one result (CX-R1, T12)."""
        calls = () if message is None else message.tool_calls

        if not calls:
            return ()

        now = clock().now_ms()
        results = tuple(
            ToolResultContent(
                tool_request_id=call.tool_request_id,
                tool=call.tool,
                result=ToolErrorResult(message="cancelled before execution", error="cancelled"),
                timestamp=now,
            )
            for call in calls
        )
        answer = UserMessage(results, id=clock().new_id(), timestamp=now)

        return self._core.journal.record(
            EntryDraft("user_admitted", {"message": answer, "request_id": self.request_id, "committed": True})
        )

    async def _close_stream(self) -> None:
        """Close the HTTP response; bounded, and out of reach of further cancels."""
        stream, self._stream = self._stream, None

        if stream is not None:
            with time_limit(SETTLE_SECONDS, shield=True):
                await stream.aclose()

    async def _become_idle(self) -> None:
        await self._tell.state("idle", before=self._run.turn_ended)

    def _response_of(self, message: AssistantMessage) -> Response:
        return Response(
            message=message,
            stop_reason=message.stop_reason or "other",
            stop_details=message.stop_details,
            usage=self._fold.usage,
            request_id=self.request_id,
        )
