"""Media types under their usual names, and what stands for media that cannot be shown (MU-R1)."""

from __future__ import annotations

from simulacra.messages import MediaContent

_ALIASES = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "audio/wave": "audio/wav",
    "audio/x-wav": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/mp3": "audio/mpeg",
    "audio/x-mpeg": "audio/mpeg",
    "application/x-pdf": "application/pdf",
}


_IMAGE_STARTS = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG": "image/png", b"GIF8": "image/gif"}


def normal_media_type(media_type: str) -> str:
    """The media type in lower case, without parameters, under its usual name."""
    plain = media_type.partition(";")[0].strip().lower()

    return _ALIASES.get(plain, plain)


def placeholder_text(media: MediaContent, reason: str) -> str:
    """What is said in place of media of history that a model cannot be shown."""
    name = f" {media.name!r}" if media.name else ""

    return f"[{media.kind}{name} ({media.media_type}) cannot be shown here: {reason}]"


def image_type_of(data: bytes) -> str | None:
    """The media type that an image's first bytes tell, whatever it is called; `None` when they tell nothing (MU-01)."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"

    return next((media_type for start, media_type in _IMAGE_STARTS.items() if data.startswith(start)), None)
