"""Messages as the Messages API wants them. Pure; nothing stored is changed.

Each message becomes blocks, one for one; what the API would refuse in them is the affair of `rules`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Any

from simulacra.cleaning import clean_json
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
from simulacra.rules.reading import text_of
from simulacra.wire import EncodedOnce, placeholder_text
from simulacra_anthropic.blocks import BLOCK_FIELDS
from simulacra_anthropic.many_images import check_images
from simulacra_anthropic.media import media_block
from simulacra_anthropic.repairs import FOREIGN, Turn, compact

_CITATION = re.compile(r"(char|page|content_block|web_search_result|search_result)_location")

_WRITER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_NAMED_BY = {
    "text": "text",
    "tool_use": "id",
    "tool_result": "tool_use_id",
    "server_tool_use": "id",
    "mcp_tool_use": "id",
}
"""The field without which a block of this type is none."""


def json_text(value: Any) -> str:
    """A value as compact, strict JSON. The values of history hold nothing that JSON cannot write (TL-R5)."""
    return _WRITER.encode(value)


def draft_turns(messages: Sequence[Message], raw_kinds: frozenset[str]) -> list[Turn]:
    """The messages in the API's form, block for block; what the API would refuse is still in them.

    Args:
        messages: The history, the prompt last.
        raw_kinds: Kinds of raw parts that the service understands.
    """
    return _drafter(raw_kinds).each(messages)


@lru_cache(maxsize=16)
def _drafter(raw_kinds: frozenset[str]) -> EncodedOnce[Turn]:
    """Writes each message once: nobody may change what it wrote."""
    return EncodedOnce(partial(_turn, raw_kinds=raw_kinds))


def check_prompt(messages: Sequence[Message]) -> None:
    """Refuse media of the prompt that the model cannot be shown: only the user can say what to do without it.

    Raises:
        ConfigurationError: The prompt holds media that the API does not take.
    """
    for block in messages[-1].content if messages and messages[-1].role == "user" else ():
        if isinstance(block, MediaContent) and isinstance(reason := media_block(block), str):
            raise ConfigurationError(f"the prompt's {block.kind} cannot be sent: {reason}")

    check_images(messages[-1].content if messages else ())


def container_of(messages: Sequence[Message], raw_kinds: frozenset[str]) -> str | None:
    """The container that the last reply's code waits in for the results that come now."""
    if len(messages) < 2 or not any(isinstance(block, ToolResultContent) for block in messages[-1].content):
        return None

    for block in messages[-2].content:
        if isinstance(block, RawContent) and block.model_kind in raw_kinds:
            fields = _raw_object(block)

            if "type" not in fields and isinstance(fields.get("container"), dict):
                return str(fields["container"].get("id"))

    return None


def _turn(message: Message, raw_kinds: frozenset[str]) -> Turn:
    blocks = message.content

    if len(blocks) == 1 and type(blocks[0]) is TextContent and not blocks[0].extended:
        return {"role": message.role, "content": blocks[0].text}

    own = frozenset() if message.role == "assistant" and _is_foreign(blocks, raw_kinds) else raw_kinds
    drafted = [_block(block, own, message.role) for block in blocks]

    return compact({"role": message.role, "content": [block for block in drafted if block is not None]})


def _is_foreign(blocks: Iterable[Content], raw_kinds: frozenset[str]) -> bool:
    """Whether another vendor wrote a reply: its raw parts say so, and its signatures are then no good here (W-PRV-3)."""
    return any(isinstance(block, RawContent) and block.model_kind not in raw_kinds for block in blocks)


def _block(block: Content, own: frozenset[str], role: str) -> dict[str, Any] | None:
    match block:
        case TextContent():
            reply = {**_fields(block, own), **_citations(block)} if role == "assistant" else {}
            return {"type": "text", "text": block.text, **reply}
        case ThinkingContent():
            return _thinking(block, own)
        case ToolContent():
            call: dict[str, Any] = {"type": "tool_use", "id": block.tool_request_id, "name": block.tool}
            call["input"] = clean_json(block.params)  # listeners may change a request, never what is stored
            return {**call, **_fields(block, own)}
        case MediaContent():
            return _media(block)
        case ToolResultContent():
            return _result(block)
        case RawContent():
            return _raw(block, own)
        case _:
            return {"type": FOREIGN, "block": block.type}


def _thinking(block: ThinkingContent, own: frozenset[str]) -> dict[str, Any]:
    """A thought with what the API signed it with; what another vendor, or nobody, signed has no signature here."""
    extended = (block.extended or {}) if own else {}

    if block.redacted:
        return {"type": "redacted_thinking", "data": text_of(extended.get("data")), **_fields(block, own)}

    signature = text_of(extended.get("signature"))

    return {"type": "thinking", "thinking": block.thought, "signature": signature, **_fields(block, own)}


def _fields(block: TextContent | ThinkingContent | ToolContent, own: frozenset[str]) -> dict[str, Any]:
    """What the API said of a block beyond the engine's words (`caller` of a call, for example)."""
    fields = (block.extended or {}).get(BLOCK_FIELDS) if own else None

    return clean_json(fields) if isinstance(fields, dict) else {}


def _citations(block: TextContent) -> dict[str, Any]:
    cited = (block.extended or {}).get("citations")
    places = [clean_json(place) for place in cited if _is_citation(place)] if isinstance(cited, list) else []

    return {"citations": places} if places else {}


def _is_citation(place: Any) -> bool:
    return isinstance(place, dict) and _CITATION.fullmatch(str(place.get("type"))) is not None


def _result(block: ToolResultContent) -> dict[str, Any]:
    result = block.result
    said: list[dict[str, Any]] = [{"type": "text", "text": json_text(result.model_dump())}]
    said += [
        _media(part) if isinstance(part, MediaContent) else {"type": "text", "text": part.text}
        for part in block.content
    ]
    encoded: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": block.tool_request_id,
        "content": said[0]["text"] if len(said) == 1 else said,
    }

    return encoded if result.result else {**encoded, "is_error": True}


def _media(media: MediaContent) -> dict[str, Any]:
    block = media_block(media)

    if isinstance(block, str):
        return {"type": FOREIGN, "block": f"{media.kind} {media.media_type}", "text": placeholder_text(media, block)}

    return block


def _raw(block: RawContent, own: frozenset[str]) -> dict[str, Any] | None:
    """The vendor's own block; fields of a whole message are no part of its content."""
    if block.model_kind not in own:
        return {"type": FOREIGN, "block": f"a part of {block.model_kind}"}

    value = _raw_object(block)
    kind = value.get("type")

    if not isinstance(kind, str):
        return None if value else {"type": FOREIGN, "block": "a part that cannot be read"}

    if isinstance(value.get(_NAMED_BY.get(kind, "type")), str):
        return value

    return {"type": FOREIGN, "block": f"{kind} without its {_NAMED_BY[kind]}"}


def _raw_object(block: RawContent) -> dict[str, Any]:
    """The vendor's part; empty when the text cannot be read as one."""
    try:
        value = json.loads(block.data)
    except (ValueError, RecursionError):
        return {}

    return value if isinstance(value, dict) else {}
