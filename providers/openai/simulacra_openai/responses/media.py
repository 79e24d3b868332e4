"""Media as parts of a message's input, or the reason why they are none (MU-R1)."""

from __future__ import annotations

import base64
from typing import Any

from simulacra.messages import MediaContent
from simulacra.wire import image_type_of, normal_media_type

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def input_part(media: MediaContent) -> dict[str, Any] | str:
    """The part to send, or the reason why there is none.

    Args:
        media: What is to be sent.
    """
    media_type = normal_media_type(media.media_type)

    match media.kind:
        case "image":
            return _image(media, media_type)
        case "file":
            return _file(media, media_type)
        case _:
            return f"the Responses API takes no {media.kind}"


def _image(media: MediaContent, media_type: str) -> dict[str, Any] | str:
    if media.file_id is not None:
        return {"type": "input_image", "detail": "auto", "file_id": media.file_id}

    media_type = image_type_of(media.data or b"") or media_type  # a name may say what the bytes are not (MU-01)

    if media_type not in IMAGE_TYPES:
        return f"images must be {', '.join(sorted(IMAGE_TYPES))}, not {media_type}"

    url = media.url if media.data is None else _data_url(media_type, media.data)

    return {"type": "input_image", "detail": "auto", "image_url": url}


def _file(media: MediaContent, media_type: str) -> dict[str, Any]:
    if media.file_id is not None:
        return {"type": "input_file", "file_id": media.file_id}

    if media.data is None:
        return {"type": "input_file", "file_url": media.url}

    name = media.name or f"file.{media_type.rpartition('/')[2] or 'bin'}"

    return {"type": "input_file", "filename": name, "file_data": _data_url(media_type, media.data)}


def _data_url(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"
