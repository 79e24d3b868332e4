"""What can be read of a conversation, and what can be assigned."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from simulacra.dialog.core import Core
from simulacra.dialog.floor import QueuedInput, WhenBusy
from simulacra.errors import ConfigurationError
from simulacra.events import ConversationState
from simulacra.journal import EntryDraft, Journal
from simulacra.messages import CheckpointState, Message
from simulacra.provider import ModelProvider, RequestOptions
from simulacra.registry import resolve
from simulacra.tokens import TokenCounter
from simulacra.tools import ToolClass

if TYPE_CHECKING:
    from simulacra.conversation import Conversation

T = TypeVar("T")


class ConversationAttributes:
    """Attributes of a `Conversation`. Settings can be assigned until it is disposed; a turn reads them at its start."""

    core: Core
    """The moving parts, for drivers and front ends."""
    _parent: Conversation | None = None
    _is_checkpoint: bool = False

    @property
    def id(self) -> str:
        return self.core.id

    @property
    def state(self) -> ConversationState:
        return self.core.state

    @property
    def is_busy(self) -> bool:
        """Whether a response, or the tools between two of them, are under way."""
        return self.core.floor.is_taken

    @property
    def messages(self) -> tuple[Message, ...]:
        """The history; the same tuple until it changes."""
        return self.core.journal.history.messages

    @property
    def queued(self) -> tuple[QueuedInput, ...]:
        """Inputs that wait, oldest first."""
        return self.core.floor.queued

    @property
    def turn_count(self) -> int:
        """How many responses were completed."""
        return self.core.journal.history.turn_count

    @property
    def journal(self) -> Journal:
        return self.core.journal

    @property
    def parent(self) -> Conversation | None:
        return self._parent

    @property
    def is_checkpoint(self) -> bool:
        """Whether this is the child that writes a checkpoint's summary."""
        return self._is_checkpoint

    @property
    def checkpoints(self) -> tuple[CheckpointState, ...]:
        """The checkpoints kept, oldest first."""
        return self.core.journal.history.checkpoints

    @property
    def checkpoint_state(self) -> CheckpointState | None:
        """The checkpoint in force; assign an earlier one to go back to it, or `None` to drop it, while idle."""
        return self.core.journal.history.checkpoint

    @checkpoint_state.setter
    def checkpoint_state(self, state: CheckpointState | None) -> None:
        self.core.require_free("setting the checkpoint")

        if state is not None and self.core.journal.history.position(state.message_id) is None:
            raise ConfigurationError(f"no message {state.message_id!r} in history: a checkpoint ends at one of them")

        self.core.rewrite("restore", EntryDraft("checkpoint", {"state": state}))

    @property
    def provider(self) -> ModelProvider:
        return self.core.settings.provider

    @provider.setter
    def provider(self, provider: ModelProvider | str) -> None:
        self._require_alive("setting the provider")
        self.core.settings.provider = provider_of(provider)

    @property
    def system(self) -> str | None:
        return self.core.settings.system

    @system.setter
    def system(self, system: str | None) -> None:
        self._require_alive("setting the system prompt")
        self.core.settings.system = require_kind(system, str | None, "system")

    @property
    def toolkit(self) -> tuple[type[ToolClass], ...]:
        return self.core.settings.toolkit

    @toolkit.setter
    def toolkit(self, toolkit: Sequence[type[ToolClass]]) -> None:
        self._require_alive("setting the toolkit")
        self.core.settings.toolkit = toolkit

    @property
    def options(self) -> RequestOptions:
        return self.core.settings.options

    @options.setter
    def options(self, options: RequestOptions) -> None:
        self._require_alive("setting the options")
        self.core.settings.options = require_kind(options, RequestOptions, "options")

    @property
    def token_counter(self) -> TokenCounter:
        return self.core.settings.counter

    @token_counter.setter
    def token_counter(self, counter: TokenCounter) -> None:
        self._require_alive("setting the token counter")
        self.core.settings.counter = require_kind(counter, TokenCounter, "token_counter")

    @property
    def when_busy(self) -> WhenBusy:
        return self.core.floor.when_busy

    @when_busy.setter
    def when_busy(self, when_busy: WhenBusy) -> None:
        self.core.floor.when_busy = require_choice(when_busy)

    def _require_alive(self, operation: str) -> None:
        if self.core.is_closing:
            self.core.require_state(operation, "idle")


def require_kind(value: T, kind: type[Any] | UnionType, name: str) -> T:
    """The value, if it is what it should be.

    Raises:
        ConfigurationError: It is not.
    """
    if not isinstance(value, kind):
        raise ConfigurationError(
            f"{name} takes {getattr(kind, '__name__', kind)}, not {type(value).__name__}: {value!r:.100}"
        )

    return value


def require_choice(when_busy: WhenBusy) -> WhenBusy:
    """The value, if it is one of the five.

    Raises:
        ConfigurationError: It is not.
    """
    if when_busy not in get_args(WhenBusy):
        raise ConfigurationError(f"when_busy is one of {', '.join(get_args(WhenBusy))}, not {when_busy!r}")

    return when_busy


def provider_of(provider: ModelProvider | str) -> ModelProvider:
    """A provider, given as such or by name.

    Raises:
        ConfigurationError: Neither.
    """
    if isinstance(provider, str):
        return resolve(provider)

    if isinstance(provider, type) and issubclass(provider, ModelProvider):
        raise ConfigurationError(f"a provider is an instance: write {provider.__name__}(...), not {provider.__name__}")

    if not isinstance(provider, ModelProvider):
        raise ConfigurationError(
            f"a provider is a ModelProvider or its name 'vendor:model', not {type(provider).__name__}"
        )

    for name in ("kind", "model"):
        if not isinstance(getattr(provider, name, None), str):
            raise ConfigurationError(
                f"{type(provider).__name__} needs a text {name!r}: set it in the class or instance"
            )

    return provider
