"""A run: one piece of work that holds the floor, be it a single exchange or a whole tool loop."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractContextManager, aclosing, suppress
from typing import Any, Protocol

import anyio

from simulacra.background import HomeLoop
from simulacra.cancellation import CancellationTokenSource
from simulacra.clock import time_limit
from simulacra.dialog.core import Core
from simulacra.dialog.floor import Grant
from simulacra.dialog.inputs import admitted
from simulacra.dialog.opening import check_tool_choice
from simulacra.dialog.work import run_at_work
from simulacra.emitter import Event
from simulacra.errors import ConfigurationError, InvalidStateError
from simulacra.messages import Response, UserMessage
from simulacra.provider import RequestOptions
from simulacra.scopes import Signal, cancel_scope
from simulacra.turn import SETTLE_SECONDS, Turn, TurnPlan


class Driver(Protocol):
    """Conducts a tool loop: asks the run for turns, runs tools between them, and leaves the response at the run."""

    def drive(self, run: Run) -> AsyncGenerator[Event, None]:
        """Yield the events of the loop; set `run.response`, or raise what ended it."""
        ...


class Run:
    """Holds the floor until it is released.

    Args:
        core: The conversation's parts.
        grant: The floor.
        changes: What the options of this run's requests have different from the conversation's.
        streaming: Whether a consumer takes the events; if not, nothing is kept for one.
        driver: Conducts the tool loop; `None` for a single exchange.
    """

    def __init__(
        self, core: Core, grant: Grant, changes: Mapping[str, Any], *, streaming: bool, driver: Driver | None = None
    ) -> None:
        self.core = core
        self.grant = grant
        self.changes = changes
        self.streaming = streaming
        self.text_only = False
        """Whether the consumer takes nothing but the reply's text just now; the rest is then not made for it."""
        self.driver = driver
        self.source = CancellationTokenSource()
        self.is_cancelled = False
        self.source.once("cancel", self._note_cancel)
        self.outbox: deque[Event] = deque()
        self.response: Response | None = None
        self.finished = Signal()
        self._step = cancel_scope()
        # The running loop's own class: even asking which loop runs is too much for each delta.
        self._scope_type = type(self._step)
        self.home = HomeLoop()
        """The event loop of this run."""
        self._task_id = anyio.get_current_task().id
        self._waiting_run = run_at_work()
        core.run = self

        if grant.is_cancelled:
            self.source.cancel()

    @property
    def options(self) -> RequestOptions:
        """Options of a request made now."""
        return _options_with(self.changes, self.core)

    @property
    def is_driven(self) -> bool:
        return self.driver is not None

    def cancel(self) -> None:
        """Cancel what is under way; safe from any thread, idempotent."""
        with suppress(RuntimeError):  # of a loop that has ended: nothing is under way any more
            self.home.call(self._cancel)

    def step(self) -> anyio.CancelScope:
        """The scope of the next step, which `cancel` ends, also when it came before. On the per-delta path.

        A run takes one step at a time, and nothing may be yielded to a consumer inside it.
        """
        self._step = scope = self._scope_type()

        if self.is_cancelled:
            scope.cancel()

        return scope

    def closing(self) -> AbstractContextManager[anyio.CancelScope]:
        """The scope of what is announced at an end: listeners hold up a cancelled run for a bounded time only."""
        return time_limit(SETTLE_SECONDS, shield=True) if self.is_cancelled else self.step()

    async def emit(self, event: Event) -> None:
        """Keep it for the consumer and tell the listeners."""
        self.keep(event)
        await self.core.emitter.emit(event)

    def post(self, event: Event) -> None:
        """`emit` without waiting for anybody."""
        self.keep(event)
        self.core.emitter.post(event)

    def keep(self, event: Event) -> None:
        """Keep it for the consumer, if that takes such events."""
        if self.streaming and not self.text_only:
            self.outbox.append(event)

    def wants(self, event: type[Event]) -> bool:
        return (self.streaming and not self.text_only) or self.core.emitter.wants(event)

    def user_messages(self) -> tuple[UserMessage, ...]:
        """The inputs as messages."""
        return tuple(admitted(message) for message in self.grant.inputs)

    def turn(self, plan: TurnPlan) -> Turn:
        """One exchange of this run."""
        return Turn(self, plan)

    async def events(self) -> AsyncGenerator[Event, None]:
        """Do the work; yields what happens when `streaming`."""
        self._task_id = anyio.get_current_task().id
        turn: Turn | None = None

        if self.driver is None:
            turn = self.turn(TurnPlan(inputs=self.user_messages()))
            work = turn.events()
        else:
            work = self.driver.drive(self)

        try:
            async with aclosing(work):
                async for event in work:
                    yield event
        except Exception as error:
            self.grant.share(error)
            raise
        finally:
            if turn is not None:
                self.response = turn.response

            self.release()

    def release(self) -> None:
        """Give up the floor; again does nothing."""
        if self.core.run is self:
            self.core.run = None

        self.grant.share(self.response or Response(message=None, stop_reason="cancelled"))
        self.core.floor.release(self.grant)
        self.finished.set()

    def waits_for_caller(self) -> bool:
        """Whether the task that asks does this run's work, or that of a run which a tool call of this one waits for."""
        if anyio.get_current_task().id == self._task_id:
            return True

        run = run_at_work()

        while run is not None and run is not self:
            run = run._waiting_run  # noqa: SLF001 -- of its own class

        return run is self

    async def wait_settled(self) -> None:
        """Wait until the cancelled work has ended; bounded, and not at all from inside that work."""
        if not self.waits_for_caller():
            with time_limit(SETTLE_SECONDS * 2, shield=True):
                await self.finished.wait()

    def interrupt_step(self) -> None:
        """End what is waited for just now, without cancelling the run."""
        self._step.cancel()

    def turn_ended(self) -> None:
        """A turn is about to be announced as over; a single exchange gives up the floor with it."""
        if not self.is_driven:
            self.core.run = None
            self.core.floor.release(self.grant)

    def _note_cancel(self) -> None:
        self.is_cancelled = True

    def _cancel(self) -> None:
        self.source.cancel()
        self._step.cancel()


