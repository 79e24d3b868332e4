"""Media as blocks of a message, or the reason why they are none (MU-R1)."""

from __future__ import annotations

import base64
import re
from typing import Any

from simulacra.messages import MediaContent, MediaKind
from simulacra.rules.reading import JsonMap, is_blank, map_of, text_of
from simulacra.wire import image_size_of, image_type_of, normal_media_type, placeholder_text

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
PDF = "application/pdf"
MEDIA_TYPES = IMAGE_TYPES | {PDF, "text/plain"}
_BASE64_START = re.compile(r"[A-Za-z0-9+/]+={0,2}")
MAX_IMAGE = 10 * 1024 * 1024
"""Most characters of an image in base64; what counts is the text, not the bytes.

Source: refusals of the API (anthropics/claude-code#12167, with the limit of then) and kolega-ai/kolega-code#354.
"""
MAX_SIDE = 8000
"""Most pixels of an image's side. Source: https://platform.claude.com/docs/en/build-with-claude/vision."""
_SHOWN = 64
"""How many characters of data are looked at: it may be megabytes."""
_SHOWN_OF_JPEG = 400_000
"""The same, where the size stands behind the metadata."""
_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/x-yaml"})


def media_block(media: MediaContent) -> dict[str, Any] | str:
    """The block to send, or the reason why there is none.

    Args:
        media: What is to be sent.
    """
    media_type = normal_media_type(media.media_type)

    if media.kind in ("audio", "video"):
        return f"the Messages API takes no {media.kind}"

    if media.kind == "image":
        media_type = image_type_of(media.data or b"") or media_type

        if media.file_id is None and media_type not in IMAGE_TYPES:
            return f"images must be {', '.join(sorted(IMAGE_TYPES))}, not {media_type}"

        if media.data is not None and (fault := _size_fault(media.data, -(-len(media.data) // 3) * 4)):
            return fault

        return {"type": "image", "source": _source(media, media_type)}

    source = _document_source(media, media_type)

    if isinstance(source, str):
        return source

    return {"type": "document", "source": source, **({"title": media.name} if media.name else {})}


def placeholder(media: MediaContent, reason: str) -> dict[str, Any]:
    """A text block that stands for media of history that the model cannot be shown."""
    return {"type": "text", "text": placeholder_text(media, reason)}


def media_fault(block: JsonMap) -> str:
    """What is wrong with a block that carries media; empty when nothing is, and for other blocks.

    Args:
        block: A block as the API takes it.
    """
    kind, source = block.get("type"), map_of(block.get("source"))

    if kind not in ("image", "document"):
        return ""

    match source.get("type"):
        case "base64":
            return _data_fault(kind, text_of(source.get("media_type")), text_of(source.get("data")))
        case "url":
            return "" if text_of(source.get("url")).startswith(("https://", "http://")) else "it has no address"
        case "file":
            return "" if text_of(source.get("file_id")) else "it has no file_id"
        case "text" if kind == "document":
            return "it is empty" if is_blank(source.get("data")) else ""
        case "content" if kind == "document":
            return ""
        case other:
            return f"it has no source of type {other!r}"


def longest_side(block: JsonMap) -> int:
    """Pixels of the longer side of an image in base64; 0 where that cannot be seen.

    Args:
        block: A block as the API takes it.
    """
    source = map_of(block.get("source"))

    if source.get("type") != "base64":
        return 0

    is_jpeg = source.get("media_type") == "image/jpeg"

    return max(image_size_of(_decoded(text_of(source.get("data")), _SHOWN_OF_JPEG if is_jpeg else _SHOWN)) or (0,))


def placeholder_of(block: JsonMap, reason: str) -> JsonMap:
    """A text block that stands for a block of media that the API does not take."""
    kind: MediaKind = "image" if block.get("type") == "image" else "file"
    media_type = text_of(map_of(block.get("source")).get("media_type")) or "of unknown type"
    named = MediaContent(kind=kind, media_type=media_type, data=b"", name=text_of(block.get("title")) or None)

    return placeholder(named, reason)


def _data_fault(kind: str, media_type: str, data: str) -> str:
    if not _BASE64_START.fullmatch(data[:_SHOWN]):
        return "its data is not in base64"

    if kind == "document":
        return "" if media_type == PDF else f"documents in base64 must be {PDF}, not {media_type}"

    if media_type not in IMAGE_TYPES:
        return f"images must be {', '.join(sorted(IMAGE_TYPES))}, not {media_type}"

    start = _decoded(data, _SHOWN_OF_JPEG if media_type == "image/jpeg" else _SHOWN)
    shown = image_type_of(start)

    return (
        _size_fault(start, len(data))
        if shown in (None, media_type)
        else f"it is called {media_type}, but it is {shown}"
    )


def _decoded(data: str, length: int) -> bytes:
    """The first bytes of a text in base64; none when it is no such text."""
    start = data[:length]

    try:
        return base64.b64decode(start[: len(start) - len(start) % 4])
    except ValueError:
        return b""


def _size_fault(start: bytes, length: int) -> str:
    """What of an image's size the API refuses; empty when nothing.

    Args:
        start: The image's first bytes.
        length: Its length in base64.
    """
    if length > MAX_IMAGE:
        return f"it has {length:,} characters in base64, and the API takes {MAX_IMAGE:,}"

    width, height = image_size_of(start) or (0, 0)

    if max(width, height) > MAX_SIDE:
        return f"it has {width} x {height} pixels, and the API takes {MAX_SIDE} a side"

    return ""


def _document_source(media: MediaContent, media_type: str) -> dict[str, Any] | str:
    if media.file_id is not None or media_type == PDF:
        return _source(media, media_type)

    if not media_type.startswith("text/") and media_type not in _TEXT_TYPES:
        return f"documents must be {PDF} or text, not {media_type}"

    if media.data is None:
        return f"documents by address must be {PDF}, not {media_type}"

    try:
        text = media.data.decode()
    except UnicodeDecodeError:
        return f"its bytes are no UTF-8 text, though it is called {media_type}"

    if not text.strip():
        return "it is empty"

    return {"type": "text", "media_type": "text/plain", "data": text}


def _source(media: MediaContent, media_type: str) -> dict[str, Any]:
    if media.file_id is not None:
        return {"type": "file", "file_id": media.file_id}

    if media.data is None:
        return {"type": "url", "url": media.url}

    return {"type": "base64", "media_type": media_type, "data": base64.b64encode(media.data).decode("ascii")}
