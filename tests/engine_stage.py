"""A conversation with a scripted model on an event loop of its own, and the record of all that was done to it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from typing import Any

import anyio
from anyio.abc import TaskStatus
from anyio.from_thread import start_blocking_portal
from dealt_replies import TOOLKIT, Dealt, play
from sendable import missing_from_request, request_faults, wire_faults

from simulacra.clock import use_clock
from simulacra.conversation import Conversation
from simulacra.dialog.run import Run
from simulacra.emitter import Event
from simulacra.errors import InvalidStateError
from simulacra.events import PromptSend
from simulacra.provider import ModelRequest, RequestOptions
from simulacra.testing import FakeClock, ScriptedProvider
from simulacra.workflows import WorkflowManager

SETTLE_SECONDS = 0.1
"""So long after a cancel everything has settled (CONV-18)."""
ROUNDS_TO_REST = 60


@dataclass(eq=False, slots=True)
class Call:
    """One call of a method that waits, under way or over."""

    way: str
    text: str | None = None
    scope: anyio.CancelScope | None = None
    outcome: Any = None
    error: Exception | None = None
    is_over: bool = False
    was_abandoned: bool = False


@dataclass(eq=False, slots=True)
class Cancelled:
    """A run that was cancelled, and when."""

    run: Run
    since: float


class Stage:
    """Where the actions of `engine_actions` take place.

    Args:
        backend: `asyncio` or `trio`.
        when_busy: As for `Conversation`.
        managed: Whether a `WorkflowManager` is attached.
    """

    def __init__(self, backend: str, when_busy: Any, *, managed: bool) -> None:
        self.calls: list[Call] = []
        self.deck: deque[Dealt] = deque()
        self.requests: list[ModelRequest] = []
        self.faults: list[str] = []
        self.events: list[Event] = []
        self.cancelled: list[Cancelled] = []
        self.traps: list[Callable[[], None]] = []
        """What takes listeners off that still wait for their moment."""
        self.streamed: set[str] = set()
        """Requests whose events a consumer takes."""
        self.taken: defaultdict[str, str] = defaultdict(str)
        """Per request the text that the consumer took."""
        self.undriven: set[str | None] = set()
        """Replies to `send_message`: their calls are the caller's to answer."""
        self.loaded: set[str | None] = set()
        self._numbers = count(1)
        self._tags = count(1)
        self._stack = ExitStack()
        self.clock = FakeClock()
        self._stack.enter_context(use_clock(self.clock))
        self._portal = self._stack.enter_context(start_blocking_portal(backend))
        self._host, _ = self._portal.start_task(self._hold_tasks)
        self.provider = ScriptedProvider(otherwise=self._deal)
        options = RequestOptions(first_event_timeout=20, idle_timeout=10)
        self.conversation = Conversation(self.provider, toolkit=TOOLKIT, when_busy=when_busy, options=options)
        self.manager = WorkflowManager(self.conversation) if managed else None
        self.conversation.on(Event, self.events.append)
        self.conversation.on(PromptSend, self._note_streamed)

    @property
    def under_way(self) -> list[Call]:
        return [call for call in self.calls if not call.is_over]

    @property
    def is_dawdling(self) -> bool:
        """Whether a consumer takes its time: a stream settles only when it is pulled."""
        return any(call.way == "dawdle" for call in self.under_way)

    def perform(self, actions: list[tuple[int, Callable[[Stage], None]]]) -> None:
        """Do things on the event loop, each after so many more turns of it; then let everything run until it waits."""
        self._portal.call(self._perform, actions)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._portal.call(self.clock.advance, seconds)

    def rest(self) -> None:
        """Let time pass until nothing is under way."""
        for _ in range(ROUNDS_TO_REST):
            self.wait(30.0)

            if not self.under_way and not self.conversation.is_busy:
                return

        raise AssertionError(f"nothing settles: {[(call.way, call.text) for call in self.under_way]}")

    def calm(self) -> None:
        """From now on nothing disturbs: no trap, no queued message, no reply but a good one."""
        for take_off in self.traps:
            take_off()

        self.deck.clear()
        self.conversation.clear_queue()
        self.conversation.when_busy = "reject"

    def close(self) -> None:
        """Dispose the conversation and end the loop."""
        self._portal.call(self.conversation.aclose)
        self.wait(1.0)

    def release(self) -> None:
        """Give up loop and clock, whatever state they are in."""
        self._portal.call(self._let_go)
        self._host.result()
        self._stack.close()

    def new_text(self, about: str = "say") -> str:
        return f"{about} {next(self._numbers)}"

    def start(self, call: Call, work: Callable[[], Any]) -> None:
        """Begin a call that waits, in a task of its own."""
        self.calls.append(call)
        self._tasks.start_soon(self._make, call, work)

    def note_cancel(self) -> None:
        """What holds the floor is about to be cancelled."""
        run = self.conversation.core.run

        if run is not None and all(each.run is not run for each in self.cancelled):
            self.cancelled.append(Cancelled(run, self.clock.monotonic()))

    def attempt(self, action: Callable[[], object], *, allowed: bool) -> bool:
        """Call a sync method that is legal only sometimes; it must refuse exactly when it has to."""
        refusal = None

        try:
            action()
        except InvalidStateError as error:
            refusal = error

        if self.conversation.core.is_closing:
            allowed = False

        assert (refusal is None) == allowed, refusal or "accepted although it is illegal"

        return allowed

    async def _hold_tasks(self, *, task_status: TaskStatus[None]) -> None:
        async with anyio.create_task_group() as self._tasks:
            self._closing = anyio.Event()
            task_status.started()
            await self._closing.wait()
            self._tasks.cancel_scope.cancel()

    async def _let_go(self) -> None:
        self._closing.set()

    async def _perform(self, actions: list[tuple[int, Callable[[Stage], None]]]) -> None:
        for turns, action in actions:
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()

            action(self)

        await self.clock.advance(0)

    async def _make(self, call: Call, work: Callable[[], Any]) -> None:
        try:
            with anyio.CancelScope() as call.scope:
                if call.was_abandoned:
                    call.scope.cancel()

                call.outcome = await work()
        except Exception as error:  # noqa: BLE001 -- judged when everything has settled
            call.error = error
        finally:
            call.is_over = True

    def _note_streamed(self, event: PromptSend) -> None:
        run = self.conversation.core.run

        if run is not None and run.streaming:
            self.streamed.add(event.request_id)

    def _deal(self, request: ModelRequest) -> Any:
        """The next reply; every request is looked at as it comes."""
        faults = [*request_faults(request.messages), *wire_faults(request)]
        is_repeated = any(each is request for each in self.requests[-1:])
        self.requests.append(request)

        if request.observer.context.conversation_id == self.conversation.id and not is_repeated:
            history = self.conversation.journal.history
            faults += missing_from_request(request.messages, history.messages, history.checkpoint)

        self.faults += [f"request {len(self.requests)}: {fault}" for fault in faults]

        return play(self.deck.popleft(), self._tags) if self.deck else "Fine."
