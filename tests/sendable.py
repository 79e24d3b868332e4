"""What a request may look like, checked without any of the engine's own repair code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from simulacra_openai.drafting import Settings
from simulacra_openai.encode import encode_request

from simulacra.messages import CheckpointState, Message, TextContent, ToolContent, ToolResultContent
from simulacra.provider import ModelRequest

Place = tuple[int, int]
"""Where a block stands: index of its message, index in that message."""


def texts_of(messages: Iterable[Message]) -> list[str]:
    """Every text block, in order."""
    return [block.text for message in messages for block in message.content if isinstance(block, TextContent)]


def call_ids(message: Message) -> list[str]:
    return [block.tool_request_id for block in message.content if isinstance(block, ToolContent)]


def result_ids(message: Message) -> list[str]:
    return [block.tool_request_id for block in message.content if isinstance(block, ToolResultContent)]


def request_faults(messages: Sequence[Message]) -> list[str]:
    """What is wrong with the messages of a request, vendor neutral.

    Neighbours of one role are the encoders' to join, and so are replies without content theirs to leave out.
    """
    faults = []
    ids = [message.id for message in messages]

    if not messages or messages[0].role != "user":
        faults.append("does not begin with a user message")

    if messages and messages[-1].role != "user":
        faults.append("does not end with a user message")

    if len(set(ids)) < len(ids) or None in ids:
        faults.append(f"ids are not unique: {ids}")

    for message, following in zip(messages, [*messages[1:], None], strict=True):
        answers = [] if following is None or following.role != "user" else result_ids(following)

        if (calls := call_ids(message)) != answers:
            faults.append(f"calls {calls} of {message.id} are followed by the results {answers}")

        if message.role == "user" and not message.content:
            faults.append(f"user message {message.id} is empty")

    return faults


def wire_faults(request: ModelRequest) -> list[str]:
    """What is wrong with the request as chat completions get it."""
    return chat_faults(encode_request(request, Settings(model="m"))["messages"])


def chat_faults(sent: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is wrong with the messages of a chat completion."""
    faults: list[str] = []
    role, open_ids = "", []

    for index, message in enumerate(sent):
        previous, role = role, message["role"]

        if role == "tool":
            if not open_ids or open_ids.pop(0) != message["tool_call_id"]:
                faults.append(f"{index}: a result without its call")

            continue

        if open_ids:
            faults.append(f"{index}: calls without results: {open_ids}")

        if role == previous:
            faults.append(f"{index}: two neighbours are {role}")

        open_ids = [call["id"] for call in message.get("tool_calls", ())]

        if not open_ids and not message["content"]:
            faults.append(f"{index}: an empty {role} message")

    return faults if not open_ids else [*faults, f"at the end calls without results: {open_ids}"]


def missing_from_request(
    sent: Sequence[Message], history: Sequence[Message], checkpoint: CheckpointState | None
) -> list[str]:
    """What of history should be in a request and is not: texts, and results whose call is sent."""
    boundary = None if checkpoint is None else checkpoint.message_id
    places = [place for place, message in enumerate(history) if message.id == boundary]
    start = 0 if not places else places[0] + (history[places[0]].role == "user")
    wanted = Counter(text for text in texts_of(history[start:]) if text.strip())
    lost = wanted - Counter(texts_of(sent))
    results = len(pairs(history[start:])) - len(pairs(sent))

    return [f"not sent: {text!r}" for text in lost] + ([f"{results} results are not sent"] if results > 0 else [])


def pairs(messages: Sequence[Message]) -> list[tuple[Place, Place]]:
    """Calls and their results: a result answers the nearest call before it that has its id and no result yet."""
    found: list[tuple[Place, Place]] = []
    open_calls: dict[str, list[Place]] = {}

    for index, message in enumerate(messages):
        calls = [(at, block) for at, block in enumerate(message.content) if isinstance(block, ToolContent)]

        for at, call in reversed(calls):
            open_calls.setdefault(call.tool_request_id, []).append((index, at))

        for at, block in enumerate(message.content):
            if isinstance(block, ToolResultContent) and open_calls.get(block.tool_request_id):
                found.append((open_calls[block.tool_request_id].pop(), (index, at)))

    return found


def transcript(messages: Iterable[Message]) -> str:
    """Messages in one line each, for people who read a failing example."""
    return "\n".join(f"  {message.role:<9} {message.id} {_blocks(message)}" for message in messages)


def _blocks(message: Message) -> str:
    said = []

    for block in message.content:
        match block:
            case TextContent():
                said.append(repr(block.text))
            case ToolContent():
                said.append(f"call {block.tool}({block.params}) #{block.tool_request_id}")
            case ToolResultContent():
                said.append(f"result #{block.tool_request_id} {block.result.model_dump()}")
            case _:
                said.append(block.type)

    return f"[{getattr(message, 'status', '')}] " + ", ".join(said)
