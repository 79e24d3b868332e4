"""Tools and outputs described by their schemas, strict where they can and may be (OAI-3, SC-R4). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from simulacra.cleaning import clean_json, clean_text
from simulacra.errors import ConfigurationError
from simulacra.provider import OutputRequest
from simulacra.schema import ToolDefinition
from simulacra_openai.presets import Preset
from simulacra_openai.strict import NotStrictError, strict_schema

_MOST_TOOLS = 1024
"""How many tools are remembered in their wire form."""


class ToolEncoder:
    """Writes tools, each one once: a toolkit goes out with every request.

    Args:
        preset: How the service differs from OpenAI.
        strict: Whether tools are strict; `None` decides per tool.
    """

    def __init__(self, preset: Preset, strict: bool | None) -> None:  # noqa: FBT001 -- a setting passed on, not a switch
        self._preset = preset
        self._strict = strict
        self._known: dict[int, tuple[ToolDefinition, dict[str, Any]]] = {}

    def encode(self, tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
        """The tools to send, as copies that whoever gets them may change.

        Raises:
            ConfigurationError: `strict=True`, but the schema of one cannot be expressed so.
        """
        return [clean_json(self._encoded(tool)) for tool in tools]

    def _encoded(self, tool: ToolDefinition) -> dict[str, Any]:
        known = self._known.get(id(tool))

        if known is not None and known[0] is tool:
            return known[1]

        if len(self._known) >= _MOST_TOOLS:
            self._known.clear()

        encoded = {"type": "function", "function": self._function(tool)}
        self._known[id(tool)] = tool, encoded

        return encoded

    def _function(self, tool: ToolDefinition) -> dict[str, Any]:
        function: dict[str, Any] = {"name": tool.name, "description": clean_text(tool.description)}
        schema = tool.input_schema()
        preset = self._preset
        wanted = (preset.strict_flag or preset.nullable_optionals) if self._strict is None else self._strict
        flag = {"strict": True} if preset.strict_flag or self._strict else {}

        if wanted:
            try:
                return {**function, "parameters": strict_schema(schema), **flag}
            except NotStrictError as error:
                if self._strict:
                    raise ConfigurationError(f"tool {tool.name!r} cannot be strict: {error}") from error

        function["parameters"] = {"type": "object", "properties": {}, **schema}

        return {**function, "strict": False} if preset.strict_flag else function


@lru_cache(maxsize=64)
def tool_encoder(preset: Preset, strict: bool | None) -> ToolEncoder:  # noqa: FBT001 -- a setting passed on
    """What writes tools for one kind of service."""
    return ToolEncoder(preset, strict)


def encode_output(output: OutputRequest, preset: Preset) -> dict[str, Any]:
    """The output asked for, as `response_format`: strict where the schema allows it and the service knows the word."""
    schema = dict(output.schema)
    described: dict[str, Any] = {"name": str(schema.get("title") or "output")}

    if isinstance(schema.get("description"), str):
        described["description"] = schema["description"]

    return {"type": "json_schema", "json_schema": clean_json({**described, **_strict_where_possible(schema, preset)})}


def _strict_where_possible(schema: Mapping[str, Any], preset: Preset) -> dict[str, Any]:
    if not preset.strict_flag:
        return {"schema": schema}

    try:
        return {"schema": strict_schema(schema), "strict": True}
    except NotStrictError:
        return {"schema": schema, "strict": False}
