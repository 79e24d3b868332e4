"""What items and parts of a request are, asked of any JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from simulacra.messages import MediaKind
from simulacra.rules.reading import JsonMap, text_of

MEDIA: Mapping[str, MediaKind] = {"input_image": "image", "input_file": "file"}
PREFIXES: Mapping[str, str] = {"message": "msg", "function_call": "fc", "reasoning": "rs"}
"""How the ids of OpenAI's own items begin, by the item's type."""
MAX_ITEM_ID = 64
_INPUTS = frozenset({"input_text", *MEDIA})
_OUTPUTS = frozenset({"output_text", "refusal"})
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.-]+)*;base64,[A-Za-z0-9+/]", re.IGNORECASE)


def kind_of(item: JsonMap) -> str:
    """An item's type; one that has a role and no type is a message."""
    kind = item.get("type")

    if kind is None and "role" in item:
        return "message"

    return text_of(kind)


def part_types(role: Any) -> frozenset[str]:
    """The types of parts that a message of this role may have."""
    return _OUTPUTS if role == "assistant" else _INPUTS


def item_id_fits(item: JsonMap) -> bool:
    """Whether an item's id is one that the API gave: of its kind and not too long; none is fine where none is needed."""
    name = item.get("id")

    if name is None:
        return item.get("type") != "reasoning"

    prefix = PREFIXES.get(text_of(item.get("type")), "")

    return isinstance(name, str) and name.startswith(prefix) and 0 < len(name) <= MAX_ITEM_ID


def media_fault(part: JsonMap) -> str:
    """What is wrong with a part that carries media; empty when nothing is, and for other parts."""
    match part.get("type"):
        case "input_image":
            if text_of(part.get("file_id")):
                return ""

            url = text_of(part.get("image_url"))
            found = _DATA_URL.match(url[:300])
            is_image = found is not None and found[1].lower().startswith("image/")

            return "" if is_image or url.startswith(("https://", "http://")) else "it has no address and no image data"
        case "input_file":
            if text_of(part.get("file_id")) or text_of(part.get("file_url")):
                return ""

            has_data = _DATA_URL.match(text_of(part.get("file_data"))[:300]) is not None

            return "" if has_data and text_of(part.get("filename")) else "it has no filename or no data in base64"
        case _:
            return ""
