"""A model request in the form of the Responses API, one part for one part. Pure; nothing stored is changed.

What the API has no word for is written as a `foreign` item or part; what it would refuse is the affair of `rules`.
Beside the body's fields a draft holds the SDK's own options, so that whoever looks at it sees everything (RX-6).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulacra.cleaning import clean_json, clean_text
from simulacra.errors import ConfigurationError
from simulacra.messages import (
    Content,
    MediaContent,
    Message,
    RawContent,
    TextContent,
    ThinkingContent,
    ToolContent,
    ToolResultContent,
)
from simulacra.provider import ModelRequest, RequestOptions
from simulacra.schema import ToolDefinition
from simulacra.wire import EncodedOnce, merge_extra, placeholder_text, strict_json
from simulacra_openai.presets import OPENAI
from simulacra_openai.responses.marks import FOREIGN, ITEM, KIND, PART
from simulacra_openai.responses.media import input_part
from simulacra_openai.schemas import encode_output, tool_encoder

_CHOICES = {"auto": "auto", "none": "none", "any": "required"}
_THINKING_KEYS = frozenset({"enable", "budget_tokens", "effort", "summary"})
_EFFORT_BUDGETS = ((2_048, "low"), (8_192, "medium"))
"""Up to how many tokens of reasoning an effort is meant; a larger budget is `high`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a provider adds to each request.

    Args:
        model: The model asked for.
        max_tokens: Most tokens of a reply, unless the request says otherwise.
        strict: Whether tools are strict; `None` decides per tool.
        store: Whether the service keeps the response; `None` leaves it to the service.
        built_in_tools: Tools that the service runs itself, as the API describes them.
        extra: Fields and SDK options that go out as they are.
    """

    model: str
    max_tokens: int | None = None
    strict: bool | None = None
    store: bool | None = None
    built_in_tools: Sequence[Mapping[str, Any]] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


def draft_request(request: ModelRequest, settings: Settings) -> dict[str, Any]:
    """The parameters as they stand: what the API would refuse is still in them.

    Raises:
        ConfigurationError: An option or a tool cannot be written down at all.
    """
    options = request.options
    params: dict[str, Any] = {
        "model": settings.model,
        "input": _joined([item for message in request.messages for item in _draft_once(message)]),
        "stream": True,
        "include": ["reasoning.encrypted_content"],
    }
    instructions = "\n\n".join(clean_text(text) for text in request.system if text.strip())
    limit = options.max_tokens or settings.max_tokens

    if instructions:
        params["instructions"] = instructions

    if settings.store is not None:
        params["store"] = settings.store

    if limit is not None:
        params["max_output_tokens"] = limit

    params |= _tools(request, settings)

    if request.output is not None:
        described = encode_output(request.output, OPENAI)["json_schema"]
        params["text"] = {"format": {"type": "json_schema", **described}}

    extra = merge_extra(settings.extra, options.extra)
    reasoning = {**_reasoning(options), **(extra.pop("reasoning", None) or {})}
    text = {**params.pop("text", {}), **(extra.pop("text", None) or {})}
    include = [*params["include"], *(name for name in extra.pop("include", ()) if name not in params["include"])]

    return {
        **params,
        "include": include,
        **({"reasoning": reasoning} if reasoning else {}),
        **({"text": text} if text else {}),
        **extra,
    }


def _draft(message: Message) -> list[dict[str, Any]]:
    blocks = message.content

    if len(blocks) == 1 and type(blocks[0]) is TextContent and not blocks[0].extended:
        return [{"role": message.role, "content": blocks[0].text}]

    return list(_user_items(blocks) if message.role == "user" else map(_own_item, blocks))


_draft_once = EncodedOnce(_draft)


def _joined(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbours that are parts of one message, as that message."""
    joined: list[dict[str, Any]] = []

    for item in items:
        last = joined[-1] if joined else {}

        if item.get("type") == "message" and last.get("type") == "message" and item.get("id") == last.get("id"):
            joined[-1] = {**last, "content": [*last["content"], *item["content"]]}
        else:
            joined.append(item)

    return joined


def _user_items(blocks: Sequence[Content]) -> Iterator[dict[str, Any]]:
    parts: list[dict[str, Any]] = []

    for block in blocks:
        if isinstance(block, ToolResultContent):
            if parts:
                yield {"role": "user", "content": parts}

            parts = []
            yield _output(block)
        else:
            parts.append(_part(block))

    if parts or not blocks:
        yield {"role": "user", "content": parts}


