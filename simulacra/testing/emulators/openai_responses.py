"""A Responses server on loopback: the real sequence of events, and faults on request."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from simulacra.messages import Usage
from simulacra.rules import RuleTable
from simulacra.testing.emulators.openai_chat import CREATED, openai_error
from simulacra.testing.emulators.openai_chat_limits import PromptCache, limit_headers
from simulacra.testing.emulators.replies import COUNTED, EmulatedReply, EmulatedRequest, pieces_of, tokens_of
from simulacra.testing.emulators.server import RequestListener, Script, VendorEmulator

_SEALED = base64.b64encode(b"sealed by the emulator").decode()
_Events = list[dict[str, Any]]


def response_stream(events: Iterable[Mapping[str, Any]]) -> list[bytes]:
    """Events as the Responses API streams them, numbered.

    Args:
        events: JSON objects, each with its `type`.
    """
    return [
        f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n".encode()
        for number, event in enumerate(events)
    ]


class OpenAIResponsesEmulator(VendorEmulator):
    """OpenAI's Responses API.

    What opens an item is written together with its first delta, so that events count as they do for other vendors.

    Example:
        with OpenAIResponsesEmulator([EmulatedReply(text=["Hel", "lo"])]) as emulator:
            provider = OpenAIResponsesProvider(AsyncOpenAI(base_url=emulator.base_url, api_key="k"), model="any")

    Args:
        script: The replies in order, or a function from a request to its reply.
        rules: What is refused, before the script sees it; the API's rules when not given, `None` for nothing.
        port: Where to serve; a free one when 0.
        on_request: Told of each request, in the server's thread, and of the rules it breaks.
        caches_prompts: Count each prompt and report what it has in common with an earlier one as cached.
    """

    vendor = "openai_responses"
    prefix = "/v1"
    endpoints = "/responses|/responses/input_tokens"

    def __init__(
        self,
        script: Script,
        *,
        rules: RuleTable | Literal["vendor"] | None = "vendor",
        port: int = 0,
        on_request: RequestListener | None = None,
        caches_prompts: bool = False,
    ) -> None:
        super().__init__(script, rules=rules, port=port, on_request=on_request)
        self._cache = PromptCache() if caches_prompts else None

    def vendor_headers(self, request: EmulatedRequest) -> dict[str, str]:
        del request
        seen = [*self.requests, *(refused for refused, _ in self.refused)]

        return limit_headers(len(seen), sum(len(one.content) for one in seen))

    def side_reply(self, request: EmulatedRequest) -> EmulatedReply | None:
        """A count of tokens: roughly, but the longer a request the more."""
        if not request.path.partition("?")[0].endswith("/input_tokens"):
            return None

        return EmulatedReply(body={"object": "response.input_tokens", "input_tokens": tokens_of(request)})

    def render_events(self, reply: EmulatedReply, request: EmulatedRequest) -> list[bytes]:
        opened = self._response(reply, request, status="in_progress", output=[])
        writes: list[_Events] = [
            [{"type": "response.created", "response": opened}, {"type": "response.in_progress", "response": opened}]
        ]
        ended: _Events = []

        for place, item in enumerate(self._items(reply)):
            begun, deltas, closed = _told(place, item, reply)
            pending = [*ended, *begun]

            for delta in deltas:
                writes.append([*pending, delta])
                pending = []

            ended = [*pending, *closed]

        if reply.closed:
            status = self._status(reply)
            whole = self._response(reply, request, status=status, output=list(self._items(reply, status)))
            ended.append({"type": f"response.{status}", "response": whole})

        if ended:
            writes.append(ended)

        numbered = iter(response_stream(event for events in writes for event in events))

        return [b"".join(next(numbered) for _ in events) for events in writes]

    def render_whole(self, reply: EmulatedReply, request: EmulatedRequest) -> Any:
        status = self._status(reply)

        return self._response(reply, request, status=status, output=list(self._items(reply, status)))

    def render_error(self, status: int, error: dict[str, Any]) -> Any:
        return openai_error(status, error)

    def render_error_event(self, error: dict[str, Any]) -> bytes:
        return response_stream([{"type": "error", "error": error}])[0]

    def _status(self, reply: EmulatedReply) -> str:
        return "completed" if reply.finish in ("", "completed") else "incomplete" if reply.finish else "completed"

    def _items(self, reply: EmulatedReply, status: str = "completed") -> Iterator[dict[str, Any]]:
        number = len(self.requests)
        yield from map(dict, reply.blocks)

        if reply.thinking:
            summary = [{"type": "summary_text", "text": "".join(pieces_of(reply.thinking))}]
            sealed = {"encrypted_content": _SEALED, "summary": summary}
            yield {"id": f"rs_{number}", "type": "reasoning", **sealed}

        parts: _Events = []

        if reply.text:
            text = "".join(pieces_of(reply.text))
            parts.append({"type": "output_text", "annotations": [], "logprobs": [], "text": text})

        if reply.refusal:
            parts.append({"type": "refusal", "refusal": "".join(pieces_of(reply.refusal))})

        if parts:
            yield {"id": f"msg_{number}", "type": "message", "status": status, "role": "assistant", "content": parts}

        for place, call in enumerate(reply.calls):
            yield {
                "id": f"fc_{number}_{place}",
                "type": "function_call",
                "status": status,
                "arguments": "".join(call.fragments),
                "call_id": f"call_{number}_{place}" if call.id is None else call.id,
                "name": call.tool,
            }

    def _response(
        self, reply: EmulatedReply, request: EmulatedRequest, *, status: str, output: _Events
    ) -> dict[str, Any]:
        asked = request.body
        is_over = status != "in_progress"

        return {
            "id": f"resp_{len(self.requests)}",
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": reply.finish} if status == "incomplete" else None,
            "instructions": asked.get("instructions"),
            "model": asked.get("model"),
            "output": output,
            "parallel_tool_calls": True,
            "store": asked.get("store", True),
            "tools": asked.get("tools", []),
            "tool_choice": asked.get("tool_choice", "auto"),
            "usage": self._usage(reply, request) if is_over else None,
        }

    def _usage(self, reply: EmulatedReply, request: EmulatedRequest) -> dict[str, Any] | None:
        usage = reply.usage

        if usage is COUNTED and self._cache is not None:
            tokens, cached = self._cache.read({**request.body, "messages": request.body.get("input")})
            usage = replace(COUNTED, input_tokens=tokens, cache_read_input_tokens=cached)

        return None if usage is None else _reported(usage)


def _told(place: int, item: dict[str, Any], reply: EmulatedReply) -> tuple[_Events, _Events, _Events]:
    """What opens an item, its deltas, and what closes it."""
    at = {"item_id": item.get("id"), "output_index": place}
    done = {"type": "response.output_item.done", "output_index": place, "item": item}

    if place < len(reply.blocks):
        return [{**done, "type": "response.output_item.added"}], [], [done]

    match item["type"]:
        case "reasoning":
            return _reasoning(at, item, reply, done)
        case "message":
            return _message(at, item, reply, done)
        case _:
            return _call(at, item, reply, done)


def _added(at: dict[str, Any], item: dict[str, Any], **empty: Any) -> dict[str, Any]:
    opened = {**item, "status": "in_progress", **empty}

    return {"type": "response.output_item.added", "output_index": at["output_index"], "item": opened}


def _reasoning(
    at: dict[str, Any], item: dict[str, Any], reply: EmulatedReply, done: dict[str, Any]
) -> tuple[_Events, _Events, _Events]:
    part = {**at, "summary_index": 0}
    text = item["summary"][0]["text"]
    begun = [
        _added(at, item, summary=[], encrypted_content=f"{_SEALED}-early"),
        {"type": "response.reasoning_summary_part.added", **part, "part": {"type": "summary_text", "text": ""}},
    ]
    deltas = [
        {"type": "response.reasoning_summary_text.delta", **part, "delta": piece} for piece in pieces_of(reply.thinking)
    ]
    closed = [
        {"type": "response.reasoning_summary_text.done", **part, "text": text},
        {"type": "response.reasoning_summary_part.done", **part, "part": item["summary"][0]},
    ]

    return begun, deltas, [*closed, done]


def _message(
    at: dict[str, Any], item: dict[str, Any], reply: EmulatedReply, done: dict[str, Any]
) -> tuple[_Events, _Events, _Events]:
    events: _Events = [_added(at, item, content=[])]
    deltas: _Events = []

    for number, part in enumerate(item["content"]):
        place = {**at, "content_index": number}
        is_text = part["type"] == "output_text"
        kind, pieces = ("output_text", reply.text) if is_text else ("refusal", reply.refusal)
        opened = {**part, "text" if is_text else "refusal": ""}
        events.append({"type": "response.content_part.added", **place, "part": opened})
        deltas += [{"type": f"response.{kind}.delta", **place, "delta": piece} for piece in pieces_of(pieces)]

    closed = [
        {"type": "response.content_part.done", **at, "content_index": number, "part": part}
        for number, part in enumerate(item["content"])
    ]

    return events, deltas, [*closed, done]


def _call(
    at: dict[str, Any], item: dict[str, Any], reply: EmulatedReply, done: dict[str, Any]
) -> tuple[_Events, _Events, _Events]:
    called = next(
        call for call in reply.calls if call.tool == item["name"] and "".join(call.fragments) == item["arguments"]
    )
    kind = "response.function_call_arguments"
    deltas = [{"type": f"{kind}.delta", **at, "delta": fragment} for fragment in ("", *called.fragments)]

    return (
        [_added(at, item, arguments="")],
        deltas,
        [{"type": f"{kind}.done", **at, "arguments": item["arguments"]}, done],
    )


def _reported(usage: Usage) -> dict[str, Any]:
    read, written = usage.input_tokens or 0, usage.output_tokens or 0

    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": usage.cache_read_input_tokens or 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": read + written,
    }
