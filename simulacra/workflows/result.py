"""How a workflow ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simulacra.errors import BudgetExceededError, SimulacraError
from simulacra.messages import Message, Response, StopReason, Usage

WorkflowReason = Literal["complete", "cancel", "error", "limit", "truncated", "refusal"]

_REASONS: dict[StopReason, WorkflowReason] = {
    "end_turn": "complete",
    "stop_sequence": "complete",
    "tool_use": "complete",
    "other": "complete",
    "max_tokens": "truncated",
    "context_window": "truncated",
    "pause": "truncated",
    "refusal": "refusal",
    "content_filter": "refusal",
    "error": "error",
    "cancelled": "cancel",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowResult:
    """What came of a workflow; it never lies about how it ended.

    Args:
        reason: Why it ended (WF-8).
        response: The last response, if there was one.
        messages: Every message the workflow sent or received.
        usage: The sum over its requests.
        rounds: How many replies the model made.
        error: What was raised, when the reason is `error`, or a budget's `limit`.
    """

    reason: WorkflowReason
    response: Response | None
    messages: tuple[Message, ...]
    usage: Usage
    rounds: int
    error: Exception | None = None

    @property
    def text(self) -> str:
        """The text of the last response; raises what the workflow raised when the reason is `error`."""
        if self.reason == "error":
            self.raise_for_error()

        return "" if self.response is None else self.response.text

    def raise_for_error(self) -> None:
        """Raise what ended the workflow, if anything did."""
        if self.error is not None:
            raise self.error

        if self.reason == "error":
            raise SimulacraError("the model's reply ended in an error")


def reason_of(stop_reason: StopReason) -> WorkflowReason:
    """The reason a workflow gives for a reply's stop reason (WF-8)."""
    return _REASONS[stop_reason]


def reason_of_error(error: Exception) -> WorkflowReason:
    """A budget that is used up is a limit, everything else an error (WF-8)."""
    return "limit" if isinstance(error, BudgetExceededError) else "error"
