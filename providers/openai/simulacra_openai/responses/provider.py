"""`OpenAIResponsesProvider`: the Responses API over the official SDK. The only file of this package that awaits."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from simulacra.errors import ConfigurationError
from simulacra.provider import ModelProvider, ModelRequest, ProviderProfile
from simulacra.streaming import StreamEvent
from simulacra.wire import ClientPerLoop, close_response, default_timeout, read_chunks, read_count, read_whole
from simulacra.wire.reading import Chunk
from simulacra.wire.sdk_options import SDK_OPTIONS
from simulacra_openai.errors import vendor_errors
from simulacra_openai.provider import client_per_loop
from simulacra_openai.responses.decode import ENDS, ResponsesDecoder
from simulacra_openai.responses.drafting import Settings
from simulacra_openai.responses.encode import check_extra, encode_request
from simulacra_openai.responses.marks import KIND
from simulacra_openai.responses.media import IMAGE_TYPES
from simulacra_openai.responses.rules import RULES
from simulacra_openai.transport import post

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from simulacra.transformers import ContextTransformer

PATH = "/responses"
_READING = partial(vendor_errors, reading=True)
_COUNTED = SDK_OPTIONS | {
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "text",
    "conversation",
    "previous_response_id",
    "personality",
    "truncation",
}
"""What of a request the API's count of tokens takes."""


class OpenAIResponsesProvider(ModelProvider):
    """A model behind OpenAI's Responses API.

    Reasoning goes back encrypted, as it came, so nothing needs to be stored with the service.

    Args:
        client: The SDK's client. Its retries are never used: the policy retries.
        model: The model's name.
        max_tokens: Most tokens of a reply; the service's own limit when not given.
        store: Whether the service keeps responses; its own default when not given.
        strict: Whether tools are strict; `None` decides per tool.
        built_in_tools: Tools that the service runs itself, as the API describes them.
        context_transformers: Applied to every request of this provider before the conversation's.
        extra: Fields of the request, `previous_response_id` and `prediction` among them, and the SDK's `extra_headers`,
            `extra_query`, `extra_body` and `timeout`, sent as they are.

    Raises:
        ConfigurationError: An argument cannot be right.
    """

    kind: ClassVar[str] = KIND

    def __init__(
        self,
        client: AsyncOpenAI,
        *,
        model: str,
        max_tokens: int | None = None,
        store: bool | None = None,
        strict: bool | None = None,
        built_in_tools: Sequence[Mapping[str, Any]] = (),
        context_transformers: Sequence[ContextTransformer] | None = None,
        **extra: Any,
    ) -> None:
        _check_options(model, max_tokens, store, strict)
        check_extra(extra)
        self._clients: ClientPerLoop[AsyncOpenAI] = client_per_loop(client)
        self.model = model
        self.max_tokens = max_tokens
        self.store = store
        self.strict = strict
        self.built_in_tools = copy.deepcopy([dict(tool) for tool in built_in_tools])
        self.context_transformers = list(context_transformers or ())
        self.extra = copy.deepcopy(extra)
        self.profile = ProviderProfile(media_types=IMAGE_TYPES, raw_kinds=frozenset({KIND}), rules=RULES)

    @property
    def client(self) -> AsyncOpenAI:
        """The SDK client this provider was given; clones share it."""
        return self._clients.original

    def clone(self) -> Self:
        twin = copy.copy(self)
        twin.context_transformers = list(self.context_transformers)
        twin.built_in_tools = copy.deepcopy(self.built_in_tools)
        twin.extra = copy.deepcopy(self.extra)

        return twin

    async def prepare(self, request: ModelRequest) -> dict[str, Any]:
        import openai  # noqa: PLC0415 -- the SDK is imported on first use

        settings = Settings(
            model=self.model,
            max_tokens=self.max_tokens,
            strict=self.strict,
            store=self.store,
            built_in_tools=self.built_in_tools,
            extra=self.extra,
        )
        params = encode_request(request, settings)
        timeout = default_timeout(self.client.timeout, openai.DEFAULT_TIMEOUT, request.options)

        return params if timeout is None else {"timeout": timeout, **params}

    async def count_tokens(self, request: ModelRequest) -> int | None:
        asked = {key: value for key, value in (await self.prepare(request)).items() if key in _COUNTED}
        response = await post(self._clients.current(), f"{PATH}/input_tokens", asked)

        try:
            return await read_count(response, "input_tokens", failures=_READING)
        finally:
            await close_response(response)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        observer = request.observer
        params = await observer.before_request(await self.prepare(request))
        response = await post(self._clients.current(), PATH, params)
        decoder = ResponsesDecoder(response.headers)

        try:
            if "json" in response.headers.get("content-type", ""):
                for event in decoder.whole(await read_whole(response, observer, failures=_READING)):
                    yield event
            else:
                async with aclosing(read_chunks(response, observer, failures=_READING, is_last=_is_last)) as chunks:
                    async for chunk in chunks:
                        for event in decoder.decode(chunk or {}):
                            yield event

                        if decoder.is_closed:
                            break
        finally:
            await close_response(response)

        *kept, stop = decoder.end()

        for event in kept:
            yield event

        await observer.response(decoder.response())
        yield stop


def _is_last(chunk: Chunk) -> bool:
    return chunk is not None and chunk.get("type") in ENDS


def _check_options(model: Any, max_tokens: Any, store: Any, strict: Any) -> None:
    if not isinstance(model, str) or not model:
        raise ConfigurationError(f"model must be a name, not {model!r}")

    if max_tokens is not None and (isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1):
        raise ConfigurationError(f"max_tokens must be a positive whole number, not {max_tokens!r}")

    for name, value in (("store", store), ("strict", strict)):
        if value not in (None, True, False):
            raise ConfigurationError(f"{name} must be True, False or None, not {value!r}")
