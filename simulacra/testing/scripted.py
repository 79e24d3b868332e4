"""A provider that plays a script: what a model answers, when it fails, and exactly what it was asked."""

from __future__ import annotations

import inspect
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, Self, TypeAlias, cast

import anyio

from simulacra.clock import clock
from simulacra.errors import ConfigurationError
from simulacra.messages import StopReason, Usage
from simulacra.provider import ModelProvider, ModelRequest, ProviderProfile
from simulacra.streaming import (
    ContentStop,
    MessageStart,
    MessageStop,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolArgumentsDelta,
    ToolCallStart,
    UsageUpdate,
)
from simulacra.transformers import ContextTransformer


class UnexpectedRequestError(AssertionError):
    """The engine asked a scripted provider more often than its script says. No policy repeats it."""


class UnusedStepsError(AssertionError):
    """A script was not played to its end."""


@dataclass(frozen=True, slots=True)
class Delay:
    """A wait inside a reply, in seconds of the engine's clock."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Fault:
    """An error that the provider raises when it gets here."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Stall:
    """Silence until the stream is cancelled."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; one without an id gets `call_1`, `call_2`, ... in the order of play."""

    index: int
    tool: str
    arguments: str
    tool_request_id: str | None = None


Part: TypeAlias = StreamEvent | Delay | Fault | Stall | Call
Step: TypeAlias = str | Part | Sequence[Part] | Callable[[ModelRequest], Any]


def reply(
    text: str = "",
    *,
    chunks: Sequence[str | Delay | Fault | Stall] = (),
    thinking: str = "",
    usage: Usage | None = None,
    stop_reason: StopReason = "end_turn",
    stop_details: str | None = None,
) -> list[Part]:
    """A reply of text.

    Args:
        text: What the model says; may be left out when `chunks` say it.
        chunks: How it is cut into deltas, with delays, faults and stalls in between.
        thinking: What it thinks before.
        usage: Reported before the end.
        stop_reason: Why it ends.
        stop_details: The vendor's words for why.

    Raises:
        ConfigurationError: `text` and `chunks` say different things.
    """
    said = "".join(chunk for chunk in chunks if isinstance(chunk, str))

    if text and chunks and said != text:
        raise ConfigurationError(f"the chunks say {said!r}, but the text is {text!r}")

    parts: list[Part] = [MessageStart()]
    index = 0

    if thinking:
        parts += [ThinkingDelta(0, thinking), ContentStop(0)]
        index = 1

    pieces = chunks or ([text] if text else [])
    parts += [TextDelta(index, piece) if isinstance(piece, str) else piece for piece in pieces]

    if said or text:
        parts.append(ContentStop(index))

    return parts + _ending(usage, stop_reason, stop_details)


def calls(
    *wanted: tuple[str, dict[str, Any] | str] | tuple[str, dict[str, Any] | str, str],
    text: str = "",
    usage: Usage | None = None,
    stop_reason: StopReason = "tool_use",
) -> list[Part]:
    """A reply that calls tools.

    Args:
        wanted: `(tool, arguments)` or `(tool, arguments, id)`; arguments given as text are sent as they are.
        text: What the model says before.
        usage: Reported before the end.
        stop_reason: Why it ends.

    Raises:
        ConfigurationError: What is wanted is no such tuple.
    """
    parts: list[Part] = [MessageStart()]

    if any(not isinstance(each, tuple) for each in wanted):
        raise ConfigurationError(
            f"calls() takes tuples, such as calls(('search', {{'query': 'lamp'}})), not {wanted!r}"
        )

    if text:
        parts += [TextDelta(0, text), ContentStop(0)]

    for index, (tool, arguments, *given) in enumerate(wanted, start=1 if text else 0):
        sent = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        parts.append(Call(index, tool, sent, given[0] if given else None))

    return parts + _ending(usage, stop_reason, None)


def delay(seconds: float) -> Delay:
    """A wait by the engine's clock, inside a reply or before it."""
    return Delay(seconds)


def fault(error: BaseException) -> Fault:
    """Raise `error`; as a step of its own, before the first event."""
    return Fault(error)


def fault_after(delivered: int | str, error: BaseException) -> list[Part]:
    """Deliver something, then raise `error`.

    Args:
        delivered: The text delivered before, or how many deltas (`"x"` each).
        error: What is raised.
    """
    pieces = [delivered] if isinstance(delivered, str) else ["x"] * delivered

    return [MessageStart(), *(TextDelta(0, piece) for piece in pieces), Fault(error)]


def stall() -> Stall:
    """Say nothing more until cancelled."""
    return Stall()


def _ending(usage: Usage | None, stop_reason: StopReason, stop_details: str | None) -> list[Part]:
    reported: list[Part] = [] if usage is None else [UsageUpdate(usage)]

    return [*reported, MessageStop(stop_reason, stop_details)]


