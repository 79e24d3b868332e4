"""`AnthropicProvider`: the Messages API over the official SDK. The only file of this package that awaits.

The SDK gives client, authentication and transport; the bytes of the stream are split and read here, because its
object per event costs several times what everything else does.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, cast

from simulacra.errors import ConfigurationError
from simulacra.provider import ModelProvider, ModelRequest, ProviderProfile, RequestObserver
from simulacra.streaming import StreamEvent
from simulacra.wire import (
    ClientPerLoop,
    GrowingJson,
    close_response,
    default_timeout,
    merge_extra,
    read_chunks,
    read_count,
    read_whole,
    split_params,
)
from simulacra_anthropic.caching import CachingOption, caching_of
from simulacra_anthropic.decode import MessagesDecoder, events_of
from simulacra_anthropic.drafting import DEFAULT_MAX_TOKENS, Settings
from simulacra_anthropic.encode import check_extra, continued_params, count_params, encode_request
from simulacra_anthropic.errors import vendor_errors
from simulacra_anthropic.media import MEDIA_TYPES
from simulacra_anthropic.rules import RULES
from simulacra_anthropic.thinking import read_thinking

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic

    from simulacra.transformers import ContextTransformer

MAX_CONTINUATIONS = 8
"""How often a paused reply is let go on within one turn (ANT-9)."""
PATH = "/v1/messages"
_REQUEST_OPTIONS = frozenset({"extra_headers", "extra_query", "timeout"})
_READING = partial(vendor_errors, reading=True)

OptionsSource: TypeAlias = "Mapping[str, Any] | Callable[[], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]"
"""SDK options of each request, or a function, sync or async, that is asked for them before each one."""


class AnthropicProvider(ModelProvider):
    """Claude, behind the Messages API.

    Args:
        client: The SDK's client. Its retries are never used: the policy retries.
        model: The model's name.
        max_tokens: Most tokens of a reply.
        thinking: Reasoning, as `read_thinking` reads it, for requests that say nothing of their own.
        prompt_caching: What is cached: a `PromptCaching`, its fields, or false for nothing; all of it when not given.
        request_options: `extra_headers`, `extra_query` and `timeout` (seconds, or `connect`, `read`, `write` and `pool`
            in a mapping), or a function that gives them for each request, such as one that renews a token.
        server_tools: Tools that the service runs itself, as the API describes them.
        context_transformers: Applied to every request of this provider before the conversation's.
        extra: Fields of the request (`context_management`, `metadata`, `stop_sequences`, `service_tier`, ...), `betas` that
            they need (as files by their id do: `files-api-2025-04-14`), `disable_parallel_tool_use`, and the SDK's
            `extra_headers`, `extra_query`, `extra_body` and `timeout`, sent as they are.

    Raises:
        ConfigurationError: An argument cannot be right.
    """

    kind: ClassVar[str] = "anthropic"

    def __init__(  # noqa: PLR0913 -- keyword options of a constructor
        self,
        client: AsyncAnthropic,
        *,
        model: str,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        thinking: Mapping[str, Any] | None = None,
        prompt_caching: CachingOption = None,
        request_options: OptionsSource | None = None,
        server_tools: Sequence[Mapping[str, Any]] = (),
        context_transformers: Sequence[ContextTransformer] | None = None,
        **extra: Any,
    ) -> None:
        _check_options(model, max_tokens, thinking)
        check_extra(extra)
        self._clients = _clients(client)
        self.model = model
        self.max_tokens = max_tokens
        self.thinking = None if thinking is None else copy.deepcopy(dict(thinking))
        self.prompt_caching = caching_of(prompt_caching)
        self.request_options = _options_source(request_options)
        self.server_tools = copy.deepcopy([dict(tool) for tool in server_tools])
        self.context_transformers = list(context_transformers or ())
        self.extra = copy.deepcopy(extra)
        self._write = GrowingJson("messages")
        self.profile = ProviderProfile(media_types=MEDIA_TYPES, raw_kinds=frozenset({self.kind}), rules=RULES.renewed())

    @property
    def client(self) -> AsyncAnthropic:
        """The SDK client this provider was given; clones share it."""
        return self._clients.original

    def clone(self) -> Self:
        twin = copy.copy(self)
        twin.context_transformers = list(self.context_transformers)
        twin.profile = replace(self.profile, rules=self.profile.rules and self.profile.rules.renewed())
        twin._write = GrowingJson("messages")  # noqa: SLF001 -- of the same class

        for name in ("thinking", "server_tools", "extra"):
            setattr(twin, name, copy.deepcopy(getattr(self, name)))

        if isinstance(self.request_options, dict):
            twin.request_options = copy.deepcopy(self.request_options)

        return twin

    async def prepare(self, request: ModelRequest) -> dict[str, Any]:
        import anthropic  # noqa: PLC0415 -- the SDK is imported on first use

        settings = Settings(
            model=self.model,
            max_tokens=self.max_tokens,
            thinking=self.thinking,
            caching=self.prompt_caching,
            server_tools=self.server_tools,
            raw_kinds=self.profile.raw_kinds,
            extra=merge_extra(self.extra, await self._request_options()),
        )
        params = encode_request(request, settings, self.profile.rules or RULES)
        timeout = default_timeout(self.client.timeout, anthropic.DEFAULT_TIMEOUT, request.options)

        return params if timeout is None else {"timeout": timeout, **params}

    async def count_tokens(self, request: ModelRequest) -> int | None:
        response = await self._post(f"{PATH}/count_tokens", count_params(await self.prepare(request)), stream=False)

        return await read_count(response, "input_tokens", failures=_READING)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        observer = request.observer
        params = await observer.before_request(await self.prepare(request))
        decoder = MessagesDecoder()
        sent = params

        for left in range(MAX_CONTINUATIONS, -1, -1):
            async with aclosing(self._part(sent, decoder, observer)) as events:
                async for event in events:
                    yield event

            if not decoder.is_paused or not left:
                break

            sent = continued_params(params, decoder.content(), decoder.container)
            decoder = MessagesDecoder(decoder)

        *kept, stop = decoder.end()

        for event in kept:
            yield event

        await observer.response(decoder.message())
        yield stop

    async def _part(
        self, params: dict[str, Any], decoder: MessagesDecoder, observer: RequestObserver
    ) -> AsyncGenerator[StreamEvent, None]:
        """The events of one answer of the service: a reply, or a part of one that pauses."""
        response = await self._post(PATH, params, stream=True)
        decoder.headers = response.headers
        is_whole = "json" in response.headers.get("content-type", "")
        chunks = _whole_reply(response, observer) if is_whole else _streamed_reply(response, observer)

        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    for event in decoder.decode(chunk):
                        yield event

                    if decoder.is_closed:
                        break
        finally:
            await close_response(response)

        if not decoder.is_closed:
            decoder.end()

    async def _post(self, path: str, params: dict[str, Any], *, stream: bool) -> httpx2.Response:
        import anthropic  # noqa: PLC0415 -- the SDK is imported on first use
        import httpx2  # noqa: PLC0415 -- loaded with the SDK, not with this package

        client = self._clients.current()
        body, options = split_params(params, http=httpx2)
        sent: dict[str, Any] = {"body": body}

        with vendor_errors(reading=False):
            try:
                if type(client) is anthropic.AsyncAnthropic:  # clients that derive from it may look into the body
                    path, sent = f"{str(client.base_url).rstrip('/')}{path}", {"content": self._write(body)}

                response = await client.post(
                    path,
                    **sent,
                    options=cast("Any", options),
                    cast_to=httpx2.Response,
                    stream=stream,
                    stream_cls=anthropic.AsyncStream[Any],
                )
            except (TypeError, ValueError) as error:
                raise ConfigurationError(f"the request cannot be written: {error}") from error

        return cast("httpx2.Response", response)

    async def _request_options(self) -> Mapping[str, Any]:
        source = self.request_options
        given = source() if callable(source) else source
        options = await given if inspect.isawaitable(given) else given
        _check_request_options(options)

        return options


def _streamed_reply(response: httpx2.Response, observer: RequestObserver) -> AsyncGenerator[dict[str, Any], None]:
    chunks = read_chunks(
        response,
        observer,
        failures=_READING,
        is_last=lambda chunk: chunk is not None and chunk.get("type") == "message_stop",
    )

    return cast("AsyncGenerator[dict[str, Any], None]", chunks)  # `[DONE]` is no word of this API


async def _whole_reply(response: httpx2.Response, observer: RequestObserver) -> AsyncGenerator[dict[str, Any], None]:
    for event in events_of(await read_whole(response, observer, failures=_READING)):
        yield event


def _clients(client: AsyncAnthropic) -> ClientPerLoop[AsyncAnthropic]:
    import anthropic  # noqa: PLC0415 -- the SDK is imported on first use
    import httpx2  # noqa: PLC0415 -- loaded with the SDK, not with this package

    return ClientPerLoop(
        client, expected=anthropic.AsyncAnthropic, transport=anthropic.DefaultAsyncHttpxClient, http=httpx2
    )


def _options_source(given: OptionsSource | None) -> OptionsSource:
    if callable(given):
        return given

    options: Mapping[str, Any] = {} if given is None else given
    _check_request_options(options)

    return copy.deepcopy(dict(options))


def _check_request_options(options: Any) -> None:
    if not isinstance(options, Mapping):
        raise ConfigurationError(f"request_options must give a mapping, not {options!r}")

    unknown = sorted(options.keys() - _REQUEST_OPTIONS)

    if unknown:
        raise ConfigurationError(
            f"request_options knows no {unknown[0]!r}; it knows {', '.join(sorted(_REQUEST_OPTIONS))}"
        )

    check_extra(options)


def _check_options(model: Any, max_tokens: Any, thinking: Any) -> None:
    if not isinstance(model, str) or not model:
        raise ConfigurationError(f"model must be a name, not {model!r}")

    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:
        raise ConfigurationError(f"max_tokens must be a positive whole number, not {max_tokens!r}")

    if thinking is not None and not isinstance(thinking, Mapping):
        raise ConfigurationError(f"thinking must be a mapping, not {thinking!r}")

    read_thinking(thinking)
