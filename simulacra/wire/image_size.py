"""The size of an image, read from its first bytes without decoding it."""

from __future__ import annotations

from collections.abc import Iterator

_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""JPEG markers behind which a frame's size stands."""
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})
"""JPEG markers that have no length."""


def image_size_of(data: bytes) -> tuple[int, int] | None:
    """Width and height in pixels of a PNG, GIF, WebP or JPEG; `None` when these bytes do not tell.

    Args:
        data: The image's first bytes: 32 are enough for all but JPEG, whose size stands behind its metadata.
    """
    if data.startswith(b"\x89PNG") and data[12:16] == b"IHDR" and len(data) >= 24:
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")

    if data.startswith(b"GIF8") and len(data) >= 10:
        return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")

    if data.startswith(b"RIFF") and data[8:12] == b"WEBP" and len(data) >= 30:
        return _webp(data)

    return next(_jpeg(data), None) if data.startswith(b"\xff\xd8") else None


def _webp(data: bytes) -> tuple[int, int] | None:
    """Each of the three kinds of WebP has its own place for the size.

    Source: https://developers.google.com/speed/webp/docs/riff_container.
    """
    match data[12:16]:
        case b"VP8X":
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
        case _:
            return None


def _jpeg(data: bytes) -> Iterator[tuple[int, int]]:
    """The sizes of a JPEG's frames: segments are passed over by their lengths.

    Source: ITU-T T.81, annex B.
    """
    at = 2

    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]

        if marker in _FRAMES:
            yield int.from_bytes(data[at + 7 : at + 9], "big"), int.from_bytes(data[at + 5 : at + 7], "big")

        if marker == 0xFF:
            at += 1
        elif marker in _BARE:
            at += 2
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
