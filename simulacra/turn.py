"""One exchange: transform, open, fold, commit. A turn ends in exactly one of three ways, each announced once.

The turn is an async generator of events. Its work is cut into steps; a step runs inside a scope that a cancel ends,
and nothing is yielded inside such a scope, so a consumer may leave, or be cancelled, at any yield. Without a
consumer the whole stream is one step.

How the turn ends is decided once, without waiting for anything. From then on only acts are left, each of which changes
something and has something to announce. An act is never lost: whatever cuts an announcement short, the next one goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulacra.clock import clock, time_limit
from simulacra.dialog.announcer import Announcer
from simulacra.dialog.closing import calls_refused, response_closed
from simulacra.dialog.opening import Opening, name_place, raise_typed
from simulacra.dialog.watchdog import Watchdog
from simulacra.emitter import Event
from simulacra.errors import (
    LimitExceededError,
    OperationCancelledError,
    ProtocolError,
    ProviderError,
    StreamInterruptedError,
)
from simulacra.events import ContentUpdate
from simulacra.journal import EntryDraft
from simulacra.messages import (
    AssistantMessage,
    MessageStatus,
    Response,
    Usage,
    UserMessage,
)
from simulacra.streaming import Fold, OpenStream, StreamEvent, opens_reply

if TYPE_CHECKING:
    from simulacra.dialog.run import Run

SETTLE_SECONDS = 0.09
"""What work may take to end once it was cancelled: all of it settles within 100 ms, what is real of them included."""
_CLOSE_SECONDS = SETTLE_SECONDS / 2
Step = Callable[[], Awaitable[None]]
Act = Callable[[], Event | None]


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
        self.slot = 0
        """The reply's place in history, once the turn has begun."""
        self._reply: AssistantMessage | None = None
        self._has_begun = False
        self._ending: deque[Act] | None = None
        self._failure: Exception | None = None

    @property
    def message_id(self) -> str:
        """Id of the reply."""
        return self._fold.message_id

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
            while self._ending is None or self._ending:
                await (self._advance() if self._ending is None else self._end())

                while outbox:
                    if self._is_shown(event := outbox.popleft()):
                        yield event
        finally:
            self._watchdog.stop()

            if self._has_begun:  # and not ended yet, when the task was cancelled or the consumer closed this generator
                self._interrupt()
                await self._hasten()

        if self._failure is not None:
            raise self._failure

    def _is_shown(self, event: Event) -> bool:
        """Whether the consumer gets an event. A piece it takes is delivered; one that a cancel overtook is dropped."""
        if type(event) is ContentUpdate:
            if self._run.is_cancelled and not event.content.is_complete:
                return False

            event.content.delivered += 1

        return True

    async def _advance(self) -> None:
        """Go on until there is something to show or the end has begun; what cuts it short decides how the turn ends."""
        if self._has_begun and self._is_stopped():
            self._stop()
            return

        try:
            with self._run.step() as scope:
                await self._next_step()()

                while not self._run.outbox and self._ending is None and not self._is_stopped():
                    await self._next_step()()
        except OperationCancelledError as error:
            if self._run.is_cancelled:
                self._interrupt()
            else:
                self._fail(error)
        except Exception as error:  # noqa: BLE001 -- raised by events() once the consumer has what was delivered
            self._fail(error)
        else:
            if scope.cancelled_caught:
                self._stop()

    def _next_step(self) -> Step:
        if not self._has_begun:
            return self._begin

        if self._stream is None:
            return self._open

        return self._finish if self._fold.is_closed else self._pull

    def _is_stopped(self) -> bool:
        return self._run.is_cancelled or self._watchdog.expired is not None

    async def _begin(self) -> None:
        """Admit: nothing that was typed is lost, whatever comes next (CONV-7, CONV-32)."""
        core, plan = self._core, self._plan
        admitted = () if plan.committed else plan.inputs
        opened = {"response_id": self._fold.message_id, "request_id": self.request_id, "model": self._fold.model}
        core.journal.record(
            *(EntryDraft("user_admitted", {"message": each, "request_id": self.request_id}) for each in admitted),
            EntryDraft("response_opened", opened),
        )
        self.slot = core.journal.head
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

        while not fold.is_closed and not self._run.is_cancelled:
            watchdog.waits()

            try:
                event = await anext(events)
            except StopAsyncIteration:
                raise StreamInterruptedError("the stream ended without its closing event") from None
            except Exception as error:  # noqa: BLE001 -- raised again
                raise_typed(error, self._opening.provider)

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
            announced = tell.change(change, fold)

            if announced is not None:
                await self._core.emitter.emit(announced)

            if change.kind == "update" and not self._run.streaming:  # a consumer has yet to take it
                change.block.delivered = len(change.block.pieces)

    async def _finish(self) -> None:
        """The closing event came: store and announce the reply."""
        await self._close_stream()
        self._reply = await self._opening.transform_completion(self._fold.message())

        if self._opening.raw_response is not None:
            await self._tell.raw_response(self._opening.raw_response)

        self._complete(self._reply)

    def _stop(self) -> None:
        if self._watchdog.expired is not None and not self._run.is_cancelled:
            self._fail(self._watchdog.expired)
        else:
            self._interrupt()

    def _complete(self, message: AssistantMessage) -> None:
        tell, inputs = self._tell, self._plan.inputs
        self.response = self._response_of(message)
        self._decide(
            lambda: tell.request_success(inputs, self._opening.metadata),
            lambda: tell.history_append(self._record_close(message, "complete")),
            lambda: tell.message_complete(message),
        )

    def _interrupt(self) -> None:
        """Cancelled: keep what was delivered, give every complete call its result."""
        if self._ending is not None:
            return

        if self._fold.is_closed:  # the closing event came first: the reply is complete (CONV-10)
            self._complete(self._reply or self._fold.message())
            return

        tell, fold = self._tell, self._fold
        fold.stop_reason = "cancelled"
        message = self._seen("interrupted")
        self.response = Response(message=message, stop_reason="cancelled", usage=fold.usage, request_id=self.request_id)
        stopping = tell.state_change("stopping")
        self._decide(
            lambda: stopping,
            lambda: tell.history_append(self._record_close(message, "interrupted")),
            lambda: tell.response_cancelled(message, fold.usage),
        )

    def _fail(self, error: Exception) -> None:
        """Failed: history as before, everything in the journal, the error says what had been delivered."""
        self._failure = error

        if self._ending is not None:
            return

        seen = self._seen("failed")

        if isinstance(error, ProviderError):
            name_place(error, self._opening.provider)

        if isinstance(error, ProviderError | LimitExceededError):
            error.partial = error.partial or seen

        self._record_close(seen, "failed", error)
        told = self._tell.request_error(self._plan.inputs, error, self._opening.metadata, self._fold.usage)
        self._decide(lambda: told)

    def _seen(self, status: MessageStatus) -> AssistantMessage | None:
        """What was delivered; values that no message can hold came from the provider and are what failed."""
        try:
            return self._fold.partial(status)
        except ProtocolError:
            return None

    def _decide(self, *acts: Act) -> None:
        """From here on the turn only ends: by these acts, then it is idle."""
        self._watchdog.stop()
        self._ending = deque([*acts, self._become_idle])

    async def _end(self) -> None:
        """Do what is left of the end, or as much of it as a cancel lets."""
        if self._run.is_cancelled:
            await self._hasten()
            await self._core.emitter.flush()
            return

        with self._run.step():
            await self._close_stream()

            while self._ending:
                if (event := self._ending.popleft()()) is not None:
                    await self._run.emit(event)

    async def _hasten(self) -> None:
        """End within the bound, out of reach of further cancels: no listener holds up anything beyond it."""
        if not self._ending and self._stream is None:
            return

        assert self._ending is not None

        try:
            with time_limit(SETTLE_SECONDS, shield=True):
                await self._close_stream()

                while len(self._ending) > 1:  # the last one, idle, may begin a next turn: no bound for that
                    self._act()
                    await self._core.emitter.flush()
        finally:
            while self._ending:
                self._act()

    def _act(self) -> None:
        """Do the next act of the end and tell who need not be waited for."""
        assert self._ending is not None

        if (event := self._ending.popleft()()) is not None:
            self._run.post(event)

    def _record_close(
        self, message: AssistantMessage | None, status: MessageStatus, error: Exception | None = None
    ) -> tuple[str, ...]:
        closed = response_closed(self._fold, message, status, request_id=self.request_id, slot=self.slot, error=error)
        refused = calls_refused(message, request_id=self.request_id, slot=self.slot) if status == "interrupted" else ()

        return self._core.journal.record(closed, *refused)

    async def _close_stream(self) -> None:
        """Close the HTTP response; bounded, and what fails here changes nothing for the turn."""
        stream, self._stream = self._stream, None

        if stream is None:
            return

        try:
            with time_limit(_CLOSE_SECONDS, shield=True):
                await stream.aclose()
        except Exception as error:  # noqa: BLE001 -- the reply is there, or its failure is told already
            await self._core.report(error, "closing the stream")

    def _become_idle(self) -> Event | None:
        return self._tell.state_change("idle", before=self._run.turn_ended)

    def _response_of(self, message: AssistantMessage) -> Response:
        return Response(
            message=message,
            stop_reason=message.stop_reason or "other",
            stop_details=message.stop_details,
            usage=self._fold.usage,
            request_id=self.request_id,
        )
