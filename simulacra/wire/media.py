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


def normal_media_type(media_type: str) -> str:
    """The media type in lower case, without parameters, under its usual name."""
    plain = media_type.partition(";")[0].strip().lower()

    return _ALIASES.get(plain, plain)


def placeholder_text(media: MediaContent, reason: str) -> str:
    """What is said in place of media of history that a model cannot be shown."""
    name = f" {media.name!r}" if media.name else ""

    return f"[{media.kind}{name} ({media.media_type}) cannot be shown here: {reason}]"
