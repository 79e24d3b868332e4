"""What workflows and their managers announce."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from simulacra.emitter import Event
from simulacra.messages import Message, UserContent
from simulacra.tools import ToolProgress

if TYPE_CHECKING:
    from simulacra.workflows.manager import WorkflowManager
    from simulacra.workflows.result import WorkflowReason, WorkflowResult
    from simulacra.workflows.workflow import Workflow

WorkflowState = Literal["idle", "busy", "disposed"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkflowEvent(Event):
    """Base of the events of a workflow."""

    workflow: Workflow


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkflowStateChange(WorkflowEvent):
    """The workflow went from one state to another."""

    name: ClassVar[str] = "state_change"
    previous: WorkflowState
    current: WorkflowState


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkflowUpdate(WorkflowEvent):
    """A message was sent or received."""

    name: ClassVar[str] = "workflow_update"
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkflowEnd(WorkflowEvent):
    """The workflow is over."""

    name: ClassVar[str] = "workflow_end"
    result: WorkflowResult
    reason: WorkflowReason


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkflowToolProgress(WorkflowEvent):
    """A running tool told how far it is."""

    name: ClassVar[str] = "tool_progress"
    progress: ToolProgress


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChildWorkflowBegin(WorkflowEvent):
    """A child workflow was made."""

    name: ClassVar[str] = "child_workflow_begin"
    child: Workflow


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChildWorkflowEvent(WorkflowEvent):
    """A child workflow announced `event`."""

    name: ClassVar[str] = "child_workflow_event"
    event: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MessageQueued(WorkflowEvent):
    """A message waits for the next normal stop."""

    name: ClassVar[str] = "message_queued"
    message: tuple[UserContent, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MessageDequeued(WorkflowEvent):
    """A waiting message is about to be sent."""

    name: ClassVar[str] = "message_dequeued"
    message: tuple[UserContent, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueueCleared(WorkflowEvent):
    """The waiting messages were dropped."""

    name: ClassVar[str] = "queue_cleared"
    count: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkflowLifecycleError(WorkflowEvent):
    """Something beside the loop failed: a listener, a hook."""

    name: ClassVar[str] = "lifecycle_error"
    error: Exception
    operation: str
    context: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkflowDispose(WorkflowEvent):
    """The workflow ends; only the change to `disposed` follows."""

    name: ClassVar[str] = "dispose"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ManagerEvent(Event):
    """Base of the events of a manager."""

    manager: WorkflowManager


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ManagerStateChange(ManagerEvent):
    """The manager went from one state to another."""

    name: ClassVar[str] = "state_change"
    previous: WorkflowState
    current: WorkflowState


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkflowBegin(ManagerEvent):
    """A workflow was made and is about to start."""

    name: ClassVar[str] = "workflow_begin"
    workflow: Workflow


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForwardedWorkflowEvent(ManagerEvent):
    """The current workflow announced `event`."""

    name: ClassVar[str] = "workflow_event"
    event: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ManagerLifecycleError(ManagerEvent):
    """A listener of the manager failed."""

    name: ClassVar[str] = "lifecycle_error"
    error: Exception
    operation: str
    context: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ManagerDispose(ManagerEvent):
    """The manager ends; only the change to `disposed` follows."""

    name: ClassVar[str] = "dispose"


WORKFLOW_EVENTS: tuple[type[Event], ...] = (
    WorkflowStateChange,
    WorkflowUpdate,
    WorkflowEnd,
    WorkflowToolProgress,
    ChildWorkflowBegin,
    ChildWorkflowEvent,
    MessageQueued,
    MessageDequeued,
    QueueCleared,
    WorkflowLifecycleError,
    WorkflowDispose,
)
MANAGER_EVENTS: tuple[type[Event], ...] = (
    ManagerStateChange,
    WorkflowBegin,
    ForwardedWorkflowEvent,
    ManagerLifecycleError,
    ManagerDispose,
)