async def admit(
    core: Core,
    message: UserMessage,
    changes: Mapping[str, Any],
    *,
    streaming: bool,
    driver: Callable[[], Driver | None] = lambda: None,
    first: bool = False,
) -> Run | Response:
    """Take the floor, or wait for it as `when_busy` says.

    Args:
        core: The conversation's parts.
        message: What is to be sent.
        changes: What the options of the run's requests have different from the conversation's.
        streaming: Whether a consumer will take the events.
        driver: Asked, when the run begins, for what conducts the tool loop.
        first: Go before everything that waits, whatever `when_busy` says.

    Returns:
        The run to iterate, or the response that another caller's work gave to this input.

    Raises:
        InvalidStateError: The conversation is disposed, or busy and set to reject.
        ConfigurationError: The message's id is in use already, an option is wrong, or no such tool can be chosen.
    """
    _check(core, message, changes)

    if not core.floor.is_taken:
        return Run(core, core.floor.take(message), changes, streaming=streaming, driver=driver())

    _check_waiting(core, first=first)
    waiting = core.floor.enqueue(message, first=first)

    if core.floor.when_busy == "interrupt" or first:
        core.cancel()

    grant = await core.floor.wait(waiting)

    if isinstance(grant, Response):
        return grant

    if core.is_closing:
        core.floor.withdraw(waiting, "disposed")
        return Response(message=None, stop_reason="cancelled", stop_details="disposed")

    return Run(core, grant, changes, streaming=streaming, driver=driver())


def _check(core: Core, message: UserMessage, changes: Mapping[str, Any]) -> None:
    """Refuse what could never be sent; raises as `admit`."""
    if core.is_closing:
        raise InvalidStateError("prompt", state="disposed", allowed=("idle",), remedy="Create a new Conversation")

    if message.id is not None and core.is_known(message.id):
        raise ConfigurationError(f"message id {message.id!r} is in use already: leave the id out to get a new one")

    check_tool_choice(core.settings, _options_with(changes, core))


def _check_waiting(core: Core, *, first: bool) -> None:
    """Refuse to wait where that is not wanted, or would never end; raises as `admit`."""
    if core.floor.when_busy == "reject" and not first:
        core.require_free("prompt")

    if core.run is not None and core.run.waits_for_caller():
        raise InvalidStateError(
            "waiting for the response under way",
            state="inside it: in a tool, in a listener or in the loop over its stream",
            remedy="Leave the stream first, send from a task of its own, or leave it to queue_message() of the manager",
        )


def _options_with(changes: Mapping[str, Any], core: Core) -> RequestOptions:
    options = core.settings.options

    return options.updated(**changes) if changes else options
