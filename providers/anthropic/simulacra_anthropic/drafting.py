"""A model request in the form of the Messages API, one part for one part. Pure.

Beside the body's fields the parameters hold the SDK's own options (`extra_headers`, `extra_query`, `extra_body`,
`timeout`), so that whoever looks at them, or changes them, sees everything that decides what is sent (RX-6).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulacra.cleaning import clean_json, clean_text
from simulacra.errors import ConfigurationError
from simulacra.provider import ModelRequest
from simulacra.schema import ToolDefinition
from simulacra.wire import merge_extra
from simulacra_anthropic.caching import PromptCaching
from simulacra_anthropic.history import container_of, draft_turns
from simulacra_anthropic.thinking import INTERLEAVED, read_thinking

DEFAULT_MAX_TOKENS = 8192
"""Most tokens of a reply; the API insists on a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a provider adds to each request.

    Args:
        model: The model asked for.
        max_tokens: Most tokens of a reply, unless the request says otherwise.
        thinking: Reasoning, unless the request says otherwise.
        caching: What of the request is cached.
        server_tools: Tools that the service runs itself, as the API describes them.
        raw_kinds: Kinds of raw parts that are sent back.
        extra: Fields and SDK options that go out as they are.
    """

    model: str
    max_tokens: int = DEFAULT_MAX_TOKENS
    thinking: Mapping[str, Any] | None = None
    caching: PromptCaching = field(default_factory=PromptCaching)
    server_tools: Sequence[Mapping[str, Any]] = ()
    raw_kinds: frozenset[str] = frozenset({"anthropic"})
    extra: Mapping[str, Any] = field(default_factory=dict)


def draft_request(request: ModelRequest, settings: Settings) -> dict[str, Any]:
    """The parameters as they stand: what the API would refuse is still in them.

    Raises:
        ConfigurationError: An option cannot be right.
    """
    options = request.options
    extra = merge_extra(settings.extra, options.extra)
    params: dict[str, Any] = {
        "model": settings.model,
        "max_tokens": options.max_tokens or settings.max_tokens,
        "messages": draft_turns(request.messages, settings.raw_kinds),
        "stream": True,
    }
    system = "\n\n".join(clean_text(text) for text in request.system if text.strip())

    if system:
        params["system"] = system

    params |= _tools(request, settings, alone=bool(extra.pop("disable_parallel_tool_use", False)))
    params |= _thinking(request, settings, extra)
    container = container_of(request.messages, settings.raw_kinds)

    if container and "container" not in extra:
        params["container"] = container

    return params | with_betas(extra)


def with_betas(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Extras whose `betas` are what the SDK makes of them: a header, and a query that asks for the beta address."""
    betas = list(extra.get("betas") or ())
    sent = {key: value for key, value in extra.items() if key != "betas"}

    if not betas:
        return sent

    headers = dict(sent.get("extra_headers") or {})
    given = [name for name in headers.get("anthropic-beta", "").split(",") if name]
    headers["anthropic-beta"] = ",".join(dict.fromkeys([*given, *betas]))

    return {**sent, "extra_headers": headers, "extra_query": {"beta": "true", **(sent.get("extra_query") or {})}}


def encode_tool(tool: ToolDefinition) -> dict[str, Any]:
    """One tool; empty `properties` and `required` are left out (ANT-3)."""
    schema: dict[str, Any] = {"type": "object", **clean_json(tool.input_schema())}
    kept = {key: value for key, value in schema.items() if value or key not in ("properties", "required")}

    return {"name": tool.name, "description": clean_text(tool.description), "input_schema": kept}


def _tools(request: ModelRequest, settings: Settings, *, alone: bool) -> dict[str, Any]:
    """The tools and the choice among them."""
    tools = [*copy.deepcopy(list(settings.server_tools)), *(encode_tool(tool) for tool in request.tools)]

    if not tools:
        return {}

    choice = request.options.tool_choice
    chosen = _tool_choice(choice, [str(tool.get("name")) for tool in tools])

    if alone and choice != "none":
        chosen = {**(chosen or {"type": "auto"}), "disable_parallel_tool_use": True}

    return {"tools": tools, **({"tool_choice": chosen} if chosen else {})}


def _tool_choice(wanted: str | None, names: Sequence[str]) -> dict[str, Any] | None:
    if wanted is None:
        return None

    if wanted in ("auto", "any", "none"):
        return {"type": wanted}

    if wanted not in names:
        raise ConfigurationError(
            f"tool_choice {wanted!r} is none of auto, none, any and no tool of this request ({', '.join(names)})"
        )

    return {"type": "tool", "name": wanted}


def _thinking(request: ModelRequest, settings: Settings, extra: dict[str, Any]) -> dict[str, Any]:
    """What the request says of reasoning and of the shape of its answer; betas it needs are added to the extras."""
    asked = settings.thinking if request.options.thinking is None else request.options.thinking
    thinking, effort, interleaved = read_thinking(asked)
    output = dict(extra.pop("output_config", None) or {})

    if effort is not None:
        output["effort"] = effort

    if request.output is not None:
        output["format"] = {"type": "json_schema", "schema": clean_json(dict(request.output.schema))}

    if interleaved:
        extra["betas"] = [*(extra.get("betas") or ()), INTERLEAVED]

    return {**({"thinking": thinking} if thinking else {}), **({"output_config": output} if output else {})}
