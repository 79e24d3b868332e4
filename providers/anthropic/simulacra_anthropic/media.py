"""Media as blocks of a message, or the reason why they are none (MU-R1)."""

from __future__ import annotations

import base64
from typing import Any

from simulacra.messages import MediaContent
from simulacra.wire import image_type_of, normal_media_type, placeholder_text

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
PDF = "application/pdf"
MEDIA_TYPES = IMAGE_TYPES | {PDF, "text/plain"}
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

        return {"type": "image", "source": _source(media, media_type)}

    source = _document_source(media, media_type)

    if isinstance(source, str):
        return source

    return {"type": "document", "source": source, **({"title": media.name} if media.name else {})}


def placeholder(media: MediaContent, reason: str) -> dict[str, Any]:
    """A text block that stands for media of history that the model cannot be shown."""
    return {"type": "text", "text": placeholder_text(media, reason)}


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
