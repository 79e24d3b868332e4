"""A chat completions server on loopback: the real wire format, and faults on request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from simulacra.errors import ConfigurationError
from simulacra.messages import Usage
from simulacra.rules import RuleTable
from simulacra.testing.emulators.openai_chat_limits import PromptCache, limit_headers
from simulacra.testing.emulators.replies import COUNTED, EmulatedReply, EmulatedRequest, pieces_of
from simulacra.testing.emulators.server import RequestListener, Script, VendorEmulator

CREATED = 1_760_000_000
_ERRORS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def _expressible(script: Script) -> Script:
    """The script, refused where a reply has blocks: parts in the vendor's own form are not of this API."""
    return (lambda request: _checked(script(request))) if callable(script) else [*map(_checked, script)]


def _checked(reply: EmulatedReply) -> EmulatedReply:
    if reply.blocks:
        raise ConfigurationError("chat completions have no blocks: give text, thinking, refusal and calls, or a body")

    return reply


def event_stream(chunks: Iterable[Mapping[str, Any]], *, done: bool = True) -> list[bytes]:
    """Chunks as the events of a chat completion stream.

    Args:
        chunks: JSON objects.
        done: Whether `[DONE]` follows.
    """
    events = [b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n" for chunk in chunks]

    return [*events, b"data: [DONE]\n\n"] if done else events


class OpenAIEmulator(VendorEmulator):
    """OpenAI's chat completions.

    Example:
        with OpenAIEmulator([EmulatedReply(text=["Hel", "lo"])]) as emulator:
            provider = openai_compatible(emulator.base_url, model="any")

    Args:
        script: The replies in order, or a function from a request to its reply.
        rules: What is refused, before the script sees it; the rules of OpenAI when not given, `None` for nothing.
        port: Where to serve; a free one when 0.
        on_request: Told of each request, in the server's thread, and of the rules it breaks.
        caches_prompts: Count each prompt, at four characters a token, and report what it has in common with an earlier
            one as cached: 1,024 tokens at least, in steps of 128. Replies with a usage of their own keep it.
    """

    vendor = "openai"
    prefix = "/v1"
    endpoints = "/chat/completions"

    def __init__(
        self,
        script: Script,
        *,
        rules: RuleTable | Literal["vendor"] | None = "vendor",
        port: int = 0,
        on_request: RequestListener | None = None,
        caches_prompts: bool = False,
    ) -> None:
        super().__init__(_expressible(script), rules=rules, port=port, on_request=on_request)
        self._cache = PromptCache() if caches_prompts else None

    def vendor_headers(self, request: EmulatedRequest) -> dict[str, str]:
        del request
        seen = [*self.requests, *(refused for refused, _ in self.refused)]

        return limit_headers(len(seen), sum(len(one.content) for one in seen))

    def render_events(self, reply: EmulatedReply, request: EmulatedRequest) -> list[bytes]:
        opening = {"role": "assistant", "content": None if reply.calls and not reply.text else "", "refusal": None}
        deltas: list[dict[str, Any]] = [opening]
        deltas += [{"reasoning_content": piece} for piece in pieces_of(reply.thinking)]
        deltas += [{"content": piece} for piece in pieces_of(reply.text)]
        deltas += [{"refusal": piece} for piece in pieces_of(reply.refusal)]

        for place, call in enumerate(reply.calls):
            function = {"name": call.tool, "arguments": ""}
            first = {"index": place, "id": self._call_id(reply, place), "type": "function", "function": function}
            deltas.append({"tool_calls": [first]})
            deltas += [
                {"tool_calls": [{"index": place, "function": {"arguments": fragment}}]} for fragment in call.fragments
            ]

        chunks = [self._chunk(request, [_choice(delta)]) for delta in deltas]

        if reply.finish is not None:
            chunks.append(self._chunk(request, [_choice({}, self._finish(reply))]))

        asked = (request.body.get("stream_options") or {}).get("include_usage")

        if asked and (usage := self._usage(reply, request)) is not None:
            chunks.append(self._chunk(request, [], usage))

        return event_stream(chunks, done=reply.closed)

    def render_whole(self, reply: EmulatedReply, request: EmulatedRequest) -> Any:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(pieces_of(reply.text)) or None,
            "refusal": "".join(pieces_of(reply.refusal)) or None,
            "annotations": [],
        }

        if reply.thinking:
            message["reasoning_content"] = "".join(pieces_of(reply.thinking))

        if reply.calls:
            message["tool_calls"] = [
                {
                    "id": self._call_id(reply, place),
                    "type": "function",
                    "function": {"name": call.tool, "arguments": "".join(call.fragments)},
                }
                for place, call in enumerate(reply.calls)
            ]

        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish(reply)}
        usage = self._usage(reply, request)

        return {**self._chunk(request, [choice], usage), "object": "chat.completion"}

    def render_error(self, status: int, error: dict[str, Any]) -> Any:
        return openai_error(status, error)

    def render_error_event(self, error: dict[str, Any]) -> bytes:
        return event_stream([{"error": error}], done=False)[0]

    def _usage(self, reply: EmulatedReply, request: EmulatedRequest) -> dict[str, Any] | None:
        if reply.usage is None:
            return None

        if self._cache is None or reply.usage is not COUNTED:
            return _reported(reply.usage)

        tokens, cached = self._cache.read(request.body)

        return _reported(replace(COUNTED, input_tokens=tokens, cache_read_input_tokens=cached))

    def _chunk(
        self, request: EmulatedRequest, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{len(self.requests)}",
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": request.body.get("model"),
            "service_tier": "default",
            "system_fingerprint": "fp_emulated",
            "choices": choices,
            "usage": usage,
        }

    def _call_id(self, reply: EmulatedReply, place: int) -> str:
        given = reply.calls[place].id

        return f"call_{len(self.requests)}_{place}" if given is None else given

    @staticmethod
    def _finish(reply: EmulatedReply) -> str | None:
        if reply.finish == "":
            return "tool_calls" if reply.calls else "stop"

        return reply.finish


def openai_error(status: int, error: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an error as OpenAI writes it.

    Args:
        status: Its HTTP status.
        error: What is told: `message`, `code`, `param`.
    """
    kind, code = _ERRORS.get(status, ("server_error", None))
    described = {
        "message": error.get("message", ""),
        "type": kind,
        "param": error.get("param"),
        "code": error.get("code") or code,
    }

    return {"error": described}


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _reported(usage: Usage) -> dict[str, Any]:
    read, written = usage.input_tokens or 0, usage.output_tokens or 0

    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_input_tokens or 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0, "audio_tokens": 0},
    }
