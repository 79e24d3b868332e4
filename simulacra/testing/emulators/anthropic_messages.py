"""A Messages server on loopback: the real wire format, and faults on request."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from simulacra.messages import Usage
from simulacra.rules import RuleTable, Wire
from simulacra.testing.emulators.anthropic_blocks import (
    StreamedBlock,
    call_block,
    given_block,
    text_block,
    thinking_block,
)
from simulacra.testing.emulators.anthropic_limits import MarkedCache, limit_headers
from simulacra.testing.emulators.replies import COUNTED, EmulatedReply, EmulatedRequest, pieces_of, tokens_of
from simulacra.testing.emulators.server import RequestListener, Script, VendorEmulator

_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_SIGNATURE = base64.b64encode(b"signed by the emulator").decode()


def message_stream(events: Iterable[Mapping[str, Any]]) -> list[bytes]:
    """Events as the Messages API streams them.

    Args:
        events: JSON objects, each with its `type`.
    """
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


class AnthropicEmulator(VendorEmulator):
    """Anthropic's Messages API, its count of tokens included.

    A block's start is written together with the block's first delta, so that events count as they do for other
    vendors: first the opening of the message, then one a delta.

    Example:
        with AnthropicEmulator([EmulatedReply(text=["Hel", "lo"])]) as emulator:
            provider = AnthropicProvider(AsyncAnthropic(base_url=emulator.base_url, api_key="k"), model="any")

    Args:
        script: The replies in order, or a function from a request to its reply.
        rules: What is refused, before the script sees it; the rules of Anthropic when not given, `None` for nothing.
        port: Where to serve; a free one when 0.
        on_request: Told of each request, in the server's thread, and of the rules it breaks.
        caches_prompts: Count each prompt, at four characters a token, and report what is read from the cache and written
            to it at its marks, from 1,024 tokens on. Replies with a usage of their own keep it.
    """

    vendor = "anthropic"
    prefix = ""
    endpoints = "/v1/messages|/v1/messages/count_tokens"
    request_id_header = "request-id"

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
        self._cache = MarkedCache() if caches_prompts else None

    def vendor_headers(self, request: EmulatedRequest) -> dict[str, str]:
        del request
        seen = [*self.requests, *(refused for refused, _ in self.refused)]

        return limit_headers(len(seen), sum(len(one.content) for one in seen))

    def wire_of(self, request: EmulatedRequest) -> Wire:
        """The body, and the betas that its headers ask for."""
        betas = request.headers.get("anthropic-beta")

        return {**super().wire_of(request), **({"extra_headers": {"anthropic-beta": betas}} if betas else {})}

    def side_reply(self, request: EmulatedRequest) -> EmulatedReply | None:
        """A count of tokens: roughly, but the longer a request the more."""
        if not request.path.partition("?")[0].endswith("/count_tokens"):
            return None

        return EmulatedReply(body={"input_tokens": tokens_of(request)})

    def render_events(self, reply: EmulatedReply, request: EmulatedRequest) -> list[bytes]:
        usage = self._usage(reply, request)
        opening = {**self._message(request), "stop_reason": None, "content": [], **_counted(usage, opening=True)}
        writes: list[list[dict[str, Any]]] = [[{"type": "message_start", "message": opening}, {"type": "ping"}]]
        ended: list[dict[str, Any]] = []

        for index, block in enumerate(self._blocks(reply)):
            pending = [*ended, {"type": "content_block_start", "index": index, "content_block": block.opened}]

            for delta in block.deltas:
                writes.append([*pending, {"type": "content_block_delta", "index": index, "delta": delta}])
                pending = []

            ended = [*pending, {"type": "content_block_stop", "index": index}]

        if reply.finish is not None:
            delta = {"type": "message_delta", "delta": self._ending(reply), **_counted(usage)}
            writes.append([*ended, delta])
        elif ended:
            writes.append(ended)

        if reply.closed:
            writes.append([{"type": "message_stop"}])

        return [b"".join(message_stream(events)) for events in writes]

    def render_whole(self, reply: EmulatedReply, request: EmulatedRequest) -> Any:
        content = [block.whole for block in self._blocks(reply)]
        counted = _counted(self._usage(reply, request))

        return {**self._message(request), "content": content, **self._ending(reply), **counted}

    def render_error(self, status: int, error: dict[str, Any]) -> Any:
        usual = _ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error")
        code = error.get("code")
        described: dict[str, Any] = {"type": usual, "message": error.get("message", "")}

        if code == "insufficient_quota":
            described["type"] = "billing_error"
        elif code:
            described["details"] = {"error_code": code}

        return {"type": "error", "error": described, "request_id": f"req_{len(self.requests)}"}

    def render_error_event(self, error: dict[str, Any]) -> bytes:
        return message_stream([{"type": "error", "error": error}])[0]

    def _usage(self, reply: EmulatedReply, request: EmulatedRequest) -> Usage | None:
        if self._cache is None or reply.usage is not COUNTED:
            return reply.usage

        tokens, read, written = self._cache.read(request.body)

        return replace(COUNTED, input_tokens=tokens, cache_read_input_tokens=read, cache_creation_input_tokens=written)

    def _message(self, request: EmulatedRequest) -> dict[str, Any]:
        return {
            "id": f"msg_{len(self.requests)}",
            "type": "message",
            "role": "assistant",
            "model": request.body.get("model"),
            "stop_sequence": None,
        }

    def _blocks(self, reply: EmulatedReply) -> Iterator[StreamedBlock]:
        yield from map(given_block, reply.blocks)

        if reply.thinking:
            yield thinking_block(reply.thinking, _SIGNATURE)

        if reply.text or reply.refusal:
            yield text_block([*pieces_of(reply.text), *pieces_of(reply.refusal)])

        for place, call in enumerate(reply.calls):
            yield call_block(call, f"toolu_{len(self.requests)}_{place}" if call.id is None else call.id)

    @staticmethod
    def _ending(reply: EmulatedReply) -> dict[str, Any]:
        usual = "refusal" if reply.refusal else "tool_use" if reply.calls else "end_turn"

        return {"stop_reason": usual if reply.finish == "" else reply.finish, "stop_sequence": None}


def _counted(usage: Usage | None, *, opening: bool = False) -> dict[str, Any]:
    """Usage as the API counts: what was read from the cache, and written to it, is not in `input_tokens`."""
    if usage is None:
        return {}

    read, created = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    counted: dict[str, Any] = {
        "input_tokens": (usage.input_tokens or 0) - read - created,
        "cache_creation_input_tokens": created,
        "cache_read_input_tokens": read,
        "output_tokens": 1 if opening else usage.output_tokens or 0,
    }

    if usage.reasoning_tokens is not None and not opening:
        counted["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}

    return {"usage": counted}
