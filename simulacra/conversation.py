"""The conversation: holds messages and state, admits inputs one at a time, and is the only writer of its history."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any

from simulacra.blocking import refuse_inside_loop, run_sync
from simulacra.checkpoints import CheckpointConfig, DefaultSummarizationStrategy, SummarizationStrategy
from simulacra.dialog.attributes import ConversationAttributes, provider_of, require_choice, require_kind
from simulacra.dialog.checkpointing import make_checkpoint
from simulacra.dialog.core import Core, Settings
from simulacra.dialog.disposal import Disposable
from simulacra.dialog.floor import WhenBusy
from simulacra.dialog.inputs import TextOrContents, identified, input_of
from simulacra.dialog.run import Driver, Run, admit
from simulacra.dialog.stream import TurnStream
from simulacra.dialog.sync_stream import SyncTurnStream
from simulacra.emitter import Observable
from simulacra.errors import ConfigurationError, InvalidStateError
from simulacra.events import CreateChild, Dispose, StateChange
from simulacra.journal import EntryDraft
from simulacra.messages import CheckpointState, Message, Response
from simulacra.policies import Policy, default_policy
from simulacra.provider import ModelProvider, RequestOptions
from simulacra.tools import ToolClass
from simulacra.transformers import (
    CheckpointContextTransformer,
    CompositeContextTransformer,
    ContextTransformer,
    ToolContextTransformer,
)

logging.getLogger("simulacra").addHandler(logging.NullHandler())  # what is logged is the program's to show

_default_driver: list[Callable[[Conversation], Driver]] = []


def register_default_driver(make: Callable[[Conversation], Driver]) -> None:
    """Tell conversations what conducts the tool loop of a prompt when no manager is attached."""
    _default_driver[:] = [make]


class Conversation(ConversationAttributes, Observable, Disposable):
    """A conversation with a model.

    Args:
        provider: Who answers, or its name: `"vendor:model"`.
        policy: What surrounds each request; `default_policy()` unless given.
        context_transformer: What shapes each request; tool orphans, then the checkpoint, unless given.
        summarization_strategy: How a checkpoint's summary is asked for.
        id: The conversation's id; a new UUID4 unless given.
        system: The system prompt.
        toolkit: Tool classes that the model may call.
        options: Options of every request.
        when_busy: What becomes of a prompt while a response or its tools are under way.

    Raises:
        ConfigurationError: An unknown provider, a toolkit that cannot be right.
    """

    def __init__(  # noqa: PLR0913 -- keyword options of a constructor
        self,
        provider: ModelProvider | str,
        policy: Policy | None = None,
        context_transformer: ContextTransformer | None = None,
        summarization_strategy: SummarizationStrategy | None = None,
        *,
        id: str | None = None,  # noqa: A002 -- the name of the field
        system: str | None = None,
        toolkit: Sequence[type[ToolClass]] = (),
        options: RequestOptions | None = None,
        when_busy: WhenBusy = "reject",
    ) -> None:
        settings = Settings(
            provider_of(provider),
            require_kind(policy or default_policy(), Policy, "policy"),
            require_kind(context_transformer or _default_transformer(), ContextTransformer, "context_transformer"),
            require_kind(
                summarization_strategy or DefaultSummarizationStrategy(),
                SummarizationStrategy,
                "summarization_strategy",
            ),
            options=require_kind(options or RequestOptions(), RequestOptions, "options"),
        )
        settings.system = require_kind(system, str | None, "system")
        settings.toolkit = toolkit
        self.core = Core(self, id or str(uuid.uuid4()), settings, when_busy=require_choice(when_busy))
        """The moving parts, for drivers and front ends."""
        self._emitter = self.core.emitter
        self._children: list[Conversation] = []
        settings.policy.attach(self)
        settings.transformer.attach(self)

    async def prompt(self, text_or_contents: TextOrContents, **options: Any) -> Response:
        """Send, and wait for the end of the model's work: with tools in the toolkit, the whole tool loop.

        Args:
            text_or_contents: Text, or content blocks of a user message.
            options: Options of these requests only, as in `RequestOptions`.

        Returns:
            The final response; one with `stop_reason="cancelled"` when it was cancelled.

        Raises:
            InvalidStateError: Disposed, or busy and set to reject.
            ConfigurationError: Nothing to send, or a wrong option.
            ProviderError: The request failed; history is as before it.
        """
        message = input_of(text_or_contents)
        run = await admit(self.core, message, options, streaming=False, driver=self._loop_driver)

        return await _respond(run)

    async def send_message(self, contents: TextOrContents, **options: Any) -> Response:
        """Send, and wait for exactly one reply; tool calls in it are the caller's to answer. As `prompt` otherwise."""
        run = await admit(self.core, input_of(contents), options, streaming=False)

        return await _respond(run)

    def stream(self, text_or_contents: TextOrContents, **options: Any) -> TurnStream:
        """As `prompt`, event by event: `async with conversation.stream("...") as stream`."""
        message = input_of(text_or_contents)
        self.options.updated(**options)  # what is wrong is refused here and now

        return TurnStream(lambda: admit(self.core, message, options, streaming=True, driver=self._loop_driver))

    def prompt_sync(self, text_or_contents: TextOrContents, **options: Any) -> Response:
        """`prompt` for plain scripts. Ctrl-C cancels, keeps what was delivered, and is raised again.

        Raises:
            InvalidStateError: Called inside a running event loop.
        """
        refuse_inside_loop("prompt_sync", "Use `await conversation.prompt(...)`")

        return run_sync(self.prompt(text_or_contents, **options))

    def stream_sync(self, text_or_contents: TextOrContents, **options: Any) -> SyncTurnStream:
        """`stream` for plain scripts: `with conversation.stream_sync("...") as stream`.

        Raises:
            InvalidStateError: Called inside a running event loop.
        """
        refuse_inside_loop("stream_sync", "Use `async with conversation.stream(...)`")

        return SyncTurnStream(self.stream(text_or_contents, **options))

    def cancel_response(self) -> None:
        """Cancel what is under way: the HTTP request is aborted, running tools are cancelled. Idempotent.

        Raises:
            InvalidStateError: Nothing is under way.
        """
        if self.state == "disposed" or not self.is_busy:
            raise InvalidStateError(
                "cancel_response",
                state=self.state,
                allowed=("awaiting_response", "streaming_response", "stopping"),
                remedy="There is no response under way",
            )

        self.core.cancel()

    async def interrupt(self, text_or_contents: TextOrContents | None = None, **options: Any) -> Response | None:
        """Cancel what is under way, keep what was delivered, then send.

        Args:
            text_or_contents: What to send, before everything that waits; nothing is sent without it.
            options: As for `prompt`.

        Returns:
            The response, or `None` without an input.
        """
        self._require_alive("interrupt")

        if text_or_contents is None:
            run = self.core.run
            self.core.cancel()

            if run is not None:
                await run.wait_settled()

            return None

        message = input_of(text_or_contents)

        return await _respond(
            await admit(self.core, message, options, streaming=False, driver=self._loop_driver, first=True)
        )

    def clear_queue(self) -> int:
        """Drop the inputs that wait; their callers get a cancelled response. Returns how many."""
        return self.core.floor.clear()

    def clear(self) -> None:
        """Empty the history and drop the checkpoint; only when idle."""
        self.core.require_free("clear")
        self.core.rewrite("clear", EntryDraft("history_cleared", {}))

    def load(self, messages: Sequence[Message]) -> None:
        """Replace the history; only when idle. Messages without an id get one.

        Raises:
            ConfigurationError: Two messages have one id, or something is no message.
            InvalidStateError: Something is under way.
        """
        self.core.require_free("load")
        require_kind(messages, Sequence, "messages")
        loaded = tuple(identified(message) for message in messages)
        ids = [message.id for message in loaded]

        if len(set(ids)) < len(ids):
            twice = next(message_id for message_id in ids if ids.count(message_id) > 1)
            raise ConfigurationError(f"duplicate message id {twice!r}: give each message its own id, or none")

        checkpoint = self.checkpoint_state
        kept = checkpoint if checkpoint is not None and checkpoint.message_id in ids else None
        self.core.rewrite("load", EntryDraft("history_loaded", {"messages": loaded, "checkpoint": kept}))

    def spawn_child(
        self,
        *,
        fork_session: bool = False,
        id: str | None = None,  # noqa: A002 -- the name of the field
        provider: ModelProvider | str | None = None,
        system: str | None = None,
        toolkit: Sequence[type[ToolClass]] | None = None,
        is_checkpoint: bool = False,
    ) -> Conversation:
        """A child conversation with the same policy, transformer and strategy; its events bubble up to here.

        Args:
            fork_session: Also take over history and checkpoint.
            id: The child's id.
            provider: Who answers; a clone of this conversation's provider unless given.
            system: The system prompt; inherited unless given, `""` means none.
            toolkit: The tools; inherited unless given, `()` means none.
            is_checkpoint: Mark it as the writer of a checkpoint's summary.
        """
        self._require_alive("spawn_child")
        settings = self.core.settings
        child = Conversation(
            settings.provider.clone() if provider is None else provider,
            settings.policy,
            settings.transformer,
            settings.strategy,
            id=id,
            system=settings.system if system is None else system or None,
            toolkit=settings.toolkit if toolkit is None else toolkit,
            options=settings.options,
        )
        child._parent = self
        child._is_checkpoint = is_checkpoint
        self._children.append(child)
        self.core.emitter.post(CreateChild(conversation=self, child=child))
        child.core.emitter.parent = self.core.emitter

        if fork_session and self.messages:
            forked = {"messages": self.messages, "checkpoint": self.checkpoint_state}
            child.core.journal.record(EntryDraft("history_loaded", forked))

        return child

    async def checkpoint(self, config: CheckpointConfig | None = None) -> CheckpointState:
        """Summarise the history so far; later requests carry the summary in place of what it covers.

        Args:
            config: Further context for the summary, or another provider to write it.

        Raises:
            InvalidStateError: A turn or another checkpoint is under way, or there is nothing new to summarise.
            ProtocolError: The summary is blank, cut off, refused or filtered; nothing was changed.
            OperationCancelledError: The summary was cancelled.
        """
        return await make_checkpoint(self.core, config)

    async def aclose(self) -> None:
        """Dispose: cancel what is under way, dispose the children, tell the listeners, end.

        Idempotent: further calls wait, for a bounded time, until the first one has done it.
        """
        core = self.core

        if core.is_closing:
            await core.disposal.wait()
            return

        with core.disposal:
            core.floor.clear("disposed")
            core.cancel()

            try:
                await self._settle()
            finally:  # also when a listener is slow, and the caller does not wait for it
                await self._end()

    async def _settle(self) -> None:
        """What works for this conversation ends: its response, its children, its background work."""
        core = self.core

        if core.run is not None:
            await core.run.wait_settled()

        try:
            await _close_all(tuple(self._children))
        finally:
            await core.background.aclose()

    async def _end(self) -> None:
        """The last events; nothing is heard of this conversation afterwards."""
        core = self.core

        try:
            await core.emitter.emit(Dispose(conversation=self))
        finally:
            previous = core.move_to("disposed")
            assert previous is not None

            try:
                await core.emitter.emit(StateChange(conversation=self, previous=previous, current="disposed"))
            finally:
                core.emitter.close()

                if self._parent is not None:
                    self._parent._children.remove(self)  # noqa: SLF001 -- a child takes itself off its parent

    def __repr__(self) -> str:
        return f"Conversation(id={self.id!r}, state={self.state!r}, messages={len(self.messages)})"

    def _loop_driver(self) -> Driver | None:
        """What conducts the tool loop: the attached manager, or a default one when there are tools."""
        if self.core.driver is not None:
            return self.core.driver

        return _default_driver[0](self) if self.toolkit and _default_driver else None


async def _respond(admitted: Run | Response) -> Response:
    if isinstance(admitted, Response):
        return admitted

    async with aclosing(admitted.events()) as events:
        async for _ in events:
            pass

    assert admitted.response is not None

    return admitted.response


async def _close_all(children: Sequence[Conversation]) -> None:
    """Close each of them, whatever interrupts the waiting for one."""
    interruption: BaseException | None = None

    for child in children:
        try:
            await child.aclose()
        except BaseException as error:  # noqa: BLE001 -- raised when all are closed
            interruption = error

    if interruption is not None:
        raise interruption


def _default_transformer() -> ContextTransformer:
    return CompositeContextTransformer([ToolContextTransformer(), CheckpointContextTransformer()])
