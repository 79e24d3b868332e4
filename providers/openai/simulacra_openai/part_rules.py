"""Rules about the parts of a message's content: types, texts, images, sound, files.

Source: OpenAI's API reference, chat/create, content parts; its guides to images, audio and file inputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from simulacra.messages import MediaContent, MediaKind
from simulacra.rules import Found, Rule, Wire
from simulacra.rules.reading import JsonMap, is_blank, map_of, text_of
from simulacra.wire import normal_media_type, placeholder_text
from simulacra_openai.media import AUDIO_FORMATS
from simulacra_openai.message_drafts import FOREIGN
from simulacra_openai.presets import Preset
from simulacra_openai.wire_reading import messages_of, parts_in

MEDIA_PARTS: Mapping[str, MediaKind] = {"image_url": "image", "input_audio": "audio", "file": "file"}
_NAMED = {"image_url": "images-fit", "input_audio": "audio-fits", "file": "files-fit"}
_DEMANDS = {
    "image_url": "an image has a url: of the web, or a data URL in base64 of a type that the model takes",
    "input_audio": f"audio has data in base64 and a format, {' or '.join(AUDIO_FORMATS.values())}",
    "file": "a file has a file_id, or a filename and file_data: a data URL in base64 of a type that the model takes",
}
_TEXT_ONLY = frozenset({"text"})
_PARTS = {
    "user": frozenset({"text", *MEDIA_PARTS}),
    "assistant": frozenset({"text", "refusal"}),
}
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.-]+)*;base64,", re.IGNORECASE)
_BASE64_START = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_SHOWN = 64
"""How many characters of data are looked at: it may be megabytes."""


def part_rules(preset: Preset, media_types: frozenset[str] | None, mend: Callable[[Wire], Wire]) -> tuple[Rule, ...]:
    """The rules of a service.

    Args:
        preset: How it differs from OpenAI.
        media_types: Media types the model takes; `None` when unknown.
        mend: Puts messages right.
    """

    def strange(wire: Wire) -> Iterator[Found]:
        for at, message, place, part in parts_in(wire):
            if not is_known(part, message.get("role"), is_closed=preset.is_closed):
                yield Found(("messages", at, "content", place), str(part.get("block") or part.get("type")))

    def media(kind: str) -> Callable[[Wire], Iterator[Found]]:
        def find(wire: Wire) -> Iterator[Found]:
            for at, _, place, part in parts_in(wire):
                if part.get("type") == kind and (fault := media_fault(part, media_types)):
                    yield Found(("messages", at, "content", place, kind), fault)

        return find

    return (
        *_common(mend),
        Rule(
            name="part-types-known",
            demand="a part of content has a type that its role may use: text everywhere, image_url, input_audio and"
            " file for the user, refusal for the assistant",
            fix="Media become a text that names them, parts of other vendors are left out",
            find=strange,
            repair=mend,
            code="invalid_value",
        ),
        *(
            Rule(
                name=_NAMED[kind],
                demand=_DEMANDS[kind],
                fix="A text that names it takes its place",
                find=media(kind),
                repair=mend,
                code="invalid_value",
            )
            for kind in MEDIA_PARTS
        ),
    )


def is_known(part: JsonMap, role: object, *, is_closed: bool) -> bool:
    """Whether a part has a type that a message of this role may have.

    Args:
        part: The part.
        role: The message's role.
        is_closed: Whether other types than OpenAI's are refused; media of anyone but the user always are (MU-03).
    """
    kind = part.get("type")

    if not isinstance(kind, str) or kind == FOREIGN:
        return False

    if role == "user" and not is_closed:
        return True

    allowed = _PARTS.get(role, _TEXT_ONLY) if isinstance(role, str) else _TEXT_ONLY

    return kind in allowed or (not is_closed and kind not in MEDIA_PARTS)


def media_fault(part: JsonMap, media_types: frozenset[str] | None) -> str:
    """What is wrong with a part that carries media; empty when nothing is.

    Args:
        part: An `image_url`, `input_audio` or `file` part.
        media_types: Media types the model takes; `None` when unknown.
    """
    kind = part.get("type")
    media = map_of(part.get(kind)) if isinstance(kind, str) else {}

    match kind:
        case "image_url":
            url = text_of(media.get("url"))
            return "" if url.startswith(("https://", "http://")) else _data_fault(url, "image/", media_types)
        case "input_audio":
            sound = text_of(media.get("data"))
            known = media.get("format") in AUDIO_FORMATS.values()
            return "" if known and _BASE64_START.fullmatch(sound[:_SHOWN]) else f"format {media.get('format')!r}"
        case "file":
            if text_of(media.get("file_id")):
                return ""

            return _data_fault(text_of(media.get("file_data")), "", media_types) if media.get("filename") else "no name"
        case _:
            return ""


def placeholder_of(part: JsonMap) -> JsonMap | None:
    """A text part that stands for media that cannot be sent; `None` for parts that are no media."""
    kind = part.get("type")

    if kind == FOREIGN:
        return {"type": "text", "text": part["text"]} if not is_blank(part.get("text")) else None

    if not isinstance(kind, str) or kind not in MEDIA_PARTS:
        return None

    media = map_of(part.get(kind))
    url = text_of(media.get("url") or media.get("file_data"))
    found = _DATA_URL.match(url[:200])
    media_type = found[1] if found else f"{MEDIA_PARTS[kind]}/{media.get('format') or '*'}"
    named = MediaContent(
        kind=MEDIA_PARTS[kind], media_type=media_type, data=b"", name=text_of(media.get("filename")) or None
    )

    return {"type": "text", "text": placeholder_text(named, "this model does not take it")}


def _common(mend: Callable[[Wire], Wire]) -> tuple[Rule, ...]:
    return (
        Rule(
            name="parts-are-objects",
            demand="every part of content is an object",
            fix="A text becomes a part, anything else is left out",
            find=_no_objects,
            repair=mend,
            code="invalid_type",
        ),
        Rule(  # AN-R1
            name="text-parts-not-blank",
            demand="a text part has a text that says something",
            fix="It is left out",
            find=_blank_parts,
            repair=mend,
        ),
        Rule(  # MU-03, MU-R2
            name="tool-messages-hold-text",
            demand="the content of a tool message is text",
            fix="Media move to a user message behind the last answer",
            find=_media_of_tools,
            repair=mend,
            code="invalid_value",
        ),
    )


def _no_objects(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        content = message.get("content")

        for place, part in enumerate(content if isinstance(content, list) else ()):
            if not isinstance(part, dict):
                yield Found(("messages", at, "content", place), type(part).__name__)


def _blank_parts(wire: Wire) -> Iterator[Found]:
    for at, _, place, part in parts_in(wire):
        if part.get("type") == "text" and is_blank(part.get("text")):
            yield Found(("messages", at, "content", place, "text"))


def _media_of_tools(wire: Wire) -> Iterator[Found]:
    for at, message, place, part in parts_in(wire):
        if message.get("role") == "tool" and part.get("type") != "text":
            yield Found(("messages", at, "content", place), repr(part.get("type")))


def _data_fault(url: str, prefix: str, media_types: frozenset[str] | None) -> str:
    found = _DATA_URL.match(url[:200])

    if found is None:
        return "no data URL in base64"

    if len(url) == found.end():
        return "no data"

    media_type = normal_media_type(found[1])

    if not media_type.startswith(prefix) or (media_types is not None and media_type not in media_types):
        return f"{media_type} is not taken"

    return ""
