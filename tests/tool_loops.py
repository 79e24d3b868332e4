"""Tools that tests hold up and let go, and what is told of a tool loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel

from simulacra.emitter import Event
from simulacra.messages import ToolResultContent, UserMessage
from simulacra.tools import ToolClass, ToolContext, tool


class Door:
    """An async tool that says when it is in and waits until it is let out.

    Args:
        name: The tool's name.
        options: Of `@tool`.
    """

    def __init__(self, name: str = "door", **options: Any) -> None:
        self.entered = anyio.Event()
        self.opened = anyio.Event()
        self.runs = 0
        self.contexts: list[Any] = []

        class Held(ToolClass):
            """Wait at the door."""

            async def execute(held, place: str = "") -> str:
                self.runs += 1
                self.contexts.append(held.context)
                self.entered.set()
                await self.opened.wait()

                return f"through {place}".strip()

        Held.name = name

        for option, value in options.items():
            setattr(Held, option, value)

        self.tool: type[ToolClass] = Held


def counting(name: str = "count", **options: Any) -> tuple[type[ToolClass], list[Any]]:
    """A tool that notes its argument, and the notes."""
    notes: list[Any] = []

    def count(n: int = 0) -> int:
        """Count."""
        notes.append(n)

        return n

    return tool(count, name=name, asynchronous=False, **options), notes


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def fail(text: str = "broken") -> None:
    """Fail."""
    raise ValueError(text)


def outcomes(message: Any) -> list[dict[str, Any]]:
    """The results in a user message, as the model reads them."""
    assert isinstance(message, UserMessage)
    assert all(isinstance(block, ToolResultContent) for block in message.content)

    return [block.result.model_dump() for block in message.content]


def shapes(messages: Any) -> list[str]:
    """What each message is: `user`, `results`, `assistant`, `calls`."""
    kinds = {"tool": "calls", "tool_result": "results"}

    return [
        next((kinds[block.type] for block in message.content if block.type in kinds), message.role)
        for message in messages
    ]


async def settle(turns: int = 50) -> None:
    """Let every other task run until it waits for something."""
    for _ in range(turns):
        await anyio.lowlevel.checkpoint()


async def until(condition: Callable[[], object]) -> None:
    """Let others run until something is so; for what a thread does."""
    while not condition():
        await anyio.lowlevel.checkpoint()


class Log:
    """What was announced, in order, by whom."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Event]] = []

    def hear(self, who: str, emitter: Any, event: Any = Event) -> None:
        emitter.on(event, lambda event: self.events.append((who, event)))

    def names(self, who: str | None = None) -> list[str]:
        return [event.name for heard, event in self.events if who in (None, heard)]


class Asked:
    """A call under way in a task of its own."""

    def __init__(self, group, work, *args):
        self.outcome = None
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()
        group.start_soon(self._run, work, args)

    async def _run(self, work, args):
        try:
            with self.scope:
                self.outcome = await work(*args)
        except Exception as error:  # a crash of the group would end the runner of the test with it
            self.outcome = error
        finally:
            self.ended.set()


class Lock:
    """A sync tool that waits in its thread, until it is let go or, if it is `polite`, cancelled."""

    def __init__(self, *, polite, effect="irreversible"):
        self.go = threading.Event()
        self.entered = threading.Event()
        self.left = threading.Event()

        @tool(name="lock", effect=effect)
        def wait(context: ToolContext) -> str:
            """Wait."""
            if polite:
                context.cancellation.once("cancel", self.go.set)

            self.entered.set()
            assert self.go.wait(60)
            self.left.set()

            return "let go"

        self.tool = wait


class Stubborn(ToolClass):
    """An async tool that keeps every cancel away."""

    entered: anyio.Event
    opened: anyio.Event
    answer = "through"

    async def execute(self) -> str:
        with anyio.CancelScope(shield=True):
            type(self).entered.set()
            await type(self).opened.wait()

        return self.answer
