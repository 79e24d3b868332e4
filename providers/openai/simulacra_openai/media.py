"""Media as parts of a chat completion message, or the reason why they are none (MU-R1)."""

from __future__ import annotations

import base64
from typing import Any

from simulacra.messages import MediaContent
from simulacra.wire import image_type_of, normal_media_type

AUDIO_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}


def media_part(media: MediaContent, accepted: frozenset[str] | None) -> dict[str, Any] | str:
    """The part to send, or the reason why there is none.

    Args:
        media: What is to be sent.
        accepted: Media types the model takes; `None` when unknown.
    """
    media_type = normal_media_type(media.media_type)

    if media.kind == "image" and media.data:  # a name may say what the bytes are not (MU-01)
        media_type = image_type_of(media.data) or media_type

    if media.file_id is not None:
        return {"type": "file", "file": {"file_id": media.file_id}}

    if accepted is not None and media_type not in accepted:
        return f"this model takes {', '.join(sorted(accepted)) or 'text only'}, not {media_type}"

    if media.kind == "image":
        url = media.url if media.data is None else _data_url(media_type, media.data)
        return {"type": "image_url", "image_url": {"url": url}}

    if media.data is None:
        return f"chat completions take {media.kind} as data, not by address"

    if media.kind == "audio":
        audio_format = AUDIO_FORMATS.get(media_type)

        if audio_format is None:
            return f"chat completions take {' and '.join(AUDIO_FORMATS)}, not {media_type}"

        data = base64.b64encode(media.data).decode("ascii")
        return {"type": "input_audio", "input_audio": {"data": data, "format": audio_format}}

    if media.kind == "video":
        return "chat completions take no video"

    file = {"filename": media.name or _file_name(media_type), "file_data": _data_url(media_type, media.data)}

    return {"type": "file", "file": file}


def _data_url(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"


def _file_name(media_type: str) -> str:
    return f"file.{media_type.rpartition('/')[2] or 'bin'}"
