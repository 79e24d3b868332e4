"""What contents and parts of a request are, asked of any JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from simulacra.rules import Wire
from simulacra.rules.reading import JsonMap, is_blank, map_of, objects_in, text_of

PART_KINDS = frozenset(
    {
        "text",
        "inlineData",
        "fileData",
        "functionCall",
        "functionResponse",
        "executableCode",
        "codeExecutionResult",
        "toolCall",
        "toolResponse",
        "thoughtSignature",
    }
)
"""Keys of which a part has one: what it is."""
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
"""A function's name. Source: https://ai.google.dev/api/caching#FunctionDeclaration."""
SIGNATURE = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")


SKIPPED = "skip_thought_signature_validator"
"""Stands for the signature of a call that Gemini did not write. Source:
https://ai.google.dev/gemini-api/docs/thought-signatures."""
_GENERATION = re.compile(r"gemini-(\d+)")
_FIRST_STRICT = 3


def wants_signatures(wire: Wire) -> bool:
    """Whether the model refuses calls without a signature: Gemini 3 and later do."""
    found = _GENERATION.search(text_of(wire.get("model")))

    return found is not None and int(found[1]) >= _FIRST_STRICT


def unsigned_call(content: JsonMap) -> int | None:
    """The place of the first call of a content, if it carries no signature; only the first is signed (GM-01)."""
    for place, part in objects_in(content.get("parts")):
        if "functionCall" in part:
            return None if text_of(part.get("thoughtSignature")) else place

    return None


def contents_of(wire: Wire) -> Iterator[tuple[int, JsonMap]]:
    return objects_in(wire.get("contents"))


def parts_in(wire: Wire) -> Iterator[tuple[int, JsonMap, int, JsonMap]]:
    """Every part of every content: the content's place, the content, the part's place, the part."""
    for at, content in contents_of(wire):
        for place, part in objects_in(content.get("parts")):
            yield at, content, place, part


def is_empty_text(part: JsonMap) -> bool:
    """Whether a part is a text that says nothing; one that carries a signature says enough (GOO-5)."""
    return "text" in part and is_blank(part.get("text")) and not text_of(part.get("thoughtSignature"))


def calls_of(content: JsonMap) -> list[tuple[int, JsonMap]]:
    return _named(content, "functionCall")


def responses_of(content: JsonMap) -> list[tuple[int, JsonMap]]:
    return _named(content, "functionResponse")


def answers(call: JsonMap, response: JsonMap) -> bool:
    """Whether a response is that of a call: by id where both have one, else by name."""
    given, told = call.get("id"), response.get("id")

    return given == told if given and told else call.get("name") == response.get("name")


def declared(wire: Wire) -> Iterator[tuple[tuple[str | int, ...], JsonMap]]:
    """Every declared function with its path."""
    for at, tool in objects_in(wire.get("tools")):
        for place, function in objects_in(tool.get("functionDeclarations")):
            yield ("tools", at, "functionDeclarations", place), function


def _named(content: JsonMap, key: str) -> list[tuple[int, JsonMap]]:
    parts: Any = content.get("parts")

    return [(place, map_of(part[key])) for place, part in objects_in(parts) if key in part]