@dataclass(slots=True)
class _Script:
    """What a provider and its clones share: they play one script."""

    steps: deque[Step]
    otherwise: Step | None
    requests: list[ModelRequest] = field(default_factory=list)
    sent: list[dict[str, Any]] = field(default_factory=list)
    unexpected: list[ModelRequest] = field(default_factory=list)
    open: int = 0
    closed: int = 0
    calls: int = 0


class ScriptedProvider(ModelProvider):
    """A provider that answers one step per request, in order.

    A step is a text, stream events with `delay`, `fault` and `stall` between them, what `reply`, `calls`, `fault`,
    `fault_after` and `stall` give, or a sync or async function of the request that returns a step. Clones play the same
    script. Leaving `with` or `async with` without an error asserts that the script was played to its end.

    Args:
        steps: The script.
        model: The model's name.
        profile: What it says it can do.
        context_transformers: The provider's own transformers.
        otherwise: The step for every request after the last; without it such a request is an error.
    """

    kind: ClassVar[str] = "scripted"

    def __init__(
        self,
        steps: Iterable[Step] = (),
        *,
        model: str = "scripted",
        profile: ProviderProfile | None = None,
        context_transformers: Sequence[ContextTransformer] = (),
        otherwise: Step | None = None,
    ) -> None:
        self.model = model
        self.profile = profile or ProviderProfile()
        self.context_transformers = context_transformers
        self._script = _Script(deque(steps), otherwise)

    @property
    def requests(self) -> list[ModelRequest]:
        """Every request, exactly as it came."""
        return self._script.requests

    @property
    def sent(self) -> list[dict[str, Any]]:
        """The parameters of every request after `before_request`."""
        return self._script.sent

    @property
    def open_streams(self) -> int:
        """How many streams are under way."""
        return self._script.open

    @property
    def closed_streams(self) -> int:
        """How many streams came to an end: exhausted, failed or closed."""
        return self._script.closed

    def add(self, *steps: Step) -> None:
        """Put steps at the end of the script."""
        self._script.steps.extend(steps)

    def assert_complete(self) -> None:
        """Assert that the script was played to its end and no request went beyond it.

        Raises:
            UnexpectedRequestError: There were more requests than steps.
            UnusedStepsError: There were fewer.
        """
        if self._script.unexpected:
            raise UnexpectedRequestError(_describe(len(self.requests), self._script.unexpected[0]))

        if self._script.steps:
            left = len(self._script.steps)
            raise UnusedStepsError(
                f"{left} unused steps after {len(self.requests)} requests: {self._script.steps[0]!r}"
            )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        script = self._script
        script.requests.append(request)
        script.open += 1

        try:
            step = self._next_step(request)
            params = await request.observer.before_request(await self.prepare(request))
            script.sent.append(params)
            played: list[StreamEvent] = []

            async with aclosing(self._play(await _resolve(step, request))) as events:
                async for event in events:
                    played.append(event)
                    await request.observer.chunk(event)

                    if isinstance(event, MessageStop):
                        await request.observer.response({"events": played})

                    yield event
        finally:
            script.open -= 1
            script.closed += 1

    def _next_step(self, request: ModelRequest) -> Step:
        if self._script.steps:
            return self._script.steps.popleft()

        if self._script.otherwise is not None:
            return self._script.otherwise

        self._script.unexpected.append(request)
        raise UnexpectedRequestError(_describe(len(self.requests), request))

    async def _play(self, parts: Sequence[Part]) -> AsyncGenerator[StreamEvent, None]:
        for part in parts:
            match part:
                case Delay(seconds):
                    await clock().sleep(seconds)
                case Fault(error):
                    raise error
                case Stall():
                    await anyio.sleep_forever()
                case Call():
                    for event in self._call(part):
                        yield event
                case _:
                    yield part

    def _call(self, call: Call) -> list[StreamEvent]:
        self._script.calls += 1
        tool_request_id = call.tool_request_id or f"call_{self._script.calls}"

        return [
            ToolCallStart(call.index, tool_request_id, call.tool),
            ToolArgumentsDelta(call.index, call.arguments),
            ContentStop(call.index),
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self.assert_complete()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, at)


async def _resolve(step: Step, request: ModelRequest) -> Sequence[Part]:
    """The parts of a step; a function is asked for the step it stands for."""
    match step:
        case str():
            return reply(step)
        case Sequence():
            return cast("Sequence[Part]", step)  # mypy takes it for a str, too
        case _ if callable(step):
            given = step(request)

            return await _resolve(await given if inspect.isawaitable(given) else given, request)
        case _:
            return [step]


def _describe(number: int, request: ModelRequest) -> str:
    last = request.messages[-1] if request.messages else None

    return f"request {number} is beyond the script; its last message is {last!r}"
