"""Rules about messages and their blocks: roles, texts, thoughts, media.

Source: Anthropic's API reference (Messages, errors), its guides to thinking, vision and PDF support, and refusals of
its API that users have reported (AN-R1, AN-R4, AN-01, AN-03).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from simulacra.rules import Found, Rule, Wire
from simulacra.rules.reading import JsonMap, is_blank, is_unicode, map_of, objects_in, text_of, texts_in
from simulacra_anthropic.media import media_fault
from simulacra_anthropic.repairs import FOREIGN, THINKING

MAX_MESSAGES = 100_000
_ROLES = ("user", "assistant")
_OWNERS = {
    "tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "server_tool_use": "assistant",
    "tool_result": "user",
    "image": "user",
    "document": "user",
}
"""Whose blocks these are; other types may stand with both, or are newer than this table."""
Mend = Callable[[Wire], Wire]


def message_rules(mend: Mend) -> tuple[Rule, ...]:
    """The rules.

    Args:
        mend: Puts the messages of a request right.
    """
    return (*_turns(mend), *_texts(mend), *_blocks(mend), *_thoughts(mend), *_prefill(mend))


PlacedBlock: TypeAlias = tuple[int, JsonMap, int, JsonMap]


def messages_of(wire: Wire) -> Iterator[tuple[int, JsonMap]]:
    return objects_in(wire.get("messages"))


def blocks_in(wire: Wire) -> Iterator[PlacedBlock]:
    """Every block of every message: the message's place, the message, the block's place, the block."""
    messages = wire.get("messages")

    for at, message in enumerate(messages if isinstance(messages, list) else ()):
        if type(message) is dict and type(content := message.get("content")) is list:  # of a long history quickly
            for place, block in enumerate(content):
                if isinstance(block, dict):
                    yield at, message, place, block


def _turns(mend: Mend) -> tuple[Rule, ...]:
    return (
        Rule(
            name="messages-given",
            demand=f"messages is an array of 1 to {MAX_MESSAGES:,} messages",
            fix="Say something; clear or checkpoint what is too long",
            find=_no_messages,
        ),
        Rule(
            name="roles-known",
            demand="a message is an object whose role is user or assistant, or system from the second on",
            fix="Give it the role it has; the system prompt stands in system",
            find=_strange_roles,
        ),
        Rule(
            name="first-message-by-the-user",
            demand="the first message is the user's",
            fix="A user message that says that the conversation goes on takes the first place",
            find=_begun_by_model,
            repair=mend,
        ),
        Rule(  # AN-R1; the API joins neighbours itself, but looks for results in the very next message first
            name="roles-alternate",
            demand="messages of user and assistant alternate",
            fix="Neighbours of one role are joined, in order",
            find=_neighbours,
            repair=mend,
        ),
        Rule(
            name="content-given",
            demand="a message has content: a text, or at least one block",
            fix="It is left out",
            find=_contentless,
            repair=mend,
        ),
    )


def _texts(mend: Mend) -> tuple[Rule, ...]:
    return (
        Rule(  # AN-R1, AN-01
            name="texts-not-blank",
            demand="a text has something besides white space",
            fix="It is left out",
            find=_blank_texts,
            repair=mend,
        ),
        Rule(
            name="results-not-blank",
            demand="a text in the content of a tool result is not blank",
            fix="It is left out",
            find=_blank_results,
            repair=mend,
        ),
        Rule(  # UN-01; the body is no JSON that a strict reader takes
            name="text-is-unicode",
            demand="every text can be written as UTF-8: it has no lone surrogate",
            fix="U+FFFD stands for it",
            find=_broken_texts,
            repair=mend,
        ),
    )


def _blocks(mend: Mend) -> tuple[Rule, ...]:
    return (
        Rule(
            name="blocks-are-objects",
            demand="every block of content is an object with a type",
            fix="It is left out",
            find=_no_objects,
            repair=mend,
        ),
        Rule(  # W-PRV-3
            name="blocks-of-this-api",
            demand="a block has a type that this API knows",
            fix="Media become a text that names them, parts of other vendors are left out",
            find=_foreign,
            repair=mend,
        ),
        Rule(  # MU-03
            name="blocks-stand-with-their-role",
            demand="calls and thoughts are the assistant's; results, images and documents the user's",
            fix="It is left out",
            find=_misplaced,
            repair=mend,
        ),
        Rule(  # MU-01, MU-R1
            name="media-fit",
            demand=(
                "an image is JPEG, PNG, GIF or WebP, at most 10 MB in base64 and 8,000 pixels a side, a document PDF or"
                " plain text, their data in base64"
            ),
            fix="A text that names it takes its place",
            find=_unfit_media,
            repair=mend,
        ),
    )


def _thoughts(mend: Mend) -> tuple[Rule, ...]:
    return (
        Rule(  # AN-R4
            name="thoughts-are-signed",
            demand="a thinking block goes back with the signature it came with",
            fix="It is left out: thoughts of other vendors and of cut replies have none",
            find=_unsigned,
            repair=mend,
        ),
        Rule(
            name="redacted-thoughts-have-data",
            demand="a redacted_thinking block goes back with the data it came with",
            fix="It is left out",
            find=_dataless,
            repair=mend,
        ),
        Rule(
            name="replies-do-not-end-in-thoughts",
            demand="the last block of an assistant message is no thinking block",
            fix="Thoughts that nothing follows are left out",
            find=_thought_endings,
            repair=mend,
        ),
    )


def _prefill(mend: Mend) -> tuple[Rule, ...]:
    return (
        Rule(  # AN-03
            name="prefill-without-trailing-space",
            demand="when the last message is the assistant's, its text does not end in white space",
            fix="The white space is cut off",
            find=_trailing_space,
            repair=mend,
        ),
    )


def _no_messages(wire: Wire) -> Iterator[Found]:
    messages = wire.get("messages")

    if not isinstance(messages, list) or not 0 < len(messages) <= MAX_MESSAGES:
        yield Found(("messages",), f"{len(messages)} of them" if isinstance(messages, list) else "")


def _strange_roles(wire: Wire) -> Iterator[Found]:
    messages = wire.get("messages")

    for at, message in enumerate(messages if isinstance(messages, list) else ()):
        role = map_of(message).get("role")

        if role not in _ROLES and not (role == "system" and at):
            yield Found(("messages", at, "role"), repr(role))


def _begun_by_model(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        if at == 0 and message.get("role") == "assistant":
            yield Found(("messages", 0, "role"))

        return


def _neighbours(wire: Wire) -> Iterator[Found]:
    previous = None

    for at, message in messages_of(wire):
        if message.get("role") == previous:
            yield Found(("messages", at), f"another {previous} message")

        previous = message.get("role")


def _contentless(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        content = message.get("content")

        if not isinstance(content, str | list) or content == []:
            yield Found(("messages", at, "content"))


def _blank_texts(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        if isinstance(message.get("content"), str) and is_blank(message["content"]):
            yield Found(("messages", at, "content"))

    for at, _, place, block in blocks_in(wire):
        if block.get("type") == "text" and is_blank(block.get("text")):
            yield Found(("messages", at, "content", place, "text"))


def _blank_results(wire: Wire) -> Iterator[Found]:
    for at, _, place, block in blocks_in(wire):
        if block.get("type") == "tool_result":
            for inner, part in objects_in(block.get("content")):
                if part.get("type") == "text" and is_blank(part.get("text")):
                    yield Found(("messages", at, "content", place, "content", inner, "text"))


def _broken_texts(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        yield from (Found(path) for path, text in texts_in(message, "messages", at) if not is_unicode(text))


def _no_objects(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        content = message.get("content")

        for place, block in enumerate(content if isinstance(content, list) else ()):
            if not isinstance(map_of(block).get("type"), str):
                yield Found(("messages", at, "content", place))


def _foreign(wire: Wire) -> Iterator[Found]:
    for at, _, place, block in blocks_in(wire):
        if block.get("type") == FOREIGN:
            yield Found(("messages", at, "content", place, "type"), text_of(block.get("block")))


def _misplaced(wire: Wire) -> Iterator[Found]:
    for at, message, place, block in blocks_in(wire):
        owner = _OWNERS.get(text_of(block.get("type")))

        if owner is not None and message.get("role") in _ROLES and message["role"] != owner:
            yield Found(("messages", at, "content", place), f"{block['type']} with the {message['role']}")


def _unfit_media(wire: Wire) -> Iterator[Found]:
    for at, _, place, block in blocks_in(wire):
        path = ("messages", at, "content", place)

        if fault := media_fault(block):
            yield Found((*path, "source"), fault)

        for inner, part in objects_in(block.get("content") if block.get("type") == "tool_result" else None):
            if fault := media_fault(part):
                yield Found((*path, "content", inner, "source"), fault)


def _unsigned(wire: Wire) -> Iterator[Found]:
    for at, _, place, block in blocks_in(wire):
        if block.get("type") == "thinking" and not text_of(block.get("signature")):
            yield Found(("messages", at, "content", place, "signature"))


def _dataless(wire: Wire) -> Iterator[Found]:
    for at, _, place, block in blocks_in(wire):
        if block.get("type") == "redacted_thinking" and not text_of(block.get("data")):
            yield Found(("messages", at, "content", place, "data"))


def _thought_endings(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        blocks: Any = message.get("content")

        if isinstance(blocks, list) and blocks and map_of(blocks[-1]).get("type") in THINKING:
            yield Found(("messages", at, "content", len(blocks) - 1))


def _trailing_space(wire: Wire) -> Iterator[Found]:
    messages = list(messages_of(wire))

    if not messages or messages[-1][1].get("role") != "assistant":
        return

    at, message = messages[-1]
    content = message.get("content")
    text = content if isinstance(content, str) else map_of(content[-1]).get("text") if content else None

    if isinstance(text, str) and text != text.rstrip():
        yield Found(("messages", at, "content"))
