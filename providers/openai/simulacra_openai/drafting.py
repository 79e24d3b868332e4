"""A model request in the naive form: everything written down, nothing put right yet. Pure.

Beside the body's fields a draft holds the SDK's own options (`extra_headers`, `extra_query`, `extra_body`,
`timeout`), so that whoever looks at it, or changes it, sees everything that decides what is sent (RX-6).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from simulacra.cleaning import clean_text
from simulacra.errors import ConfigurationError
from simulacra.messages import Message
from simulacra.provider import ModelRequest, RequestOptions
from simulacra.schema import ToolDefinition
from simulacra.wire import merge_extra
from simulacra_openai.message_drafts import Drafter
from simulacra_openai.presets import OPENAI, Preset
from simulacra_openai.schemas import encode_output, tool_encoder

_CHOICES = {"auto": "auto", "none": "none", "any": "required"}
_THINKING_KEYS = frozenset({"enable", "budget_tokens", "effort"})
_EFFORT_BUDGETS = ((2_048, "low"), (8_192, "medium"))
"""Up to how many tokens of reasoning an effort is meant; a larger budget is `high`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a provider adds to each request.

    Args:
        model: The model asked for.
        max_tokens: Most tokens of a reply, unless the request says otherwise.
        strict: Whether tools are strict; `None` decides per tool.
        system_role: Role of the system prompt; `None` decides by preset and model.
        preset: How the service differs from OpenAI.
        raw_kinds: Kinds of raw parts that are sent back.
        media_types: Media types the model takes; `None` when unknown.
        extra: Fields and SDK options that go out as they are.
    """

    model: str
    max_tokens: int | None = None
    strict: bool | None = None
    system_role: str | None = None
    preset: Preset = OPENAI
    raw_kinds: frozenset[str] = OPENAI.raw_kinds
    media_types: frozenset[str] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)


def draft_request(request: ModelRequest, settings: Settings) -> dict[str, Any]:
    """The request as it would be written by someone who knows the wire, but not what services refuse.

    Raises:
        ConfigurationError: An option or a tool cannot be written down at all.
    """
    options = request.options
    params: dict[str, Any] = {
        "model": settings.model,
        "messages": _system(request.system, settings) + draft_messages(request.messages, settings),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    limit = options.max_tokens or settings.max_tokens

    if limit is not None:
        params[settings.preset.limit_field] = limit

    if request.tools:
        params["tools"] = tool_encoder(settings.preset, settings.strict).encode(request.tools)
        params["tool_choice"] = _tool_choice(options.tool_choice, request.tools)

    if request.output is not None:
        params["response_format"] = encode_output(request.output, settings.preset)

    extra = merge_extra(settings.extra, options.extra)
    effort = _effort(options)

    if effort is not None:
        extra["reasoning_effort"] = effort

    return params | extra


def draft_messages(messages: Sequence[Message], settings: Settings) -> list[dict[str, Any]]:
    """The history in the naive form."""
    draft = drafter(settings.preset, settings.raw_kinds, settings.media_types).draft

    return [sent for message in messages for sent in draft(message)]


@lru_cache(maxsize=64)
def drafter(preset: Preset, raw_kinds: frozenset[str], media_types: frozenset[str] | None) -> Drafter:
    """What writes messages for one kind of service."""
    return Drafter(preset, raw_kinds, media_types)


def default_system_role(model: str) -> str:
    """`developer` for the `o1`, `o3`, ... models, `system` for all others, fine-tunes included (OAI-2)."""
    return "developer" if re.match(r"o\d", model) else "system"


def _system(texts: Sequence[str], settings: Settings) -> list[dict[str, Any]]:
    text = "\n\n".join(clean_text(text) for text in texts if text.strip())
    role = settings.system_role or settings.preset.system_role or default_system_role(settings.model)

    return [{"role": role, "content": text}] if text else []


def _tool_choice(wanted: str | None, tools: Sequence[ToolDefinition]) -> Any:
    if wanted is None:
        return "auto"

    if wanted in _CHOICES:
        return _CHOICES[wanted]

    names = [tool.name for tool in tools]

    if wanted not in names:
        raise ConfigurationError(
            f"tool_choice {wanted!r} is none of auto, none, any and no tool of this request ({', '.join(names)})"
        )

    return {"type": "function", "function": {"name": wanted}}


def _effort(options: RequestOptions) -> str | None:
    """The reasoning effort asked for; a budget is turned into the nearest effort, `enable` alone changes nothing."""
    thinking = options.thinking

    if not thinking:
        return None

    unknown = thinking.keys() - _THINKING_KEYS

    if unknown:
        known = ", ".join(sorted(_THINKING_KEYS))
        raise ConfigurationError(f"thinking option {min(unknown)!r} is unknown to this provider; it knows {known}")

    effort, budget = thinking.get("effort"), thinking.get("budget_tokens")

    if effort is not None and not isinstance(effort, str):
        raise ConfigurationError(f"thinking option 'effort' must be text, not {effort!r}")

    if thinking.get("enable") is False:
        return None

    if effort is not None or budget is None:
        return effort

    if isinstance(budget, bool) or not isinstance(budget, int | float) or not budget > 0:
        raise ConfigurationError(f"thinking option 'budget_tokens' must be a positive number, not {budget!r}")

    return next((name for most, name in _EFFORT_BUDGETS if budget <= most), "high")
