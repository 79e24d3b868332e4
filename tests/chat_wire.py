"""Chunks of chat completions, and reading them without a network."""

from __future__ import annotations

from simulacra_openai.decode import ChatDecoder

from simulacra.streaming import Fold
from simulacra.testing import EmulatedReply, event_stream
from simulacra.tools import tool

FINE = EmulatedReply(text=["fi", "ne"])


@tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def chunk(delta=None, finish=None, *, index=0, **fields):
    choice = {"index": index, "delta": {} if delta is None else delta, "finish_reason": finish}

    return {"id": "chatcmpl-1", "created": 1, "model": "gpt-test-1", "choices": [choice], **fields}


def call(name=None, arguments=None, **fields):
    """One fragment of a tool call; what is not given is not there."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}

    return {**fields, **({"function": function} if function else {})}


def calls(*fragments):
    return chunk({"tool_calls": list(fragments)})


def decoded(chunks, *, done=True, preset=None):
    """The events of a whole reply."""
    decoder = ChatDecoder() if preset is None else ChatDecoder(preset)
    events = [event for one in chunks for event in decoder.decode(one)]

    return [*events, *decoder.end(done=done)]


def folded(events):
    """The message that events make."""
    fold = Fold("reply", 0, model_kind="openai", model="asked")

    for event in events:
        fold.apply(event)

    return fold.message()


def message_of(chunks, *, done=True, preset=None):
    return folded(decoded(chunks, done=done, preset=preset))


def raw(*events, **fields):
    """A reply of exactly these events, one write each."""
    return EmulatedReply(body=list(events), content_type="text/event-stream", **fields)


def stream_of(*chunks, done=True):
    """A reply of exactly these chunks."""
    return raw(*event_stream(chunks, done=done))


def sent_messages(emulator):
    """The messages of every request."""
    return [request.body["messages"] for request in emulator.requests]
