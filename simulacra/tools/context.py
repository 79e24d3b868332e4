"""What a tool knows about the call it serves. One object per call; the data behind it is the workflow's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from simulacra.background import HomeLoop
from simulacra.cancellation import CancellationToken

if TYPE_CHECKING:
    from simulacra.conversation import Conversation
    from simulacra.workflows import Workflow

logger = logging.getLogger("simulacra.tools")

D = TypeVar("D")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress:
    """How far a running call has come.

    Args:
        tool_request_id: The call.
        progress: Work done so far, in the tool's own unit.
        total: All of the work, in the same unit; `None` if unknown.
        message: A line for people.
    """

    tool_request_id: str
    progress: float | None = None
    total: float | None = None
    message: str = ""


class ToolContext(Generic[D]):
    """Given to every tool call.

    Every key of `data` reads as an attribute too, `context.user` for `context.data["user"]`, unless the engine uses
    that name itself. `data` is shared by all tools of a workflow; write to it, not to the context.

    Args:
        conversation: The conversation the call belongs to.
        workflow: The workflow that runs the call.
        tool_request_id: The call's id.
        cancellation: Cancelled when the call is to stop: its turn was cancelled or its time is up.
        context_data: The workflow's data, a mapping or any object with attributes.
        idempotency_key: The same in every run of one call, for tools that may run again; else `None`.
        on_progress: Told what `report_progress` reports, on the event loop's thread.
    """

    __slots__ = (
        "_home",
        "_on_progress",
        "cancellation",
        "conversation",
        "data",
        "idempotency_key",
        "receipt",
        "tool_request_id",
        "workflow",
    )

    def __init__(
        self,
        *,
        conversation: Conversation | None = None,
        workflow: Workflow | None = None,
        tool_request_id: str = "",
        cancellation: CancellationToken | None = None,
        context_data: D | None = None,
        idempotency_key: str | None = None,
        on_progress: Callable[[ToolProgress], object] | None = None,
    ) -> None:
        self.conversation = conversation
        self.workflow = workflow
        self.tool_request_id = tool_request_id
        self.cancellation = CancellationToken.empty() if cancellation is None else cancellation
        self.data: D = cast("D", {}) if context_data is None else context_data
        self.idempotency_key = idempotency_key
        self.receipt: Any = None
        self._on_progress = on_progress
        self._home = None if on_progress is None else HomeLoop()

    def __getattr__(self, name: str) -> Any:
        if name in ToolContext.__slots__:  # not set yet: copying and unpickling ask before __init__ ran
            raise AttributeError(name)

        data: Any = self.data

        if isinstance(data, Mapping):
            if name in data:
                return data[name]
        elif hasattr(data, name):
            return getattr(data, name)

        raise AttributeError(
            f"the tool context has no {name!r}, and neither has its data; "
            "what tools need beside their arguments is given to the workflow as context_data"
        )

    def report_progress(self, progress: float | None = None, *, total: float | None = None, message: str = "") -> None:
        """Say how far the call has come; from any thread. It never fails and never holds the tool up for long.

        Args:
            progress: Work done so far, in the tool's own unit.
            total: All of the work, in the same unit.
            message: A line for people.
        """
        if self._home is None:
            return

        report = ToolProgress(tool_request_id=self.tool_request_id, progress=progress, total=total, message=message)

        try:
            self._home.call(partial(self._deliver, report))
        except RuntimeError:
            logger.warning("tool_request_id=<%s> | progress after the end of the event loop", self.tool_request_id)

    def _deliver(self, report: ToolProgress) -> None:
        try:
            if self._on_progress is not None:
                self._on_progress(report)
        except Exception:
            logger.exception("tool_request_id=<%s> | progress was not delivered", self.tool_request_id)
