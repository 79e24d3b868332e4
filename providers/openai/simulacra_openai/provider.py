"""`OpenAIProvider`: chat completions over the official SDK. The only file of this package that awaits.

The SDK gives client, authentication and transport; the bytes of the stream are split and read here, because its
object per chunk costs several times what everything else does.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from simulacra.errors import ConfigurationError, StreamInterruptedError
from simulacra.provider import ModelProvider, ModelRequest, ProviderProfile, RequestObserver
from simulacra.streaming import StreamEvent
from simulacra.wire import ClientPerLoop, close_response, default_timeout, read_chunks, read_whole
from simulacra.wire.reading import Chunk
from simulacra_openai.decode import ChatDecoder
from simulacra_openai.drafting import Settings
from simulacra_openai.encode import check_extra, encode_request
from simulacra_openai.errors import vendor_errors
from simulacra_openai.presets import OPENAI, Preset
from simulacra_openai.rules import Refusals, rules_for
from simulacra_openai.transport import post

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

    from simulacra.transformers import ContextTransformer

_ROLES = ("system", "developer", "user")
_READING = partial(vendor_errors, reading=True)


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
        self._clients = client_per_loop(client)
        self.model = model
        self.max_tokens = max_tokens
        self.context_transformers = list(context_transformers or ())
        self.strict = strict
        self.system_role = system_role
        self.preset = preset or OPENAI
        self.extra = copy.deepcopy(extra)
        self.kind = self.preset.kind  # type: ignore[misc] # a service's own word goes before the class's
        self._profile = ProviderProfile()
        self.profile = ProviderProfile(media_types=self.preset.media_types, raw_kinds=self.preset.raw_kinds)

    @property
    def profile(self) -> ProviderProfile:
        """What the model can do. One that is set without rules gets those of the service, for its media types."""
        return self._profile

    @profile.setter
    def profile(self, profile: ProviderProfile) -> None:
        if profile.rules is None or profile.rules is self._profile.rules:
            profile = replace(profile, rules=rules_for(self.preset, profile).renewed())

        self._profile = profile
        self._refusals = None if profile.rules is None else Refusals(profile.rules)

    @property
    def client(self) -> AsyncOpenAI:
        """The SDK client this provider was given; clones share it."""
        return self._clients.original

    def clone(self) -> Self:
        twin = copy.copy(self)
        twin.context_transformers = list(self.context_transformers)
        twin.extra = copy.deepcopy(self.extra)
        twin.profile = replace(self.profile, rules=self.profile.rules and self.profile.rules.renewed())

        return twin

    async def prepare(self, request: ModelRequest) -> dict[str, Any]:
        import openai  # noqa: PLC0415 -- the SDK is imported on first use

        params = encode_request(request, self._settings(), self._refusals)
        timeout = default_timeout(self.client.timeout, openai.DEFAULT_TIMEOUT, request.options)

        return params if timeout is None else {"timeout": timeout, **params}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        observer = request.observer
        params = await observer.before_request(await self.prepare(request))
        response = await post(self._clients.current(), "/chat/completions", params)
        decoder = ChatDecoder(self.preset, response.headers, audio_format=_audio_format(params))
        is_whole = "json" in response.headers.get("content-type", "")
        chunks = _whole_reply(response, observer) if is_whole else _streamed_reply(response, observer)

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
        finally:
            await close_response(response)

        *stops, stop = decoder.end(done=is_done)  # after everything was read: usage may come late (US-R3)

        for event in stops:
            yield event

        await observer.response(decoder.completion())
        yield stop

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


def _streamed_reply(response: httpx2.Response, observer: RequestObserver) -> AsyncGenerator[Chunk, None]:
    """The chunks of a streamed reply, and `None` when `[DONE]` came."""
    return read_chunks(response, observer, failures=_READING, is_last=lambda chunk: chunk is None)


async def _whole_reply(response: httpx2.Response, observer: RequestObserver) -> AsyncGenerator[Chunk, None]:
    """The one chunk of a reply that was not streamed, then `None`."""
    yield await read_whole(response, observer, failures=_READING)
    yield None


def _audio_format(params: Mapping[str, Any]) -> str:
    """The format of sound that was asked for; `pcm16` is the only one that streams."""
    asked = params.get("audio") or (params.get("extra_body") or {}).get("audio") or {}

    return str(asked.get("format") or "pcm16")


def client_per_loop(client: AsyncOpenAI) -> ClientPerLoop[AsyncOpenAI]:
    """The client, and copies of it for further event loops."""
    import httpx2  # noqa: PLC0415 -- loaded with the SDK, not with this package
    import openai  # noqa: PLC0415 -- the SDK is imported on first use

    return ClientPerLoop(client, expected=openai.AsyncOpenAI, transport=openai.DefaultAsyncHttpx2Client, http=httpx2)


def _check_options(model: Any, max_tokens: Any, strict: Any, system_role: Any) -> None:
    if not isinstance(model, str) or not model:
        raise ConfigurationError(f"model must be a name, not {model!r}")

    if max_tokens is not None and (isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1):
        raise ConfigurationError(f"max_tokens must be a positive whole number, not {max_tokens!r}")

    if strict not in (None, True, False):
        raise ConfigurationError(f"strict must be True, False or None, not {strict!r}")

    if system_role is not None and system_role not in _ROLES:
        raise ConfigurationError(f"system_role must be one of {', '.join(_ROLES)}, not {system_role!r}")
