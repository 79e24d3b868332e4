"""Calling a tool as a model would, without a conversation around it."""

from __future__ import annotations

from typing import Any

from simulacra.messages import ToolContent
from simulacra.tools import ToolContext, ToolRunner


def call(
    name: str, params: dict[str, Any] | None = None, *, error: str | None = None, call_id: str = "t1"
) -> ToolContent:
    return ToolContent(tool_request_id=call_id, tool=name, params=params or {}, error=error)


async def answer(tool: Any, params: dict[str, Any] | None = None, *, context: ToolContext | None = None, **limits: Any):
    """The whole block that answers one call of `tool`."""
    runner = ToolRunner([tool], **limits)
    name = next((definition.name for definition in runner.definitions), tool.name)

    return await runner.run(call(name, params), context or ToolContext(tool_request_id="t1"))


async def result(tool: Any, params: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """The result of one call of `tool`, as the JSON object the model reads."""
    return (await answer(tool, params, **options)).result.model_dump()
