"""`GoogleProvider`: Gemini over the official SDK, by the Developer API or by Vertex, as its client says."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from simulacra.errors import ConfigurationError, StreamInterruptedError
from simulacra.provider import ModelProvider, ModelRequest, ProviderProfile
from simulacra.streaming import StreamEvent
from simulacra.wire import close_response, read_chunks, read_count, read_whole
from simulacra_google.decode import GeminiDecoder
from simulacra_google.drafting import Settings
from simulacra_google.encode import check_extra, encode_request
from simulacra_google.errors import vendor_errors
from simulacra_google.marks import KIND
from simulacra_google.rules import RULES
from simulacra_google.tool_code import GoogleToolCodeContextTransformer
from simulacra_google.transport import LoopGuard, counting, post

if TYPE_CHECKING:
    from google.genai import Client

    from simulacra.transformers import ContextTransformer

_READING = partial(vendor_errors, reading=True)


class GoogleProvider(ModelProvider):
    """Gemini.

    Args:
        client: The SDK's client, for the Developer API or for Vertex. Its retries are never used: the policy retries.
        model: The model's name.
        max_tokens: Most tokens of a reply; the service's own limit when not given.
        thinking: Reasoning, for requests that say nothing of their own: `budget_tokens` (0 for none), `level`, and
            `enable` for thoughts that are shown.
        built_in_tools: Tools that the service runs itself, such as `{"googleSearch": {}}`.
        context_transformers: Applied to every request of this provider before the conversation's; one that reads calls
            written as code when not given.
        extra: Fields of the request (`safetySettings`, `cachedContent`, `labels`), of its `generationConfig`
            (`temperature`, `topP`, `seed`, ...) in the wire's spelling or the SDK's, and `extra_headers`, `extra_query`, `extra_body` and `timeout` (seconds).

    Raises:
        ConfigurationError: An argument cannot be right.
    """

    kind: ClassVar[str] = KIND

    def __init__(
        self,
        client: Client,
        *,
        model: str,
        max_tokens: int | None = None,
        thinking: Mapping[str, Any] | None = None,
        built_in_tools: Sequence[Mapping[str, Any]] = (),
        context_transformers: Sequence[ContextTransformer] | None = None,
        **extra: Any,
    ) -> None:
        _check_options(client, model, max_tokens, thinking)
        check_extra(extra)
        self.client = client
        self.model = model
        self.max_tokens = max_tokens
        self.thinking = None if thinking is None else dict(thinking)
        self.built_in_tools = copy.deepcopy([dict(tool) for tool in built_in_tools])
        given = (GoogleToolCodeContextTransformer(),) if context_transformers is None else context_transformers
        self.context_transformers = list(given)
        self.extra = copy.deepcopy(extra)
        self.profile = ProviderProfile(raw_kinds=frozenset({KIND}), rules=RULES.renewed())
        self._guard = LoopGuard(client)

    async def prepare(self, request: ModelRequest) -> dict[str, Any]:
        settings = Settings(
            model=self.model,
            max_tokens=self.max_tokens,
            thinking=self.thinking,
            built_in_tools=self.built_in_tools,
            extra=self.extra,
        )

        return encode_request(request, settings, self.profile.rules or RULES)

    async def count_tokens(self, request: ModelRequest) -> int | None:
        params = await self.prepare(request)
        response = await self._post("countTokens", counting(params, is_vertex=bool(self.client.vertexai)))

        return await read_count(response, "totalTokens", failures=_READING)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        observer = request.observer
        params = await observer.before_request(await self.prepare(request))
        response = await self._post("streamGenerateContent", params)
        decoder = GeminiDecoder(response.headers, asked=self.model)

        try:
            if "json" in response.headers.get("content-type", ""):
                for event in decoder.decode(await read_whole(response, observer, failures=_READING)):
                    yield event
            else:
                async with aclosing(
                    read_chunks(response, observer, failures=_READING, is_last=lambda _: False)
                ) as chunks:
                    async for chunk in chunks:
                        for event in decoder.decode(chunk or {}):
                            yield event
        except StreamInterruptedError:
            if not decoder.is_closed:  # what is lost after the finish reason is usage at most
                raise
        finally:
            await close_response(response)

        *kept, stop = decoder.end()

        for event in kept:
            yield event

        await observer.response(decoder.reply())
        yield stop

    def clone(self) -> Self:
        twin = copy.copy(self)
        twin.context_transformers = list(self.context_transformers)
        twin.profile = replace(self.profile, rules=self.profile.rules and self.profile.rules.renewed())
        twin.thinking = copy.deepcopy(self.thinking)
        twin.built_in_tools = copy.deepcopy(self.built_in_tools)
        twin.extra = copy.deepcopy(self.extra)

        return twin

    async def _post(self, method: str, params: Mapping[str, Any]) -> Any:
        self._guard.check()

        return await post(self.client, method, params)


def _check_options(client: Any, model: Any, max_tokens: Any, thinking: Any) -> None:
    from google.genai import Client  # noqa: PLC0415 -- the SDK is imported when a provider is built, not before

    if not isinstance(client, Client):
        raise ConfigurationError(f"the client must be a google.genai.Client, not {type(client).__name__}")

    if not isinstance(model, str) or not model:
        raise ConfigurationError(f"model must be a name, not {model!r}")

    if max_tokens is not None and (isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1):
        raise ConfigurationError(f"max_tokens must be a positive whole number, not {max_tokens!r}")

    if thinking is not None and not isinstance(thinking, Mapping):
        raise ConfigurationError(f"thinking must be a mapping, not {thinking!r}")
