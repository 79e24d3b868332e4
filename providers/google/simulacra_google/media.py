"""Media as parts, or the reason why they are none (MU-R1)."""

from __future__ import annotations

import base64
import re
from typing import Any

from simulacra.messages import MediaContent
from simulacra.rules.reading import JsonMap, map_of, text_of
from simulacra.wire import image_type_of, normal_media_type, placeholder_text

IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "image/gif"})
TAKEN = re.compile(
    r"image/(png|jpeg|webp|heic|heif|gif)|audio/[\w.+-]+|video/[\w.+-]+|text/[\w.+-]+|application/(pdf|json)"
)
"""Media types that Gemini takes. Source: https://ai.google.dev/gemini-api/docs/files and the pages beside it."""
MAX_INLINE = 20_000_000
"""Bytes that a request with inline data may have (the same pages)."""
_BASE64_START = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_SHOWN = 64


def media_part(media: MediaContent) -> dict[str, Any] | str:
    """The part to send, or the reason why there is none.

    Args:
        media: What is to be sent.
    """
    media_type = normal_media_type(media.media_type)

    if media.kind == "image":
        media_type = image_type_of(media.data or b"") or media_type  # a name may say what the bytes are not (MU-01)

    if media.file_id is not None:
        return {"fileData": {"mimeType": media_type, "fileUri": media.file_id}}

    if not TAKEN.fullmatch(media_type):
        return f"Gemini takes images, sound, film, text and PDF, not {media_type}"

    if media.data is None:
        return {"fileData": {"mimeType": media_type, "fileUri": media.url}}

    return {"inlineData": {"mimeType": media_type, "data": base64.b64encode(media.data).decode("ascii")}}


def media_fault(part: JsonMap) -> str:
    """What is wrong with a part that carries media; empty when nothing is, and for other parts."""
    if "inlineData" in part:
        data = map_of(part["inlineData"])

        if not TAKEN.fullmatch(text_of(data.get("mimeType"))):
            return f"{data.get('mimeType')} is not taken"

        return "" if _BASE64_START.fullmatch(text_of(data.get("data"))[:_SHOWN]) else "its data is not in base64"

    if "fileData" in part:
        return "" if text_of(map_of(part["fileData"]).get("fileUri")) else "it has no fileUri"

    return ""


def placeholder_of(part: JsonMap, reason: str) -> JsonMap:
    """A text part that stands for media that Gemini does not take."""
    media_type = text_of(map_of(part.get("inlineData") or part.get("fileData")).get("mimeType")) or "of unknown type"

    return {"text": placeholder_text(MediaContent(kind="file", media_type=media_type, data=b""), reason)}
