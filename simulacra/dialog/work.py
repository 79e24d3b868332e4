"""Whose work a task does: what a run waits for cannot wait for that run in its turn."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from simulacra.dialog.run import Run


@dataclass(frozen=True, slots=True)
class _Work:
    run: Run
    task_id: int | None


_work: ContextVar[_Work | None] = ContextVar("simulacra_work", default=None)


def begin_work(run: Run, *, in_thread: bool) -> None:
    """From here on this task works for `run`, which waits for it.

    Args:
        run: The run.
        in_thread: Whether a thread does the work. Each task that it starts then does it too: a thread can only wait for
            them. A task that an async tool starts is free to outlive the call, and to wait for the run.
    """
    _work.set(_Work(run, None if in_thread else anyio.get_current_task().id))


def run_at_work() -> Run | None:
    """The run that waits for the task that asks, because of a tool call."""
    work = _work.get()

    if work is None or (work.task_id is not None and work.task_id != anyio.get_current_task().id):
        return None

    return work.run
