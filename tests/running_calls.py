"""Calls that run in tasks of their own, and sync tools that wait until they are let go."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import anyio
from anyio import CancelScope
from tool_calls import call

from simulacra.cancellation import CancellationTokenSource
from simulacra.tools import ToolContext, ToolRunner

PATIENCE = 30  # seconds a thread waits at most before a test fails


class Running:
    """A call in a task of its own."""

    def __init__(self, tasks, tool_class, *, params=None, **limits):
        self.source = CancellationTokenSource()
        self.late = []
        self.late_told = threading.Event()
        self.done = anyio.Event()
        self.scope = CancelScope()
        self.result = None
        self.runner = ToolRunner([tool_class], on_late_result=self._note_late, **limits)
        tasks.start_soon(self._run, call(tool_class.name, params))

    def _note_late(self, made, late):
        self.late.append((made, late))
        self.late_told.set()

    async def _run(self, made):
        with self.scope:
            done = await self.runner.run(made, ToolContext(cancellation=self.source.token))
            self.result = done.result.model_dump()

        self.done.set()


class Gate:
    """A sync tool that says when it started and goes on when it is let go."""

    def __init__(self):
        self.started = threading.Event()
        self.go = threading.Event()
        self.ended = threading.Event()
        self.saw_cancel = False

    def __call__(self, context: ToolContext):
        self.started.set()
        assert self.go.wait(PATIENCE)
        self.saw_cancel = context.cancellation.is_cancellation_requested
        self.ended.set()
        return "late"

    @contextmanager
    def opened_at_last(self):
        """Let it go in the end, also where the test fails: a thread that waits keeps the program alive."""
        try:
            yield
        finally:
            self.go.set()


async def until(event):
    with anyio.fail_after(PATIENCE):
        await anyio.to_thread.run_sync(event.wait, PATIENCE)

    assert event.is_set()
