"""What bounds a tool loop, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulacra.errors import ConfigurationError
from simulacra.messages import ToolContent, ToolResultContent

FINAL_SYSTEM_PROMPT = "No further tool can be called. Answer now, from the tool results you have."


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultInfo:
    """A finished tool call, as `on_tool_result` is told of it."""

    call: ToolContent
    result: ToolResultContent
    request_id: str
    duration_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopOptions:
    """Bounds and hooks of a tool loop.

    Args:
        max_rounds: Model replies before the last request, which is made with tools switched off.
        max_tool_calls: Tool calls in the whole loop; `None` sets no limit.
        max_concurrency: Calls of one batch that run at once.
        max_result_bytes: Bytes of JSON a tool result may have.
        final_system_prompt: Added to the system prompt of that last request; `None` adds nothing.
        tool_choice: Choice of the requests; one that forces a call holds for the first request only.
        on_tool_result: Told of each finished call, sync or async; what it raises stops nothing.

    Raises:
        ConfigurationError: A bound below 1.
    """

    max_rounds: int = 50
    max_tool_calls: int | None = None
    max_concurrency: int = 16
    max_result_bytes: int = 262_144
    final_system_prompt: str | None = FINAL_SYSTEM_PROMPT
    tool_choice: str | None = None
    on_tool_result: Callable[[ToolResultInfo], object] | None = None

    def __post_init__(self) -> None:
        for name in ("max_rounds", "max_concurrency", "max_result_bytes"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} must be at least 1, not {getattr(self, name)}")

        if self.max_tool_calls is not None and self.max_tool_calls < 0:
            raise ConfigurationError(f"max_tool_calls must not be negative, not {self.max_tool_calls}")
