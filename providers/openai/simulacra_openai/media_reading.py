"""Sound and pictures of a reply, put together from what streams bring. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

from simulacra.errors import ProtocolError
from simulacra.streaming import ContentExtended, ContentStop, MediaDelta, StreamEvent

AUDIO_MARK = "openai_audio"
"""Under this key of `extended` a sound keeps the service's id of it, and until when that is known (epoch seconds)."""
MEDIA_TYPES = {
    "aac": "audio/aac",
    "flac": "audio/flac",
    "mp3": "audio/mpeg",
    "opus": "audio/opus",
    "pcm16": "audio/pcm",
    "wav": "audio/wav",
}
_DATA_URL = re.compile(r"data:([\w.+/-]+);base64,(.+)", re.DOTALL)


class MediaReader:
    """The media of one reply.

    Args:
        new_block: Gives the label of the next block.
        audio_format: The format that was asked for; it is not told again.
    """

    def __init__(self, new_block: Callable[[], int], audio_format: str) -> None:
        self._new_block = new_block
        self._audio_type = MEDIA_TYPES.get(audio_format, f"audio/{audio_format}")
        self._sound: int | None = None
        self._rest = ""
        self.audio: dict[str, Any] = {}
        """What is known of the sound beside its data, in the service's words."""

    def read_audio(self, piece: dict[str, Any]) -> list[StreamEvent]:
        """The events of one piece of sound; its transcript is text, and the decoder's affair.

        Raises:
            ProtocolError: The data is not base64.
        """
        events: list[StreamEvent] = []
        known = {key: piece[key] for key in ("id", "expires_at") if piece.get(key) is not None}
        text = self._rest + (piece.get("data") or "")
        whole = len(text) - len(text) % 4
        self._rest = text[whole:]
        self.audio.update(known)

        if self._sound is None and whole:
            self._sound = self._new_block()

        if self._sound is None:
            return []

        if whole:
            events.append(MediaDelta(self._sound, self._audio_type, _decoded(text[:whole])))

        if self.audio and (known or whole == len(text) != 0):
            events.append(ContentExtended(self._sound, {AUDIO_MARK: dict(self.audio)}))

        return events

    def read_images(self, images: list[Any]) -> tuple[list[StreamEvent], list[Any]]:
        """The events of pictures that come whole, and what is none that could be read."""
        events: list[StreamEvent] = []
        others: list[Any] = []

        for image in images:
            described = image.get("image_url") if isinstance(image, dict) else None
            found = _DATA_URL.fullmatch(str(described.get("url"))) if isinstance(described, dict) else None

            if found is None:
                others.append(image)
                continue

            index = self._new_block()
            events += [MediaDelta(index, found[1], _decoded(found[2])), ContentStop(index)]

        return events, others

    def close(self) -> list[StreamEvent]:
        """Stop the sound that is open."""
        index, self._sound = self._sound, None

        return [] if index is None else [ContentStop(index)]


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ProtocolError(f"media of the reply are not base64: {error}") from error
