"""Rules about messages as wholes: roles, content, fields.

Source: OpenAI's API reference, chat/create, `messages`; refusals of its API that users have reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from simulacra.rules import Found, Rule, Wire
from simulacra.rules.reading import JsonMap, is_blank, is_unicode, texts_in
from simulacra_openai.presets import Preset
from simulacra_openai.wire_reading import messages_of, places_of

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
MESSAGE_FIELDS = frozenset(
    {
        "role",
        "content",
        "name",
        "refusal",
        "tool_calls",
        "tool_call_id",
        "function_call",
        "audio",
        "annotations",
    }
)
"""`annotations` stands in OpenAI's own replies, which its guides send back as they came."""
PARTICIPANT = re.compile(r"[^\s<|\\/>]{1,64}")
_WORDLESS = ("tool_calls", "refusal", "audio", "function_call")


def message_rules(preset: Preset, mend: Callable[[Wire], Wire]) -> tuple[Rule, ...]:
    """The rules of a service.

    Args:
        preset: How it differs from OpenAI.
        mend: Puts messages right.
    """
    fields = Rule(
        name="message-fields-known",
        demand=f"a message has no other fields than {', '.join(sorted(MESSAGE_FIELDS))}",
        fix="Fields of other services, such as reasoning_content, are left out",
        find=_strange_fields,
        repair=mend,
        code="unknown_parameter",
    )
    alternation = Rule(  # AN-R1; the chat templates of open models refuse anything else
        name="roles-alternate",
        demand="messages of user and assistant take turns",
        fix="Neighbours of one role become one message",
        find=_neighbours,
        repair=mend,
    )

    nothing = Rule(  # some versions of Ollama's server fail on it
        name="content-not-null",
        demand="content is there and not null, beside tool calls too",
        fix="An empty text stands for it",
        find=_nulls,
        repair=mend,
    )
    own = (fields if preset.is_closed else alternation, *(() if preset.takes_null else (nothing,)))

    return (*_presence(mend), *_texts(mend), *own)


def says_something(message: JsonMap) -> bool:
    """Whether a message of the assistant has anything that the API takes for an answer."""
    return bool(message.get("content")) or any(message.get(field) for field in _WORDLESS)


def _presence(mend: Callable[[Wire], Wire]) -> tuple[Rule, ...]:
    return (
        Rule(
            name="messages-present",
            demand="messages is an array with at least one message",
            fix="Send a message",
            find=_no_messages,
            code="empty_array",
        ),
        Rule(
            name="roles-known",
            demand=f"a message is an object whose role is one of {', '.join(sorted(ROLES))}",
            fix="Give it the role it has",
            find=_strange_roles,
            code="invalid_value",
        ),
        Rule(
            name="content-given",
            demand="a system, developer, user or tool message has content: a text or an array of parts",
            fix="A message without content is left out; a result without content is empty",
            find=_contentless,
            repair=mend,
            code="invalid_type",
        ),
        Rule(
            name="assistant-says-something",
            demand="an assistant message has content, tool calls, a refusal or audio",
            fix="It is left out",
            find=_speechless,
            repair=mend,
        ),
        Rule(
            name="content-not-empty",
            demand="an array of parts has at least one",
            fix="A message without parts is left out",
            find=_partless,
            repair=mend,
            code="empty_array",
        ),
    )


def _texts(mend: Callable[[Wire], Wire]) -> tuple[Rule, ...]:
    return (
        Rule(  # AN-R1
            name="content-not-blank",
            demand="content that is a text says something",
            fix="The message is left out, or its content where it has tool calls",
            find=_blank_contents,
            repair=mend,
        ),
        Rule(  # UN-01; the body is no JSON that a strict reader takes
            name="text-is-unicode",
            demand="every text can be written as UTF-8: it has no lone surrogate",
            fix="U+FFFD stands for it",
            find=_broken_texts,
            repair=mend,
        ),
        Rule(
            name="participant-names-fit",
            demand="a participant's name has 1 to 64 characters, and none of white space and < | \\ / > is among them",
            fix="An underscore stands for each of those, and the rest is cut off",
            find=_strange_names,
            repair=mend,
            code="invalid_value",
        ),
    )


def _no_messages(wire: Wire) -> Iterator[Found]:
    messages = wire.get("messages")

    if not isinstance(messages, list) or not messages:
        yield Found(("messages",))


def _strange_roles(wire: Wire) -> Iterator[Found]:
    messages = wire.get("messages")

    for at, message in enumerate(messages if isinstance(messages, list) else ()):
        if not isinstance(message, dict):
            yield Found(("messages", at), type(message).__name__)
        elif not isinstance(message.get("role"), str) or message["role"] not in ROLES:
            yield Found(("messages", at, "role"), repr(message.get("role")))


def _contentless(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        if message.get("role") in ("assistant", "function"):
            continue

        if not isinstance(message.get("content"), str | list):
            yield Found(("messages", at, "content"), type(message.get("content")).__name__)


def _speechless(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        if message.get("role") == "assistant" and message.get("content") is None and not says_something(message):
            yield Found(("messages", at))


def _nulls(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        if message.get("role") == "assistant" and message.get("content") is None and says_something(message):
            yield Found(("messages", at, "content"))


def _partless(wire: Wire) -> Iterator[Found]:
    return (Found(("messages", at, "content")) for at, message in messages_of(wire) if message.get("content") == [])


def _blank_contents(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        content = message.get("content")
        may_be_empty = message.get("role") in ("tool", "function") or (content == "" and says_something(message))

        if isinstance(content, str) and is_blank(content) and not may_be_empty:
            yield Found(("messages", at, "content"))


def _broken_texts(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        yield from (Found(path) for path, text in texts_in(message, "messages", at) if not is_unicode(text))


def _strange_names(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        name = message.get("name")

        if name is not None and not (isinstance(name, str) and PARTICIPANT.fullmatch(name)):
            yield Found(("messages", at, "name"), repr(name))


def _strange_fields(wire: Wire) -> Iterator[Found]:
    for at, message in messages_of(wire):
        yield from (Found(("messages", at, field)) for field in sorted(message.keys() - MESSAGE_FIELDS))


def _neighbours(wire: Wire) -> Iterator[Found]:
    previous = None

    for at, message in places_of(wire):
        role = message.get("role")

        if role == previous and role in ("user", "assistant"):
            yield Found(("messages", at), f"another {role} message")

        previous = role
