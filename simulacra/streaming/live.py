"""One block while it streams: pieces in a list, joined when somebody asks, parsed once at its end."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Literal

from pydantic_core import from_json

from simulacra.cleaning import clean_text, require_json
from simulacra.messages import (
    AssistantContent,
    MediaContent,
    MediaKind,
    RawContent,
    TextContent,
    ThinkingContent,
    ToolContent,
)

LiveType = Literal["text", "thinking", "tool", "media", "raw"]
ECHO_LIMIT = 500
_HIGH_SURROGATES = range(0xD800, 0xDC00)
# Group 1 is an escape that stays: a surrogate pair, any other escape, or a first half at the very end, which may yet
# get its second half.
_ESCAPE = re.compile(
    r"(\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?=(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z))"
    r"|\\(?!u[dD][89a-fA-F][0-9a-fA-F]{2}).)"
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}",
    re.DOTALL,
)


class LiveContent:
    """A block as far as it has come. Listeners get the same object with every update of the block."""

    __slots__ = (
        "_held",
        "_media",
        "delivered",
        "extended",
        "index",
        "media_type",
        "pieces",
        "redacted",
        "tool",
        "tool_request_id",
        "type",
        "value",
    )

    def __init__(self, kind: LiveType, index: int) -> None:
        self.type: LiveType = kind
        self.index = index
        self.pieces: list[str] = []
        self.delivered = 0
        self.extended: dict[str, Any] | None = None
        self.tool = ""
        self.tool_request_id = ""
        self.redacted = False
        self.media_type = ""
        self.value: AssistantContent | None = None
        self._media: list[bytes] = []
        self._held = ""

    @property
    def text(self) -> str:
        """The pieces so far, joined: the text, the thought, or the JSON text of a call's arguments."""
        return "".join(self.pieces)

    @property
    def is_complete(self) -> bool:
        return self.value is not None

    def partial_params(self) -> dict[str, Any]:
        """What can be read of a call's arguments so far; never raises, never shows half an escape."""
        text = mend_escapes(self.text)

        try:
            value = from_json(text)
        except ValueError as error:
            if not str(error).startswith("EOF while parsing"):
                return {}

            try:
                value = from_json(text, allow_partial="trailing-strings")
            except ValueError:
                return {}

        return value if isinstance(value, dict) else {}

    def push(self, text: str) -> str:
        """Append a piece and return what of it can be shown: a character that came in halves is put together first."""
        if not text.isascii() or self._held:
            text = self._held + text
            self._held = ""

            if text and ord(text[-1]) in _HIGH_SURROGATES:
                text, self._held = text[:-1], text[-1]

            text = clean_text(text)

        if text:
            self.pieces.append(text)

        return text

    def flush(self) -> str:
        """Append what was held back and return it: half a character whose other half never came."""
        text, self._held = clean_text(self._held), ""

        if text:
            self.pieces.append(text)

        return text

    def push_media(self, data: bytes) -> None:
        self._media.append(data)

    def extend(self, extended: dict[str, Any]) -> None:
        self.extended = {**(self.extended or {}), **extended}

    def finish(self, timestamp: int, model_kind: str) -> AssistantContent:
        """The final value; made once."""
        if self.value is None:
            self.value = self._build(self.text, timestamp, model_kind)

        return self.value

    def delivered_value(self, timestamp: int) -> AssistantContent | None:
        """Of an open block, what its listeners were given; `None` when that is nothing worth keeping."""
        text = "".join(self.pieces[: self.delivered])

        if self.type == "text" and text.strip():
            return TextContent(text, timestamp=timestamp, extended=self.extended)

        return None

    def _build(self, text: str, timestamp: int, model_kind: str) -> AssistantContent:
        extended = self.extended

        match self.type:
            case "text":
                return TextContent(text, timestamp=timestamp, extended=extended)
            case "thinking":
                return ThinkingContent(text, redacted=self.redacted, timestamp=timestamp, extended=extended)
            case "raw":
                data = mend_escapes(text)
                return RawContent(model_kind=model_kind, data=data, timestamp=timestamp, extended=extended)
            case "media":
                return MediaContent(
                    kind=media_kind(self.media_type),
                    media_type=self.media_type,
                    data=b"".join(self._media),
                    timestamp=timestamp,
                    extended=extended,
                )
            case "tool":
                params, error = parse_arguments(text)

                if error is not None:
                    extended = {**(extended or {}), "arguments": text}

                return ToolContent(
                    tool_request_id=self.tool_request_id,
                    tool=self.tool,
                    params=params,
                    error=error,
                    timestamp=timestamp,
                    extended=extended,
                )


def media_kind(media_type: str) -> MediaKind:
    """`image/png` is an image; what is neither image, audio nor video is a file."""
    match media_type.partition("/")[0]:
        case "image":
            return "image"
        case "audio":
            return "audio"
        case "video":
            return "video"
        case _:
            return "file"


def parse_arguments(text: str) -> tuple[dict[str, Any], str | None]:
    """The arguments of a tool call, read strictly (RX-8, TL-R2).

    Args:
        text: The JSON text as it came; empty text means no arguments.

    Returns:
        The arguments and `None`, or `{}` and the reason why there are none.
    """
    if not text.strip():
        return {}, None

    try:
        value = _read_json(text)
    except ValueError as error:
        return {}, f"the arguments are no valid JSON ({error}): {text[:ECHO_LIMIT]}"

    if isinstance(value, str):  # JSON text inside one JSON string is unwrapped once
        with suppress(ValueError):
            value = _read_json(value)

    if isinstance(value, dict):
        return value, None

    return {}, f"the arguments must be one JSON object, not {_json_name(value)}: {text[:ECHO_LIMIT]}"


def _read_json(text: str) -> Any:
    return require_json(from_json(mend_escapes(text), allow_inf_nan=False))


def mend_escapes(text: str) -> str:
    """Replace escapes of lone surrogates, which the parser refuses, by the escape of U+FFFD."""
    return _ESCAPE.sub(lambda match: match[1] or r"\ufffd", text) if r"\u" in text else text


def _json_name(value: Any) -> str:
    if value is None:
        return "null"

    return {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "an array"}[type(value)]
