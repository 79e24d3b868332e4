"""The provider port: one verb, `stream`, and what goes in.

A provider turns a frozen `ModelRequest` into stream events and raises errors of `simulacra.errors`. It never retries,
never touches a conversation, and closes its HTTP response when its iterator is closed.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from simulacra.errors import ConfigurationError
from simulacra.messages import Message
from simulacra.schema import ToolDefinition
from simulacra.serialization import dump_message
from simulacra.streaming import StreamEvent

if TYPE_CHECKING:
    from simulacra.rules import RuleTable
    from simulacra.transformers import ContextTransformer


class RequestOptions(BaseModel):
    """What a request asks for beside its messages; keys the engine does not know go to the vendor as they are.

    Args:
        max_tokens: Most tokens the model may write.
        thinking: Reasoning, as the provider's documentation says; `{"enable": True, "budget_tokens": n}` everywhere.
        tool_choice: `auto`, `none`, `any`, or a tool's name.
        first_event_timeout: Seconds to the first event of an attempt; `None` sets no limit.
        idle_timeout: Seconds between two chunks of a stream, vendor pings included; `None` sets no limit.
        total_timeout: Seconds for the whole turn, retries included; `None` sets no limit.

    Raises:
        ConfigurationError: An option has a value it cannot take.
    """

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)  # built on first use
    __pydantic_extra__: dict[str, Any] = Field(init=False)

    max_tokens: int | None = Field(default=None, gt=0)
    thinking: dict[str, JsonValue] | None = None
    tool_choice: str | None = None
    first_event_timeout: float | None = Field(default=600.0, gt=0)
    idle_timeout: float | None = Field(default=120.0, gt=0)
    total_timeout: float | None = Field(default=None, gt=0)

    def __init__(self, /, **options: Any) -> None:
        try:
            super().__init__(**options)
        except ValidationError as error:
            raise ConfigurationError(f"request options: {error}") from error

    def updated(self, **changes: Any) -> RequestOptions:
        """A copy with keys added or replaced; `None` removes an extra key and switches a known one off.

        Raises:
            ConfigurationError: A known option has a value it cannot take.
        """
        merged = {**dict(self), **changes}
        known = type(self).model_fields

        return RequestOptions(**{key: value for key, value in merged.items() if value is not None or key in known})

    @property
    def extra(self) -> Mapping[str, Any]:
        """The keys that go to the vendor as they are."""
        return self.__pydantic_extra__


class RequestObserver(Protocol):
    """The engine's ear in a provider: what it is told becomes `before_request` and the `raw_*` events (RX-5)."""

    wants_chunks: bool
    """Whether `chunk` does anything but note the time; a provider may then spare itself building the data."""

    async def before_request(self, params: dict[str, Any]) -> dict[str, Any]:
        """Told before sending; what it returns is to be sent."""
        ...

    async def chunk(self, data: Any) -> None:
        """Told every raw chunk, pings included, before the events made from it are yielded."""
        ...

    async def response(self, data: Any) -> None:
        """Told the vendor's whole answer, before the closing event is yielded: nothing is pulled after that one."""
        ...


class SilentObserver:
    """An observer for a provider that is used without a conversation."""

    wants_chunks = False

    async def before_request(self, params: dict[str, Any]) -> dict[str, Any]:
        return params

    async def chunk(self, data: Any) -> None:
        del data

    async def response(self, data: Any) -> None:
        del data


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRequest:
    """An object to be returned instead of free text: its JSON Schema and how the vendor is asked for it."""

    schema: Mapping[str, Any]
    mode: str = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request, vendor neutral. `system` is never a message; `tools` are definitions, never classes."""

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    system: tuple[str, ...] = ()
    options: RequestOptions = field(default_factory=RequestOptions)
    output: OutputRequest | None = None
    observer: RequestObserver = field(default_factory=SilentObserver)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderProfile:
    """What a provider and its model can do; unknown is `None`.

    Args:
        context_window: Tokens a request and its reply may have together.
        max_output_tokens: Tokens a reply may have.
        media_types: Media types that are accepted in prompts.
        raw_kinds: Kinds of `RawContent` that are sent back as they came.
        rules: What the vendor's API accepts; every request is put right by it last.
    """

    context_window: int | None = None
    max_output_tokens: int | None = None
    media_types: frozenset[str] | None = None
    raw_kinds: frozenset[str] = frozenset()
    rules: RuleTable | None = None


class ModelProvider(ABC):
    """A vendor's model, as the engine sees it."""

    kind: ClassVar[str]
    model: str
    profile: ProviderProfile = ProviderProfile()
    context_transformers: Sequence[ContextTransformer] = ()

    @abstractmethod
    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Send the request and yield the reply as deltas, `MessageStop` last.

        An implementation hands the params of `prepare` to `request.observer.before_request` and sends what that
        returns, tells the observer each raw chunk and, at the end, the whole response, and closes the HTTP response
        when the iterator is closed or fails.

        Raises:
            ProviderError: The request failed; `retryable` says whether repeating it makes sense.
        """

    async def prepare(self, request: ModelRequest) -> dict[str, Any]:
        """The vendor's parameters for this request, SDK options included."""
        return {
            "model": self.model,
            "system": list(request.system),
            "messages": [dump_message(message) for message in request.messages],
            "tools": [
                {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema()}
                for tool in request.tools
            ],
            **request.options.model_dump(exclude_none=True),
        }

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Exact number of input tokens, counted by the vendor; `None` where it offers no count."""
        del request

        return None

    def clone(self) -> Self:
        """A provider of its own that shares the SDK client; changing one's options never changes the other's."""
        twin = copy.copy(self)

        for name, value in vars(twin).items():
            setattr(twin, name, _copy_containers(value))

        return twin


def _copy_containers(value: Any) -> Any:
    """Plain containers made anew at every depth; everything else, SDK clients above all, is shared."""
    if type(value) is dict:
        return {key: _copy_containers(item) for key, item in value.items()}

    if type(value) is list:
        return [_copy_containers(item) for item in value]

    return set(value) if type(value) is set else value


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderPlugin:
    """What an entry point of the group `simulacra.providers` loads.

    Args:
        kind: The vendor's word in `"vendor:model"`.
        create: `create(model, **options)` builds the SDK client from its environment.
        keys: Environment variables that hold a key; empty when none is needed.
        remedy: How to get what is missing, as one sentence or command.
        default_model: The model meant by the bare vendor's word.
        rules: What the vendor's API accepts, for linting and emulators that have neither client nor key.
    """

    kind: str
    create: Callable[..., ModelProvider]
    keys: tuple[str, ...] = ()
    remedy: str = ""
    default_model: str | None = None
    rules: RuleTable | None = None