def _part(block: Content) -> dict[str, Any]:
    match block:
        case TextContent():
            return {"type": "input_text", "text": block.text}
        case MediaContent():
            part = input_part(block)
            shown = {"type": FOREIGN, "block": block.kind, "text": placeholder_text(block, str(part))}
            return shown if isinstance(part, str) else part
        case _:
            return {"type": FOREIGN, "block": block.type}


def _output(block: ToolResultContent) -> dict[str, Any]:
    texts = [part.text for part in block.content if isinstance(part, TextContent) and part.text.strip()]
    media = [_part(part) for part in block.content if isinstance(part, MediaContent)]
    text = "\n".join([block.result.model_dump_json(), *texts])
    output = [{"type": "input_text", "text": text}, *media] if media else text

    return {"type": "function_call_output", "call_id": block.tool_request_id, "output": output}


def _own_item(block: Content) -> dict[str, Any]:
    """What a block of a reply was, or what it would be."""
    told = (
        (block.extended or {}).get(KIND) if not isinstance(block, RawContent) and hasattr(block, "extended") else None
    )
    known: dict[str, Any] = told if isinstance(told, dict) else {}
    item = known.get(ITEM) if isinstance(known.get(ITEM), dict) else None

    match block:
        case TextContent() if item is not None:
            part = known.get(PART) or {"type": "output_text", "annotations": []}
            field_of_text = "refusal" if part.get("type") == "refusal" else "text"
            return _copy({**item, "content": [{**part, field_of_text: block.text}]})
        case TextContent():
            return {"role": "assistant", "content": block.text}
        case ThinkingContent() if item is not None:
            return _copy(item)
        case ToolContent():
            return _call(block, item)
        case RawContent():
            return _raw(block)
        case _:
            return {"type": FOREIGN, "block": block.type}


def _call(block: ToolContent, item: dict[str, Any] | None) -> dict[str, Any]:
    if item is not None and item.get("call_id") == block.tool_request_id and item.get("name") == block.tool:
        try:
            if json.loads(item["arguments"] or "{}") == block.params:
                return _copy(item)
        except (KeyError, TypeError, ValueError):
            pass

    arguments = strict_json(block.params).decode()

    return {"type": "function_call", "call_id": block.tool_request_id, "name": block.tool, "arguments": arguments}


def _copy(item: dict[str, Any]) -> dict[str, Any]:
    """What is stored is never handed out."""
    copied: dict[str, Any] = clean_json(item)

    return copied


def _raw(block: RawContent) -> dict[str, Any]:
    try:
        value = json.loads(block.data) if block.model_kind == KIND else None
    except (ValueError, RecursionError):
        value = None

    if isinstance(value, dict) and isinstance(value.get("type"), str):
        return value

    return {"type": FOREIGN, "block": f"a part of {block.model_kind}"}


def _tools(request: ModelRequest, settings: Settings) -> dict[str, Any]:
    functions = tool_encoder(OPENAI, settings.strict).encode(request.tools)
    tools = [*map(dict, settings.built_in_tools), *({"type": "function", **one["function"]} for one in functions)]

    if not tools:
        return {}

    return {"tools": tools, "tool_choice": _tool_choice(request.options.tool_choice, request.tools)}


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

    return {"type": "function", "name": wanted}


def _reasoning(options: RequestOptions) -> dict[str, Any]:
    """What is asked of reasoning; a budget becomes the nearest effort, `enable` asks for summaries of it."""
    thinking = options.thinking

    if not thinking:
        return {}

    unknown = sorted(thinking.keys() - _THINKING_KEYS)

    if unknown:
        known = ", ".join(sorted(_THINKING_KEYS))
        raise ConfigurationError(f"thinking option {unknown[0]!r} is unknown to this provider; it knows {known}")

    if thinking.get("enable") is False:
        return {}

    summary = thinking.get("summary", "auto" if thinking.get("enable") else None)
    effort, budget = thinking.get("effort"), thinking.get("budget_tokens")

    if effort is None and budget is not None:
        if isinstance(budget, bool) or not isinstance(budget, int | float) or not budget > 0:
            raise ConfigurationError(f"thinking option 'budget_tokens' must be a positive number, not {budget!r}")

        effort = next((name for most, name in _EFFORT_BUDGETS if budget <= most), "high")

    return {key: value for key, value in (("effort", effort), ("summary", summary)) if value is not None}
