"""Who has the floor: admission of inputs to a conversation, one piece of work at a time.

There is no await between looking whether the floor is free and taking it. While it is taken, `when_busy` decides what
becomes of further inputs; the floor is handed on only after a whole tool loop, so an input never comes between a
call and its result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

import anyio

from simulacra.clock import clock
from simulacra.dialog.inputs import merged
from simulacra.errors import InvalidStateError
from simulacra.messages import Response, UserContent, UserMessage

WhenBusy = Literal["reject", "queue", "merge", "latest", "interrupt"]
QUEUE_LIMIT = 32


@dataclass(eq=False, slots=True, kw_only=True)
class QueuedInput:
    """An input that waits.

    `has_caller` is false for those of `queue_message`, which no prompt waits for; `is_first` is true for those of
    `interrupt`, which go before all others, together.
    """

    input_id: str
    message: UserMessage
    has_caller: bool = True
    is_first: bool = False
    _settled: anyio.Event | None = field(default=None, init=False)
    _outcome: Grant | Response | Exception | None = field(default=None, init=False)

    @property
    def contents(self) -> tuple[UserContent, ...]:
        """What is to be sent."""
        return self.message.content

    def settle(self, outcome: Grant | Response | Exception) -> None:
        self._outcome = outcome

        if self._settled is not None:
            self._settled.set()

    async def wait(self) -> Grant | Response:
        if self._outcome is None:
            self._settled = anyio.Event()
            await self._settled.wait()

        if isinstance(self._outcome, Exception):
            raise self._outcome

        assert self._outcome is not None

        return self._outcome

    @property
    def granted(self) -> Grant | None:
        return self._outcome if isinstance(self._outcome, Grant) else None


@dataclass(eq=False, slots=True)
class Grant:
    """The floor, for one piece of work: the inputs it begins with, and who else waits for its outcome."""

    inputs: tuple[UserMessage, ...]
    input_ids: tuple[str, ...] = ()
    followers: list[QueuedInput] = field(default_factory=list)
    is_cancelled: bool = False

    def share(self, outcome: Response | Exception) -> None:
        """Tell the other callers how it went."""
        for follower in self.followers:
            follower.settle(outcome)

        self.followers.clear()


class FloorHost(Protocol):
    """What the floor tells the conversation."""

    def input_queued(self, waiting: QueuedInput) -> None: ...

    def input_sent(self, waiting: QueuedInput) -> None: ...

    def input_dropped(self, waiting: QueuedInput, reason: str) -> None: ...


class Floor:
    """Admits inputs.

    Args:
        host: Told of inputs that wait, are sent, or are dropped.
        when_busy: What becomes of an input while the floor is taken.
    """

    def __init__(self, host: FloorHost, when_busy: WhenBusy) -> None:
        self.when_busy: WhenBusy = when_busy
        self.holder: Grant | None = None
        self._host = host
        self._waiting: list[QueuedInput] = []

    @property
    def is_taken(self) -> bool:
        return self.holder is not None

    @property
    def queued(self) -> tuple[QueuedInput, ...]:
        return tuple(self._waiting)

    def is_known(self, message_id: str) -> bool:
        """Whether an input that waits, or is being answered, has this id."""
        held = () if self.holder is None else self.holder.inputs

        return any(message.id == message_id for message in (*held, *(waiting.message for waiting in self._waiting)))

    def take(self, *inputs: UserMessage) -> Grant:
        """Take the free floor at once."""
        assert self.holder is None
        self.holder = Grant(inputs)

        return self.holder

    async def wait(self, waiting: QueuedInput) -> Grant | Response:
        """Wait for the floor, or for the response that another caller's work gives this input."""
        try:
            return await waiting.wait()
        except anyio.get_cancelled_exc_class():
            self.withdraw(waiting, "withdrawn")
            raise

    def enqueue(self, message: UserMessage, *, has_caller: bool = True, first: bool = False) -> QueuedInput:
        """Put an input into the queue.

        Raises:
            InvalidStateError: Too many inputs wait.
        """
        if len(self._waiting) >= QUEUE_LIMIT:
            raise InvalidStateError(
                "queueing an input",
                state=f"{QUEUE_LIMIT} inputs wait",
                remedy="Wait for a response, or drop what waits with clear_queue()",
            )

        waiting = QueuedInput(input_id=clock().new_id(), message=message, has_caller=has_caller, is_first=first)
        place = sum(other.is_first for other in self._waiting) if first else len(self._waiting)
        self._waiting.insert(place, waiting)
        self._host.input_queued(waiting)

        return waiting

    def next_message(self) -> QueuedInput | None:
        """Take the oldest input that no caller waits for off the queue."""
        for waiting in self._waiting:
            if not waiting.has_caller:
                self._waiting.remove(waiting)
                self._host.input_sent(waiting)

                return waiting

        return None

    def put_back(self, waiting: QueuedInput) -> None:
        """Let an input that was taken off the queue wait on, as the first; there is always room for it."""
        self._waiting.insert(0, waiting)
        self._host.input_queued(waiting)

    def release(self, grant: Grant) -> None:
        """Give the floor up; it goes straight to whoever waits, as `when_busy` says."""
        if self.holder is not grant:
            return

        self.holder = None
        callers = [waiting for waiting in self._waiting if waiting.has_caller]

        if not callers:
            return

        match self.when_busy:
            case "merge":
                self._hand_to(callers, merged([waiting.message for waiting in callers]))
            case "interrupt":
                self._hand_to(callers)
            case "latest":
                newest = max(callers, key=lambda waiting: waiting.input_id)  # ids are ordered by time

                for older in callers:
                    if older is not newest:
                        self._drop(older, "superseded")

                self._hand_to([newest])
            case "queue" | "reject":
                self._hand_to([waiting for waiting in callers if waiting.is_first] or callers[:1])

    def withdraw(self, waiting: QueuedInput, reason: str) -> None:
        """Take an input back, also when it was granted the floor just now; who would have followed it waits on."""
        if waiting in self._waiting:
            self._waiting.remove(waiting)
            self._host.input_dropped(waiting, reason)
        elif (grant := waiting.granted) is not None:
            self._waiting[:0] = grant.followers
            grant.followers = []
            self._host.input_dropped(waiting, reason)
            self.release(grant)

    def clear(self, reason: str = "dropped") -> int:
        """Drop what waits; its callers get a cancelled response.

        Returns:
            How many inputs were dropped.
        """
        waiting = list(self._waiting)

        for dropped in waiting:
            self._drop(dropped, reason)

        return len(waiting)

    def _hand_to(self, sent: list[QueuedInput], *as_one: UserMessage) -> None:
        """Give the floor to the first; the others get its outcome."""
        leader, *followers = sent
        inputs = as_one or tuple(waiting.message for waiting in sent)
        self.holder = Grant(inputs, tuple(waiting.input_id for waiting in sent), followers)

        for waiting in sent:
            self._waiting.remove(waiting)
            self._host.input_sent(waiting)

        leader.settle(self.holder)

    def _drop(self, waiting: QueuedInput, reason: str) -> None:
        self._waiting.remove(waiting)
        self._host.input_dropped(waiting, reason)
        waiting.settle(Response(message=None, stop_reason="cancelled", stop_details=reason))
