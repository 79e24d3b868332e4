"""Short ways to watch conversations in tests: what they announce, what they keep, and calls under way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from simulacra.conversation import Conversation
from simulacra.emitter import Event
from simulacra.events import RequestError, RequestSuccess, ResponseCancelled, StateChange
from simulacra.messages import Message
from simulacra.testing import FakeClock, ScriptedProvider, Step

BEGUN = ["idle>awaiting_response", "prompt_send"]
SENT = ["before_request", "raw_request"]
OPENED = [*BEGUN, *SENT, "awaiting_response>streaming_response", "message_start"]
COMPLETED = ["raw_response", "request_success", "history_change", "message_complete", "streaming_response>idle"]
"""The events of a turn, cut where other ones may come between; `raw_stream` aside."""


class Heard(list[Any]):
    """Everything a conversation announces, in order."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        conversation.on(Event, self.append)

    @property
    def all_names(self) -> list[str]:
        """The events' names; a change of state as `before>after`."""
        return [named(event) for event in self]

    @property
    def names(self) -> list[str]:
        """`all_names` without the vendor's chunks."""
        return [name for name in self.all_names if name != "raw_stream"]

    @property
    def ends(self) -> list[str]:
        """How each turn ended."""
        return [event.name for event in self.of(RequestSuccess, RequestError, ResponseCancelled)]

    def of(self, *kinds: type[Event]) -> list[Any]:
        return [event for event in self if isinstance(event, kinds)]


def named(event: Any) -> str:
    return f"{event.previous}>{event.current}" if isinstance(event, StateChange) else event.name


class Asked:
    """A call under way in a task of its own: how it ended, and when."""

    def __init__(self, clock: FakeClock) -> None:
        self.outcome: Any = None
        self.error: Exception | None = None
        self.ended_at: float | None = None
        self.scope = anyio.CancelScope()
        self._clock = clock

    @property
    def is_over(self) -> bool:
        return self.ended_at is not None

    async def run(self, work: Callable[[], Awaitable[Any]]) -> None:
        try:
            with self.scope:
                self.outcome = await work()
        except Exception as error:
            self.error = error
        finally:
            self.ended_at = self._clock.monotonic()


class Asking:
    """Starts calls and lets them run until they wait for something."""

    def __init__(self, tasks: TaskGroup, clock: FakeClock) -> None:
        self._tasks = tasks
        self._clock = clock

    async def __call__(self, work: Callable[[], Awaitable[Any]]) -> Asked:
        asked = Asked(self._clock)
        self._tasks.start_soon(asked.run, work)
        await self._clock.advance(0)

        return asked


def talk(*steps: Step, otherwise: Step | None = None, **settings: Any) -> Conversation:
    """A conversation whose model plays `steps`; its provider is a `ScriptedProvider`."""
    return Conversation(ScriptedProvider(steps, otherwise=otherwise), **settings)


def sketch(messages: Iterable[Message]) -> list[str]:
    """Messages in short: `U hi`, `A hello`, `A* Hel` when interrupted, calls and results as `<add>` and `=add`."""
    return [f"{_speaker(message)} {' '.join(_short(block) for block in message.content)}" for message in messages]


def _speaker(message: Message) -> str:
    if message.role == "user":
        return "U"

    return {"complete": "A", "interrupted": "A*", "failed": "A!"}[message.status]


def _short(block: Any) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "thinking":
            return f"({block.thought})"
        case "tool":
            return f"<{block.tool}>"
        case "tool_result":
            return f"={block.tool}" if block.result.result else f"={block.tool}!"
        case _:
            return f"[{block.type}]"
