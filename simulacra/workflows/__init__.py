"""Workflows: the tool loop, its bounds, and the manager that conducts it."""

from simulacra.workflows.limits import FINAL_SYSTEM_PROMPT, LoopOptions, ToolResultInfo
from simulacra.workflows.manager import WorkflowManager
from simulacra.workflows.result import WorkflowReason, WorkflowResult
from simulacra.workflows.workflow import Workflow

__all__ = [
    "FINAL_SYSTEM_PROMPT",
    "LoopOptions",
    "ToolResultInfo",
    "Workflow",
    "WorkflowManager",
    "WorkflowReason",
    "WorkflowResult",
]
