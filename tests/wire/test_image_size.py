"""Sizes of images, read from their first bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulacra.wire import image_size_of


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big")


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + width.to_bytes(2, "little") + height.to_bytes(2, "little")


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF\x00\x00\x00\x00WEBP" + kind + b"\x00\x00\x00\x00" + body


def jpeg(width: int, height: int, *, marker: int = 0xC0, before: bytes = b"") -> bytes:
    frame = b"\x00\x11\x08" + height.to_bytes(2, "big") + width.to_bytes(2, "big") + b"\x03"

    return b"\xff\xd8" + before + bytes([0xFF, marker]) + frame


METADATA = b"\xff\xe1" + (40_000).to_bytes(2, "big") + b"\xff\xc0" * 19_999
TABLE = b"\xff\xc4\x00\x04\x01\x02"


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (png(1440, 8570), (1440, 8570)),
        (gif(300, 2), (300, 2)),
        (webp(b"VP8X", b"\x00" * 4 + (99).to_bytes(3, "little") + (0).to_bytes(3, "little")), (100, 1)),
        (webp(b"VP8L", b"\x2f" + (99 | 9 << 14).to_bytes(4, "little") + b"\x00" * 5), (100, 10)),
        (webp(b"VP8 ", b"\x00" * 3 + b"\x9d\x01\x2a" + b"\x64\x00\x0a\x40"), (100, 10)),
        (webp(b"VP9 ", b"\x00" * 10), None),
        (jpeg(640, 480), (640, 480)),
        (jpeg(640, 480, marker=0xC2, before=METADATA + TABLE), (640, 480)),
        (jpeg(640, 480, before=b"\xff\xff\x01\xff\xd0"), (640, 480)),
        (jpeg(640, 480)[:8], None),
        (b"", None),
        (b"\x89PNG\r\n", None),
        (b"%PDF", None),
    ],
)
def test_the_size_stands_where_each_format_has_it(data: bytes, size: tuple[int, int] | None) -> None:
    assert image_size_of(data) == size


@given(st.sampled_from([b"", b"\xff\xd8", b"\x89PNG", b"GIF8", b"RIFF1234WEBPVP8L"]), st.binary(max_size=64))
def test_no_bytes_make_it_fail(start: bytes, rest: bytes) -> None:
    found = image_size_of(start + rest)

    assert found is None or all(side >= 0 for side in found)
