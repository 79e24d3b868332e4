"""A model request in Gemini's form, one part for one part. Pure; nothing stored is changed.

What the API has no word for is written as a `foreign` part; what it would refuse is the affair of `rules`. Beside the
body's fields a draft holds `model` and the SDK's own options, so that whoever looks at it sees everything (RX-6).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from simulacra.cleaning import clean_json, clean_text
from simulacra.errors import ConfigurationError
from simulacra.messages import (
    AssistantMessage,
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
from simulacra.rules.reading import map_of
from simulacra.schema import ToolDefinition
from simulacra.wire import EncodedOnce, merge_extra, placeholder_text
from simulacra.wire.sdk_options import SDK_OPTIONS
from simulacra_google.marks import CALL, FOREIGN, KIND, MADE_ID, SIGNATURE, SIGNED_FOR
from simulacra_google.media import media_part
from simulacra_google.reading import PART_KINDS
from simulacra_google.schema import gemini_schema, output_schema

_MODES = {"auto": "AUTO", "none": "NONE", "any": "ANY"}
_THINKING_KEYS = {"budget_tokens": "thinkingBudget", "level": "thinkingLevel", "include_thoughts": "includeThoughts"}
_GENERATION = re.compile(r"gemini-\d+(\.\d+)?-(flash-lite|[a-z]+)")
METADATA = frozenset({"groundingMetadata", "citationMetadata", "urlContextMetadata"})
"""What is said of a whole reply."""
TOP_FIELDS = frozenset({"safetySettings", "cachedContent", "labels", "serviceTier", "store", "modelArmorConfig"})
"""Options that stand beside `generationConfig`; all others stand in it."""
_Own: TypeAlias = TextContent | MediaContent | ThinkingContent | ToolContent


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a provider adds to each request.

    Args:
        model: The model asked for.
        max_tokens: Most tokens of a reply, unless the request says otherwise.
        thinking: Reasoning, unless the request says otherwise.
        built_in_tools: Tools that the service runs itself, such as `{"googleSearch": {}}`.
        extra: Fields and SDK options that go out as they are.
    """

    model: str
    max_tokens: int | None = None
    thinking: Mapping[str, Any] | None = None
    built_in_tools: Sequence[Mapping[str, Any]] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


def draft_request(request: ModelRequest, settings: Settings) -> dict[str, Any]:
    """The parameters as they stand: what the API would refuse is still in them.

    Raises:
        ConfigurationError: An option or a tool cannot be written down at all.
    """
    options = request.options
    extra = wire_fields(merge_extra(settings.extra, options.extra))
    params: dict[str, Any] = {"model": settings.model, "contents": _contents(request.messages, settings.model)}
    system = "\n\n".join(clean_text(text) for text in request.system if text.strip())

    if system:
        params["systemInstruction"] = {"parts": [{"text": system}]}

    params |= _tools(request, settings)
    generation = _generation(request, settings, extra)

    if generation:
        params["generationConfig"] = generation

    return params | extra


