"""A Gemini server on loopback: the Developer API's paths and Vertex's, the real wire format, and faults on request."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from simulacra.messages import Usage
from simulacra.rules import RuleTable, Wire
from simulacra.testing.emulators.openai_chat_limits import PromptCache
from simulacra.testing.emulators.replies import COUNTED, EmulatedReply, EmulatedRequest, pieces_of, tokens_of
from simulacra.testing.emulators.server import RequestListener, Script, VendorEmulator

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_SIGNATURE = base64.b64encode(b"signed by the emulator").decode()
_MODEL = re.compile(r"/models/([^:?]+):(\w+)")


def gemini_stream(chunks: Iterable[Mapping[str, Any]]) -> list[bytes]:
    """Chunks as Gemini streams them, with CR LF at the end of each line.

    Args:
        chunks: JSON objects.
    """
    return [b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks]


class GeminiEmulator(VendorEmulator):
    """Google's Gemini, its count of tokens included, under the Developer API's paths and under Vertex's.

    A stream opens with a chunk that holds no part yet, so that events count as they do for other vendors. The `details` of
    a reply's `error`, such as how long to wait, are sent as they are.

    Example:
        with GeminiEmulator([EmulatedReply(text=["Hel", "lo"])]) as emulator:
            client = genai.Client(api_key="k", http_options={"base_url": emulator.base_url})

    Args:
        script: The replies in order, or a function from a request to its reply.
        rules: What is refused, before the script sees it; Google's rules when not given, `None` for nothing.
        port: Where to serve; a free one when 0.
        on_request: Told of each request, in the server's thread, and of the rules it breaks.
        caches_prompts: Count each prompt and report what it has in common with an earlier one as cached.
    """

    vendor = "google"
    prefix = ""
    endpoints = ":streamGenerateContent|:generateContent|:countTokens"
    request_id_header = "x-request-id"

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

    def is_streamed(self, request: EmulatedRequest) -> bool:
        return _method(request) == "streamGenerateContent"

    def wire_of(self, request: EmulatedRequest) -> Wire:
        """The body, and the model that the path names."""
        return {**super().wire_of(request), "model": _model(request)}

    def side_reply(self, request: EmulatedRequest) -> EmulatedReply | None:
        """A count of tokens: roughly, but the longer a request the more."""
        if _method(request) != "countTokens":
            return None

        return EmulatedReply(body={"totalTokens": tokens_of(request)})

    def render_events(self, reply: EmulatedReply, request: EmulatedRequest) -> list[bytes]:
        chunks = [self._chunk(request, [])]
        chunks += [self._chunk(request, [part]) for part in self._parts(reply, joined=False)]

        if reply.finish is not None:
            chunks.append(self._chunk(request, [], finish=reply.finish or "STOP", usage=self._usage(reply, request)))

        return gemini_stream(chunks)

    def render_whole(self, reply: EmulatedReply, request: EmulatedRequest) -> Any:
        parts = self._parts(reply, joined=True)

        return self._chunk(request, parts, finish=reply.finish or "STOP", usage=self._usage(reply, request))

    def render_error(self, status: int, error: dict[str, Any]) -> Any:
        usual = _STATUSES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
        code = error.get("code")
        details: list[dict[str, Any]] = list(error.get("details") or ())

        if code == "insufficient_quota":
            violation = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}
            details.append({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]})

        described = {"code": status, "message": error.get("message", ""), "status": usual, "details": details}

        return {"error": {key: value for key, value in described.items() if value != []}}

    def render_error_event(self, error: dict[str, Any]) -> bytes:
        known = {"overloaded_error": 503, "server_error": 500}
        status = known.get(str(error.get("type")), 500)

        return gemini_stream([self.render_error(status, error)])[0]

    def _parts(self, reply: EmulatedReply, *, joined: bool) -> list[dict[str, Any]]:
        def pieces(text: Any) -> tuple[str, ...]:
            found = pieces_of(text)
            return ("".join(found),) if joined and found else found

        parts: list[dict[str, Any]] = [dict(block) for block in reply.blocks]
        parts += [{"text": piece, "thought": True} for piece in pieces(reply.thinking)]
        parts += [{"text": piece} for piece in (*pieces(reply.text), *pieces(reply.refusal))]

        for place, call in enumerate(reply.calls):
            text = "".join(call.fragments)
            called: dict[str, Any] = {"name": call.tool, "args": _read(text)}

            if call.id is None or call.id:
                called["id"] = f"call_{len(self.requests)}_{place}" if call.id is None else call.id

            signed = {"thoughtSignature": _SIGNATURE} if place == 0 and reply.thinking else {}
            parts.append({"functionCall": called, **signed})

        return parts

    def _chunk(
        self, request: EmulatedRequest, parts: list[dict[str, Any]], *, finish: str = "", usage: Any = None
    ) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"role": "model", **({"parts": parts} if parts else {})}, "index": 0}

        if finish:
            candidate["finishReason"] = finish

        return {
            "candidates": [candidate],
            **({"usageMetadata": usage} if usage else {}),
            "modelVersion": _model(request),
            "responseId": f"resp_{len(self.requests)}",
        }

    def _usage(self, reply: EmulatedReply, request: EmulatedRequest) -> dict[str, Any] | None:
        usage = reply.usage

        if usage is COUNTED and self._cache is not None:
            body = request.body
            prompt = [body.get("systemInstruction"), *(body.get("contents") or ())]
            tokens, cached = self._cache.read(
                {"model": _model(request), "tools": body.get("tools"), "messages": prompt}
            )
            usage = replace(COUNTED, input_tokens=tokens, cache_read_input_tokens=cached)

        return None if usage is None else _reported(usage)


def _model(request: EmulatedRequest) -> str:
    found = _MODEL.search(request.path)

    return found[1] if found else ""


def _method(request: EmulatedRequest) -> str:
    found = _MODEL.search(request.path)

    return found[2] if found else ""


def _read(text: str) -> Any:
    """Arguments as the API shows them, which sends no fragments: what is no JSON is told as the text that it is."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def _reported(usage: Usage) -> dict[str, Any]:
    written, thoughts = usage.output_tokens or 0, usage.reasoning_tokens
    counted: dict[str, Any] = {
        "promptTokenCount": usage.input_tokens or 0,
        "candidatesTokenCount": written - (thoughts or 0),
        "totalTokenCount": (usage.input_tokens or 0) + written,
    }

    if usage.cache_read_input_tokens:
        counted["cachedContentTokenCount"] = usage.cache_read_input_tokens

    if thoughts is not None:
        counted["thoughtsTokenCount"] = thoughts

    return counted
