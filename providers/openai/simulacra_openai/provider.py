"""`OpenAIProvider`: chat completions over the official SDK. The only file of this package that awaits.

The SDK gives client, authentication and transport; the bytes of the stream are split and read here, because its
object per chunk costs several times what everything else does.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from simulacra.clock import time_limit
from simulacra.errors import ConfigurationError, ProtocolError, StreamInterruptedError
from simulacra.provider import ModelProvider, ModelRequest, ProviderProfile, RequestObserver, RequestOptions
from simulacra.streaming import StreamEvent
from simulacra_openai.clients import ClientPerLoop
from simulacra_openai.decode import ChatDecoder
from simulacra_openai.encode import SDK_OPTIONS, Settings, check_extra, encode_request
from simulacra_openai.errors import vendor_errors
from simulacra_openai.presets import OPENAI, Preset
from simulacra_openai.sse import EventSplitter, read_event

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

    from simulacra.transformers import ContextTransformer

CLOSE_SECONDS = 1.0
"""How long closing a response may take before it is given up."""
DRAIN_SECONDS = 0.1
"""How long the end of a finished response is waited for, so that its connection can be used again."""
_ROLES = ("system", "developer", "user")


class OpenAIProvider(ModelProvider):
    """A model behind the chat completions API.

    Args:
        client: The SDK's client. Its retries are never used: the policy retries.
        model: The model's name.
        max_tokens: Most tokens of a reply; the service's own limit when not given.
        context_transformers: Applied to every request of this provider before the conversation's.
        strict: Whether tools are strict; `None` decides per tool.
        system_role: Role of the system prompt; `None` decides by the model's name.
        preset: How a compatible service differs from OpenAI.
        extra: Fields of the request, and the SDK's `extra_headers`, `extra_query`, `extra_body` and `timeout`
            (seconds, or `connect`, `read`, `write` and `pool` in a mapping), sent as they are.

    Raises:
        ConfigurationError: An argument cannot be right.
    """

    kind: ClassVar[str] = "openai"

    def __init__(
        self,
        client: AsyncOpenAI,
        *,
        model: str,
        max_tokens: int | None = None,
        context_transformers: Sequence[ContextTransformer] | None = None,
        strict: bool | None = None,
        system_role: str | None = None,
        preset: Preset | None = None,
        **extra: Any,
    ) -> None:
        _check_options(model, max_tokens, strict, system_role)
        check_extra(extra)
        self._clients = ClientPerLoop(client)
        self.model = model
        self.max_tokens = max_tokens
        self.context_transformers = list(context_transformers or ())
        self.strict = strict
        self.system_role = system_role
        self.preset = preset or OPENAI
        self.extra = copy.deepcopy(extra)
        self.profile = ProviderProfile(
            media_types=self.preset.media_types, raw_kinds=frozenset({self.kind, OpenAIProvider.kind})
        )

    @property
    def client(self) -> AsyncOpenAI:
        """The SDK client this provider was given; clones share it."""
        return self._clients.original

    def clone(self) -> Self:
        twin = copy.copy(self)
        twin.context_transformers = list(self.context_transformers)
        twin.extra = copy.deepcopy(self.extra)

        return twin

    async def prepare(self, request: ModelRequest) -> dict[str, Any]:
        params = encode_request(request, self._settings())
        timeout = _default_timeout(self.client, request.options)

        return params if timeout is None else {"timeout": timeout, **params}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        observer = request.observer
        params = await observer.before_request(await self.prepare(request))
        response = await self._send(params)
        decoder = ChatDecoder(self.preset, dict(response.headers))
        is_whole = "json" in response.headers.get("content-type", "")
        chunks = _whole_reply(response, observer) if is_whole else _chunks(response, observer)

        try:
            async with aclosing(_events(chunks, decoder, observer)) as events:
                async for event in events:
                    yield event
        finally:
            with time_limit(CLOSE_SECONDS, shield=True):
                await response.aclose()

    async def _send(self, params: dict[str, Any]) -> httpx2.Response:
        import httpx2  # noqa: PLC0415 -- loaded with the SDK, not with this package
        import openai  # noqa: PLC0415 -- the SDK is imported on first use

        body = {key: value for key, value in params.items() if key not in SDK_OPTIONS}
        body |= params.get("extra_body") or {}
        options: dict[str, Any] = {"max_retries": 0, "security": {"bearer_auth": True}}
        options["headers"] = params.get("extra_headers") or {}
        options["params"] = params.get("extra_query") or {}

        if "timeout" in params:
            timeout = params["timeout"]
            options["timeout"] = httpx2.Timeout(**timeout) if isinstance(timeout, dict) else timeout

        with vendor_errors(reading=False):
            try:
                response = await self._clients.current().post(
                    "/chat/completions",
                    body=body,
                    options=cast("Any", options),
                    cast_to=httpx2.Response,
                    stream=True,
                    stream_cls=openai.AsyncStream[Any],
                )
            except (TypeError, ValueError) as error:
                raise ConfigurationError(f"the request cannot be written: {error}") from error

        return cast("httpx2.Response", response)

    def _settings(self) -> Settings:
        return Settings(
            model=self.model,
            max_tokens=self.max_tokens,
            strict=self.strict,
            system_role=self.system_role,
            preset=self.preset,
            raw_kinds=self.profile.raw_kinds,
            media_types=self.profile.media_types,
            extra=self.extra,
        )


async def _events(
    chunks: AsyncGenerator[dict[str, Any] | None, None], decoder: ChatDecoder, observer: RequestObserver
) -> AsyncGenerator[StreamEvent, None]:
    """The events of a reply, the closing one after everything was read: usage may come late (US-R3)."""
    is_done = False

    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                if chunk is None:
                    is_done = True
                    break

                for event in decoder.decode(chunk):
                    yield event
    except StreamInterruptedError:
        if not decoder.is_closed:  # what is lost after the finish reason is usage at most
            raise

    *stops, stop = decoder.end(done=is_done)

    for event in stops:
        yield event

    await observer.response(decoder.completion())
    yield stop


async def _chunks(response: httpx2.Response, observer: RequestObserver) -> AsyncGenerator[dict[str, Any] | None, None]:
    """The chunks of a streamed reply, and `None` when `[DONE]` came.

    The observer is told of each chunk when it wants them, else of each read.
    """
    splitter = EventSplitter()

    with vendor_errors(reading=True):
        async with _body(response) as body:
            async for data in body:
                wants_chunks = observer.wants_chunks
                found = splitter.feed(data)

                if not wants_chunks:
                    await observer.chunk(None)
                elif not found:  # a ping, or a piece of an event
                    await observer.chunk(data.decode("utf-8", "replace"))

                for name, payload in found:
                    chunk = read_event(name, payload)

                    if chunk is None:
                        await _drain(body)
                    elif wants_chunks:
                        await observer.chunk(chunk)

                    yield chunk

    for name, payload in splitter.flush():
        with suppress(ProtocolError):  # cut in the middle: the decoder says so
            yield read_event(name, payload)


async def _whole_reply(
    response: httpx2.Response, observer: RequestObserver
) -> AsyncGenerator[dict[str, Any] | None, None]:
    """The one chunk of a reply that was not streamed, then `None`."""
    with vendor_errors(reading=True):
        body = await response.aread()

    reply = read_event("", body)
    await observer.chunk(reply if observer.wants_chunks else None)
    yield reply
    yield None


@asynccontextmanager
async def _body(response: httpx2.Response) -> AsyncIterator[AsyncGenerator[bytes, None]]:
    """The bytes of a response, closed on leaving.

    Bytes that nobody compressed are taken from the transport itself: what `aiter_bytes` does for each read costs as much
    as reading it. The transport forgets to close its innermost generator, which trio complains of; reading on from a
    response that is closed ends it at once.
    """
    plain = "content-encoding" not in response.headers
    source = cast("AsyncIterable[bytes]", response.stream) if plain else response.aiter_bytes()
    body = cast("AsyncGenerator[bytes, None]", aiter(source))

    try:
        yield body
    finally:
        with time_limit(CLOSE_SECONDS, shield=True):
            await response.aclose()

            with suppress(Exception):
                await _drain(body)

            await body.aclose()


async def _drain(body: AsyncIterator[bytes]) -> None:
    """Read to the end of a finished response, so that its connection can be used again; not for long."""
    with time_limit(DRAIN_SECONDS):
        async for _ in body:
            pass


def _default_timeout(client: AsyncOpenAI, options: RequestOptions) -> dict[str, float | None] | None:
    """HTTP limits where the engine's own are longer than the SDK's default, which would cut in before (RX-11)."""
    import openai  # noqa: PLC0415 -- the SDK is imported on first use

    default = openai.DEFAULT_TIMEOUT
    limits = (options.first_event_timeout, options.idle_timeout)
    longest = None if None in limits else max(limit for limit in limits if limit is not None)

    if client.timeout != default or (longest is not None and longest <= (default.read or 0)):
        return None

    return {"connect": default.connect, "read": longest, "write": default.write, "pool": default.pool}


def _check_options(model: Any, max_tokens: Any, strict: Any, system_role: Any) -> None:
    if not isinstance(model, str) or not model:
        raise ConfigurationError(f"model must be a name, not {model!r}")

    if max_tokens is not None and (isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1):
        raise ConfigurationError(f"max_tokens must be a positive whole number, not {max_tokens!r}")

    if strict not in (None, True, False):
        raise ConfigurationError(f"strict must be True, False or None, not {strict!r}")

    if system_role is not None and system_role not in _ROLES:
        raise ConfigurationError(f"system_role must be one of {', '.join(_ROLES)}, not {system_role!r}")