def wire_fields(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Options under the names of the wire; those of the SDK's surface, such as `top_p`, are taken, too.

    Args:
        extra: Options of the request, its `generationConfig` and the SDK.
    """
    return {name if name in SDK_OPTIONS else _camel(name): value for name, value in extra.items()}


def _camel(name: str) -> str:
    first, *others = name.split("_")

    return first + "".join(word.capitalize() for word in others)


def _contents(messages: Sequence[Message], model: str) -> list[dict[str, Any]]:
    """The history; signatures of another model stay behind."""
    drafted = [_draft_once(message) for message in messages]
    generation = _generation_of(model)

    for at in _unpaired(messages):
        drafted[at] = _draft_with_ids(messages[at])

    for at, message in enumerate(messages):
        if isinstance(message, AssistantMessage) and _is_of_another(_signer(message), model, generation):
            drafted[at] = _unsigned(drafted[at])

    return drafted


def _unpaired(messages: Sequence[Message]) -> list[int]:
    """The places of messages whose calls without a vendor's id are not answered one by one and in order.

    Without ids only their order pairs calls and results, so those ids that were made here have to do it (GM-R4).
    """
    found: list[int] = []
    places: list[int] = []
    called: tuple[str, ...] = ()
    told: tuple[str, ...] = ()

    for at, message in enumerate(messages):
        if message.role == "assistant":
            found += places if called != told else []
            places, called, told = [at], _made_ids(message), ()
        else:
            places.append(at)
            told += _made_ids(message)

    return found + (places if called != told else [])


def _ids_made_for(message: Message) -> tuple[str, ...]:
    ids = [block.tool_request_id for block in message.content if isinstance(block, ToolContent | ToolResultContent)]

    return tuple(one for one in ids if one.startswith(MADE_ID))


_made_ids = EncodedOnce(_ids_made_for)


def _generation_of(model: str) -> str:
    """What makes a model one that reads its own signatures, such as `gemini-2.5-flash`; aliases do not tell."""
    found = _GENERATION.search(model)

    return found[0] if found else ""


def _signer_of(message: Message) -> tuple[str, str]:
    """The model that was asked when a reply was signed, and the generation of the one that answered; empty if unknown."""
    marks = (block.extended or {} for block in message.content if isinstance(block, _Own))
    asked = next((mark[SIGNED_FOR] for mark in marks if isinstance(mark.get(SIGNED_FOR), str)), "")
    answered = message.model if isinstance(message, AssistantMessage) else None

    return asked, _generation_of(answered or "")


_signer = EncodedOnce(_signer_of)


def _is_of_another(signer: tuple[str, str], model: str, generation: str) -> bool:
    """Whether signatures are of another model than the one that is asked now, as far as names tell."""
    asked, answered = signer

    if asked:
        return asked != model and _generation_of(asked) != generation

    return "" not in (answered, generation) and answered != generation


def _unsigned(content: dict[str, Any]) -> dict[str, Any]:
    if not any("thoughtSignature" in part for part in content["parts"]):
        return content

    parts = [{name: value for name, value in part.items() if name != "thoughtSignature"} for part in content["parts"]]

    return {**content, "parts": parts}


def _draft(message: Message, *, hides: str = MADE_ID) -> dict[str, Any]:
    is_reply = message.role == "assistant"
    parts = [part for block in message.content for part in _parts(block, is_reply=is_reply, hides=hides)]

    return {"role": "model" if is_reply else "user", "parts": parts}


_draft_once = EncodedOnce(_draft)
_draft_with_ids = EncodedOnce(partial(_draft, hides="\0"))


def _parts(block: Content, *, is_reply: bool, hides: str) -> list[dict[str, Any]]:
    match block:
        case TextContent():
            return [{"text": block.text, **(_beside(block) if is_reply else {})}]
        case ThinkingContent():
            return [_thought(block)]
        case ToolContent():
            return [_call(block, hides)]
        case ToolResultContent():
            return _response(block, hides)
        case MediaContent():
            return [{**_media(block), **(_beside(block) if is_reply else {})}]
        case RawContent():
            return _raw(block)
        case _:
            return [{FOREIGN: block.type}]


def _told(block: _Own) -> dict[str, Any]:
    """What Gemini said of a part beside what every vendor knows of it."""
    told = (block.extended or {}).get(KIND)

    return clean_json(told) if isinstance(told, dict) else {}


def _beside(block: _Own) -> dict[str, Any]:
    """The further fields of a part, its signature among them."""
    signature = (block.extended or {}).get(SIGNATURE)
    signed = {"thoughtSignature": signature} if isinstance(signature, str) and signature else {}
    told = _told(block)

    return {**{key: value for key, value in told.items() if key != CALL}, **signed}


def _thought(block: ThinkingContent) -> dict[str, Any]:
    beside = _beside(block)

    return {"text": block.thought, "thought": True, **beside} if beside else {FOREIGN: "a thought of another vendor"}


def _call(block: ToolContent, hides: str) -> dict[str, Any]:
    called = {**_named(block, hides), "args": clean_json(block.params), **map_of(_told(block).get(CALL))}

    return {"functionCall": called, **_beside(block)}


def _named(block: ToolContent | ToolResultContent, hides: str) -> dict[str, Any]:
    """Name and id of a call; an id that the vendor did not give is not told, as a rule."""
    own = {} if block.tool_request_id.startswith(hides) else {"id": block.tool_request_id}

    return {**own, "name": block.tool}


def _response(block: ToolResultContent, hides: str) -> list[dict[str, Any]]:
    """What a tool returned is data: it goes under one key, as text where the API would read a reference in it (GM-R6)."""
    key = "output" if block.result.result else "error"
    texts = [part.text for part in block.content if isinstance(part, TextContent) and part.text.strip()]
    told = clean_json(block.result.model_dump())
    response: dict[str, Any] = {key: json.dumps(told, ensure_ascii=False) if _refers(told) else told}

    if texts:
        response["texts"] = texts

    answer = {**_named(block, hides), "response": response}
    media = [_media(part) for part in block.content if isinstance(part, MediaContent)]

    return [{"functionResponse": answer}, *media]


def _refers(value: Any) -> bool:
    """Whether a JSON value has a key by which the API looks for media beside it.

    Source: https://ai.google.dev/gemini-api/docs/function-calling#multimodal, where `{"$ref": name}` does.
    """
    waiting = [value]

    while waiting:
        found = waiting.pop()

        if isinstance(found, dict):
            if "$ref" in found:
                return True

            waiting += found.values()
        elif isinstance(found, list):
            waiting += found

    return False


def _media(media: MediaContent) -> dict[str, Any]:
    part = media_part(media)

    return {FOREIGN: media.kind, "text": placeholder_text(media, part)} if isinstance(part, str) else part


def _raw(block: RawContent) -> list[dict[str, Any]]:
    """The vendor's own part; what it said of a whole reply, such as its sources, is no part of it."""
    try:
        value = json.loads(block.data) if block.model_kind == KIND else None
    except (ValueError, RecursionError):
        value = None

    if isinstance(value, dict) and value.keys() & METADATA:
        return []

    if isinstance(value, dict) and value.keys() & PART_KINDS:
        return [value]

    return [{FOREIGN: f"a part of {block.model_kind}"}]


def _tools(request: ModelRequest, settings: Settings) -> dict[str, Any]:
    tools = [dict(tool) for tool in settings.built_in_tools]
    declared = [_declared(tool) for tool in request.tools]

    if declared:
        tools.append({"functionDeclarations": declared})

    if not tools:
        return {}

    choice = request.options.tool_choice
    names = [tool.name for tool in request.tools]

    if choice is None or not declared:
        return {"tools": tools}

    if choice not in _MODES and choice not in names:
        raise ConfigurationError(
            f"tool_choice {choice!r} is none of auto, none, any and no tool of this request ({', '.join(names)})"
        )

    chosen = {"mode": _MODES[choice]} if choice in _MODES else {"mode": "ANY", "allowedFunctionNames": [choice]}

    return {"tools": tools, "toolConfig": {"functionCallingConfig": chosen}}


def _declared(tool: ToolDefinition) -> dict[str, Any]:
    """A function; one without arguments has no parameters, since some models refuse an object without properties."""
    schema = gemini_schema(tool.input_schema(), what=f"tool {tool.name!r}")
    parameters = {"parameters": clean_json(schema)} if schema.get("properties") else {}

    return {"name": tool.name, "description": clean_text(tool.description), **parameters}


def _generation(request: ModelRequest, settings: Settings, extra: dict[str, Any]) -> dict[str, Any]:
    """What stands in `generationConfig`; options that belong there are taken out of the extras."""
    options = request.options
    generation = dict(extra.pop("generationConfig", None) or {})
    generation |= {name: extra.pop(name) for name in sorted(extra.keys() - TOP_FIELDS - SDK_OPTIONS)}
    limit = options.max_tokens or settings.max_tokens
    thinking = _thinking(options, settings)

    if limit is not None:
        generation["maxOutputTokens"] = limit

    if thinking:
        generation["thinkingConfig"] = thinking

    if request.output is not None:
        schema = output_schema(request.output.schema, what="the output")
        generation |= {"responseMimeType": "application/json", "responseJsonSchema": clean_json(schema)}

    return generation


def _thinking(options: RequestOptions, settings: Settings) -> dict[str, Any]:
    """The thinking that is asked for: a budget, a level, or `enable` for thoughts that are shown."""
    asked = settings.thinking if options.thinking is None else options.thinking

    if not asked:
        return {}

    unknown = sorted(asked.keys() - {*_THINKING_KEYS, *_THINKING_KEYS.values(), "enable"})

    if unknown:
        known = ", ".join(["enable", *_THINKING_KEYS])
        raise ConfigurationError(f"thinking option {unknown[0]!r} is unknown to this provider; it knows {known}")

    shown = {"includeThoughts": bool(asked["enable"])} if asked.get("enable") is not None else {}

    return shown | {_THINKING_KEYS.get(key, key): value for key, value in asked.items() if key != "enable"}
