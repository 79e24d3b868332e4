"""From history to an open stream: transform, build the frozen request, try as the policy says.

An `Opening` is also the provider's observer: what the provider tells it becomes `before_request` and `raw_*` events.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from simulacra.clock import time_limit
from simulacra.errors import (
    ConfigurationError,
    ProviderError,
    SimulacraError,
    StreamInterruptedError,
    TimeoutExceededError,
)
from simulacra.events import BeforeRequest, RawRequest, RawStream
from simulacra.journal import EntryDraft
from simulacra.messages import AssistantMessage, Message
from simulacra.policies import PolicyResult, RequestAttempt
from simulacra.provider import ModelProvider, ModelRequest, RequestOptions
from simulacra.rules import repair
from simulacra.streaming import OpenStream, StreamEvent, opens_reply, peek_generator
from simulacra.transformers import ContextTransformer, TransformContext

if TYPE_CHECKING:
    from simulacra.dialog.core import Settings
    from simulacra.dialog.run import Run
    from simulacra.turn import TurnPlan

logger = logging.getLogger("simulacra.conversation")
_TOOL_CHOICES = frozenset({"auto", "none", "any"})


class Opening:
    """Opens the stream of one turn.

    Args:
        run: Whose turn it is.
        plan: What is special about this turn.
        request_id: The turn's id, the same for all attempts.
    """

    def __init__(self, run: Run, plan: TurnPlan, request_id: str) -> None:
        self.options = _options_of(run.options, plan)
        self.metadata: Mapping[str, Any] = {}
        self.raw_response: Any = None
        self.heard: Callable[[], None] = _ignore
        self.wants_chunks = run.core.emitter.wants(RawStream)
        self.context = TransformContext(conversation_id=run.core.id)
        self._run = run
        self._core = run.core
        self._settings = run.core.settings.snapshot()
        self._plan = plan
        self._request_id = request_id
        self._attempts = 0
        self._provider = self._settings.provider
        self._fault: Exception | None = None

    @property
    def provider(self) -> ModelProvider:
        """Who answers, or was asked last."""
        return self._provider

    async def open(self, messages: Sequence[Message]) -> OpenStream:
        """Transform, build, and open under the policy.

        Args:
            messages: History plus the new message.

        Raises:
            ProviderError: No attempt worked.
            OperationCancelledError: The run was cancelled.
        """
        settings = self._settings
        check_tool_choice(settings, self.options)
        request = await self._build(settings.provider, messages)
        attempt = RequestAttempt(
            provider=settings.provider,
            model=settings.provider.model,
            conversation_id=self._core.id,
            estimate=lambda: settings.counter.count_request(request.messages, request.tools, request.system),
        )

        async def try_once(attempted: RequestAttempt) -> OpenStream:
            return await self._try(attempted, request, messages)

        outcome: PolicyResult = await settings.policy.execute(self._run.source.token, try_once, attempt)
        self.metadata = outcome.metadata

        if outcome.error is not None and outcome.error is self._fault:
            raise_typed(outcome.error, self._provider)

        if not outcome.result:
            raise outcome.error or SimulacraError(f"{type(settings.policy).__name__} failed and names no error")

        opened: OpenStream = outcome.value

        return opened

    async def transform_completion(self, message: AssistantMessage) -> AssistantMessage:
        """What is to be stored of the reply; it keeps its id (CTX-4)."""
        transformed = message

        for transformer in self._transformers(self._provider):
            transformed = await transformer.transform_completion(transformed, self.context)

        return transformed if transformed.id == message.id else dataclasses.replace(transformed, id=message.id)

    async def before_request(self, params: dict[str, Any]) -> dict[str, Any]:
        conversation = self._core.conversation

        if self._core.emitter.wants(BeforeRequest):
            params = copy.deepcopy(params)  # parts of it may be used in later requests again
            event = BeforeRequest(
                conversation=conversation, request_id=self._request_id, params=params, attempt=self._attempts
            )
            await self._core.emitter.emit(event)

        if self._core.emitter.wants(RawRequest):
            data = copy.deepcopy(params)
            await self._core.emitter.emit(RawRequest(conversation=conversation, request_id=self._request_id, data=data))

        return params

    async def chunk(self, data: Any) -> None:
        self.heard()

        if self.wants_chunks:
            event = RawStream(conversation=self._core.conversation, request_id=self._request_id, data=data)
            await self._core.emitter.emit(event)

    async def response(self, data: Any) -> None:
        self.raw_response = data

    async def _try(self, attempt: RequestAttempt, request: ModelRequest, messages: Sequence[Message]) -> OpenStream:
        """One attempt, up to its first event."""
        provider = attempt.provider
        self._attempts += 1

        if provider is not self._settings.provider:
            request = await self._build(provider, messages)

        self._provider = provider

        try:
            events = await self._first_event(provider, request)
        except ProviderError as error:
            name_place(error, provider)
            raise
        except Exception as error:
            self._fault = error  # the policy judges it as it is
            raise

        return OpenStream(events, provider_kind=provider.kind, model=provider.model)

    async def _first_event(self, provider: ModelProvider, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """The events, when there is one to begin with."""
        with time_limit(self.options.first_event_timeout) as limit:
            first, events = await peek_generator(_events_of(provider, request), opens_reply)

        if limit.cancelled_caught:
            raise TimeoutExceededError(
                f"no first event within {self.options.first_event_timeout} s; raise first_event_timeout or retry"
            )

        if first is None:
            await events.aclose()
            raise StreamInterruptedError("the stream ended before it brought anything")

        return events

    async def _build(self, provider: ModelProvider, messages: Sequence[Message]) -> ModelRequest:
        settings = self._settings
        system = (settings.system,) if settings.system else ()
        tools = settings.runner.definitions
        self.context = TransformContext(
            conversation_id=self._core.id,
            checkpoint=self._core.journal.history.checkpoint,
            system=system,
            tools=tools,
            model=provider.model,
            profile=provider.profile,
            counter=settings.counter.count_messages,
        )

        for transformer in self._transformers(provider):
            messages = await transformer.transform_prompt(messages, self.context)

        for kind, body in self.context.records:
            self._core.journal.record(EntryDraft(kind, body))

        added = (self._plan.added_system,) if self._plan.added_system else ()
        request = ModelRequest(
            messages=tuple(message for message in messages if message.content),  # a reply may have said nothing
            tools=tools,
            system=(*system, *self.context.added_system, *added),
            options=self.options,
            observer=self,
        )

        if logger.isEnabledFor(logging.DEBUG):
            self._explain(provider, request)

        return request

    def _explain(self, provider: ModelProvider, request: ModelRequest) -> None:
        """Tell what of the history goes out otherwise than it stands, and why; what its rules change, a vendor knows."""
        if provider.profile.rules is not None:
            for change in repair(request.messages, provider.profile, tools=request.tools).receipt:
                self.context.explain("repaired", str(change))

        for told in self.context.explanations:
            logger.debug("action=<%s>, messages=<%s> | %s", told.action, ",".join(told.message_ids), told.reason)

    def _transformers(self, provider: ModelProvider) -> tuple[ContextTransformer, ...]:
        return (*provider.context_transformers, self._settings.transformer)


def check_tool_choice(settings: Settings, options: RequestOptions) -> None:
    """Check a choice against what there is to choose from.

    Raises:
        ConfigurationError: It names a tool that the toolkit does not have.
    """
    choice = options.tool_choice
    known = [definition.name for definition in settings.runner.definitions]

    if choice is not None and choice not in _TOOL_CHOICES and choice not in known:
        raise ConfigurationError(
            f"tool_choice {choice!r} is none of auto, none, any, nor a tool of the toolkit ({', '.join(known)})"
        )


def _events_of(provider: ModelProvider, request: ModelRequest) -> AsyncIterator[StreamEvent]:
    events = provider.stream(request)

    if isinstance(events, Coroutine):
        events.close()

    if not isinstance(events, AsyncIterator):
        raise ConfigurationError(
            f"{type(provider).__name__}.stream is no async generator: write it as `async def`, with `yield`"
        )

    return events


def raise_typed(error: Exception, provider: ModelProvider) -> NoReturn:
    """Raise what a provider raised; what is no error of the engine's as one, with itself as cause.

    Raises:
        ProviderError: The provider has a fault, or left an error of its service as it was.
    """
    if isinstance(error, SimulacraError | AssertionError):  # the latter are of tests: a script that does not fit
        raise error

    raise ProviderError(
        f"{type(provider).__name__}.stream raised {type(error).__name__}: {error}; a provider tells of its service's "
        "errors with those of simulacra, such as error_from_status() makes"
    ) from error


def name_place(error: ProviderError, provider: ModelProvider) -> None:
    """Fill in whose request failed, unless the provider said so itself."""
    error.provider = error.provider or provider.kind
    error.model = error.model or provider.model


def _options_of(options: RequestOptions, plan: TurnPlan) -> RequestOptions:
    return options if plan.tool_choice is None else options.updated(tool_choice=plan.tool_choice)


def _ignore() -> None:
    """No watchdog listens yet."""
