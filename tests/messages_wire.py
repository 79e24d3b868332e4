"""Events of the Messages API, and reading them without a network."""

from __future__ import annotations

from simulacra_anthropic.decode import MessagesDecoder
from simulacra_anthropic.drafting import Settings
from simulacra_anthropic.encode import encode_request

from simulacra.messages import TextContent, ToolErrorResult, ToolResultContent, ToolSuccessResult, UserMessage
from simulacra.provider import ModelRequest
from simulacra.streaming import Fold
from simulacra.testing import EmulatedReply, message_stream
from simulacra.tools import tool

FINE = EmulatedReply(text=["fi", "ne"])
NO_CACHE = {"system_prompt": False, "toolkit": False, "history": False}
START = {
    "type": "message_start",
    "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-1"},
}
STOP = {"type": "message_stop"}


@tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def block(start, *deltas, index=0):
    """The events of one block; a delta given as text is one of the block's own kind."""
    kinds = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}
    kind, field = kinds.get(start["type"], ("input_json_delta", "partial_json"))
    given = [{"type": kind, field: delta} if isinstance(delta, str) else delta for delta in deltas]

    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in given),
        {"type": "content_block_stop", "index": index},
    ]


def text(*pieces, index=0, **fields):
    return block({"type": "text", "text": "", **fields}, *pieces, index=index)


def call(call_id, name="add", *fragments, index=0, **fields):
    return block({"type": "tool_use", "id": call_id, "name": name, "input": {}, **fields}, *fragments, index=index)


def ending(reason="end_turn", usage=None, **delta):
    counted = {} if usage is None else {"usage": usage}

    return [{"type": "message_delta", "delta": {"stop_reason": reason, **delta}, **counted}, STOP]


def reply(*blocks, reason="end_turn", usage=None, start=START, **delta):
    """The events of a whole reply."""
    return [start, *(event for events in blocks for event in events), *ending(reason, usage, **delta)]


def decoded(events, earlier=None):
    """The stream events of a whole reply."""
    decoder = MessagesDecoder(earlier)
    made = [found for event in events for found in decoder.decode(event)]

    return [*made, *decoder.end()]


def folded(events):
    """The message that stream events make."""
    fold = Fold("reply", 0, model_kind="anthropic", model="asked")

    for event in events:
        fold.apply(event)

    return fold.message()


def message_of(events):
    return folded(decoded(events))


def raw(*events, **fields):
    """A reply of exactly these bytes, one write each."""
    return EmulatedReply(body=list(events), content_type="text/event-stream", **fields)


def stream_of(events, **fields):
    """A reply of exactly these events."""
    return raw(*message_stream(events), **fields)


def user(*blocks):
    return UserMessage(tuple(TextContent(block) if isinstance(block, str) else block for block in blocks))


def result(call_id, name="add", *, error=None, content=(), **fields):
    value = ToolSuccessResult.model_validate(fields) if error is None else ToolErrorResult(message=error)

    return ToolResultContent(tool_request_id=call_id, tool=name, result=value, content=tuple(content))


def params_of(*messages, settings=None, **fields):
    """What a request of these messages is sent as, without cache marks unless settings say so."""
    from simulacra_anthropic.caching import PromptCaching

    return encode_request(
        ModelRequest(messages=messages or (user("hi"),), **fields),
        settings or Settings(model="claude-test", caching=PromptCaching(**NO_CACHE)),
    )


def turns_of(*messages, **fields):
    """The messages of a request, as role and content."""
    return [(turn["role"], turn["content"]) for turn in params_of(*messages, **fields)["messages"]]


def sent_messages(emulator):
    """The messages of every request, cache marks left out."""
    return [[without_marks(turn) for turn in request.body["messages"]] for request in emulator.requests]


def without_marks(turn):
    if isinstance(turn["content"], str):
        return turn

    blocks = [{key: value for key, value in one.items() if key != "cache_control"} for one in turn["content"]]
    alone = len(blocks) == 1 and blocks[0].keys() == {"type", "text"}

    return {**turn, "content": blocks[0]["text"] if alone else blocks}
