"""Chunks of a Gemini stream, and reading and writing them without a network."""

from __future__ import annotations

from simulacra_google.decode import GeminiDecoder
from simulacra_google.drafting import Settings
from simulacra_google.encode import encode_request

from simulacra.messages import TextContent, ToolResultContent, ToolSuccessResult, UserMessage
from simulacra.provider import ModelRequest
from simulacra.streaming import Fold
from simulacra.tools import tool

MODEL = "gemini-2.5-pro"
STOP = "STOP"


@tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def chunk(*parts, finish=None, usage=None, **candidate):
    """One chunk; without parts its content has none."""
    content = {"role": "model", **({"parts": list(parts)} if parts else {})}
    found = {"content": content, "index": 0, **({"finishReason": finish} if finish else {}), **candidate}

    return {
        "candidates": [found],
        **({"usageMetadata": usage} if usage else {}),
        "modelVersion": MODEL,
        "responseId": "resp_1",
    }


def text(what, **fields):
    return {"text": what, **fields}


def thought(what, **fields):
    return {"text": what, "thought": True, **fields}


def call(name="add", args=None, **fields):
    """A call part; `id` belongs to the call, all else to the part."""
    own = {"id": fields.pop("id")} if "id" in fields else {}

    return {"functionCall": {**own, "name": name, "args": {} if args is None else args}, **fields}


def events_of(*chunks, asked=""):
    """The events of a whole reply."""
    decoder = GeminiDecoder({"content-type": "text/event-stream"}, asked=asked)

    return [*(event for one in chunks for event in decoder.decode(one)), *decoder.end()]


def message_of(*chunks, model=MODEL, asked=""):
    """The message of a whole reply."""
    fold = Fold("reply", 0, model_kind="google", model=model)

    for event in events_of(*chunks, asked=asked):
        fold.apply(event)

    return fold.message()


def answers(message, **fields):
    """The results of all calls of a message, and a text if one is given."""
    results = [
        ToolResultContent(
            tool_request_id=called.tool_request_id, tool=called.tool, result=ToolSuccessResult(result=True, output=3)
        )
        for called in message.tool_calls
    ]
    said = [TextContent(fields["text"])] if "text" in fields else []

    return UserMessage((*results, *said))


def user(what="hi"):
    return UserMessage((TextContent(what),))


def params_of(*messages, model=MODEL, settings=None, **fields):
    """The parameters of a request with these messages."""
    return encode_request(
        ModelRequest(messages=messages or (user(),), **fields), Settings(model=model, **(settings or {}))
    )


def contents_of(*messages, model=MODEL, **fields):
    return params_of(*messages, model=model, **fields)["contents"]


def sent_back(message, **fields):
    """The parts of a reply as the next request holds them."""
    return contents_of(user(), message, answers(message, text="go on"), **fields)[1]["parts"]
