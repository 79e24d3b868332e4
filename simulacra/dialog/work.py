"""Whose work a task does: what a run waits for cannot wait for that run in its turn."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from simulacra.dialog.run import Run


@dataclass(frozen=True, slots=True)
class Work:
    """What a task does for a run, which waits for it.

    Args:
        run: The run.
        task_id: The task; `None` when a thread does the work. Each task that this starts then does it too: a thread can
            only wait for them. A task that an async tool starts is free to outlive the call, and to wait for the run.
    """

    run: Run
    task_id: int | None


_work: ContextVar[Work | None] = ContextVar("simulacra_work", default=None)


def begin_work(work: Work) -> None:
    """This task, or the thread it starts, does this from here on."""
    _work.set(work)


def run_at_work() -> Run | None:
    """The run that waits for the task that asks, because of a tool call."""
    work = _work.get()

    if work is None or (work.task_id is not None and work.task_id != anyio.get_current_task().id):
        return None

    return work.run
