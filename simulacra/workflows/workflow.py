"""A workflow: a chain of turns joined by tool results, and what it announces."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Protocol

from simulacra.conversation import Conversation
from simulacra.dialog.inputs import TextOrContents, input_of
from simulacra.dialog.run import Run, admit
from simulacra.emitter import Emitter, Event, Observable, Unsubscribe
from simulacra.errors import ConfigurationError, InvalidStateError
from simulacra.events import MessageComplete, PromptSend, ResponseCancelled
from simulacra.messages import Message, Response, Usage, UserContent, UserMessage
from simulacra.tools import ToolProgress
from simulacra.workflows.events import (
    WORKFLOW_EVENTS,
    ChildWorkflowBegin,
    ChildWorkflowEvent,
    MessageDequeued,
    MessageQueued,
    QueueCleared,
    WorkflowDispose,
    WorkflowEnd,
    WorkflowLifecycleError,
    WorkflowState,
    WorkflowStateChange,
    WorkflowToolProgress,
    WorkflowUpdate,
)
from simulacra.workflows.limits import LoopOptions
from simulacra.workflows.loop import ToolLoop
from simulacra.workflows.result import WorkflowResult, reason_of, reason_of_error


class Hearer(Protocol):
    """Where events go beside a workflow's own listeners."""

    async def emit(self, event: Event) -> None: ...

    def post(self, event: Event) -> None: ...


class Workflow(Observable):
    """One tool loop on a conversation, started once.

    Args:
        conversation: Where the turns are made.
        context_data: Shared by all tools of the workflow.
        parent: The workflow this one works for.
        id: Its id; a new UUID4 unless given.
        options: Bounds and hooks of the loop.
    """

    def __init__(
        self,
        conversation: Conversation,
        *,
        context_data: Any = None,
        parent: Workflow | None = None,
        id: str | None = None,  # noqa: A002 -- the name of the field
        options: LoopOptions | None = None,
    ) -> None:
        self.id = id or str(uuid.uuid4())
        self.conversation = conversation
        self.parent = parent
        self.context_data = {} if context_data is None else context_data
        self.state: WorkflowState = "idle"
        self.result: WorkflowResult | None = None
        self._options = options or LoopOptions()
        self._messages: list[Message] = []
        self._children: list[Workflow] = []
        self._run: Run | None = None
        self._emitter = Emitter(WORKFLOW_EVENTS, report=self._report)
        self.stir: Callable[[], None] = _nobody_waits
        """Wakes the loop while it waits for tools: there is something for the consumer of its stream."""
        self._above: Hearer | None = None
        self._wrap: Callable[[Event], Event] = _as_it_is

    @property
    def messages(self) -> tuple[Message, ...]:
        """What this workflow sent and received."""
        return tuple(self._messages)

    @property
    def queued_messages(self) -> tuple[tuple[UserContent, ...], ...]:
        """Messages that wait for a normal stop."""
        return tuple(waiting.contents for waiting in self.conversation.queued if not waiting.has_caller)

    async def start(self, text_or_contents: TextOrContents, **options: Any) -> WorkflowResult:
        """Send, and conduct the loop to its end.

        Args:
            text_or_contents: Text, or content blocks of a user message.
            options: Options of these requests only, as in `RequestOptions`.

        Raises:
            InvalidStateError: Started before, or the conversation has a manager.
        """
        self._require_idle()
        core = self.conversation.core

        if core.driver is not None:
            raise InvalidStateError(
                "starting a workflow", state="led by a manager", remedy="Use the manager's run(), or detach it first"
            )

        message = input_of(text_or_contents)

        return await conclude(self, admit(core, message, options, streaming=False, driver=lambda: self))

    async def drive(self, run: Run) -> AsyncGenerator[Event, None]:
        """Conduct the loop on a run; the conversation calls this."""
        async with aclosing(self.conduct(run, run.user_messages())) as events:
            async for event in events:
                yield event

    async def conduct(
        self, run: Run, inputs: tuple[UserMessage, ...], *, committed: bool = False
    ) -> AsyncGenerator[Event, None]:
        """The loop from its first message on; raises what ended it, after the workflow has ended."""
        self._require_idle()
        self._run = run
        loop = ToolLoop(self, run, self._options, self.context_data)
        unsubscribe = self._watch()

        try:
            with run.step():
                await self.emit(self._changed("busy"))

            async with aclosing(loop.events(inputs, committed=committed)) as events:
                async for event in events:
                    yield event
        except Exception as error:  # noqa: BLE001 -- raised below, once the workflow has ended
            loop.reason, loop.error = "error", error
        except BaseException:
            loop.reason = "cancel"
            run.cancel()
            raise
        finally:
            for stop in unsubscribe:
                stop()

            run.response = loop.response
            await self._end(run, loop)

        while run.outbox:
            yield run.outbox.popleft()

        if loop.error is not None:
            raise loop.error

    def cancel(self) -> None:
        """Cancel what is under way; the workflow ends with reason `cancel`."""
        if self._run is not None and self.state == "busy":
            self._run.cancel()

        for child in self._children:
            child.cancel()

    def queue_message(self, text_or_contents: TextOrContents) -> None:
        """Send this at the next normal stop.

        Raises:
            ConfigurationError: Nothing to send.
            InvalidStateError: The workflow is over, or too many inputs wait.
        """
        if self.state == "disposed":
            raise InvalidStateError("queue_message", state="disposed", allowed=("idle", "busy"))

        message = input_of(text_or_contents)
        self.conversation.core.floor.enqueue(message, has_caller=False)
        self.post(MessageQueued(workflow=self, message=message.content))

    def clear_queue(self) -> int:
        """Drop what waits. Returns how many messages that were."""
        count = self.conversation.clear_queue()
        self.post(QueueCleared(workflow=self, count=count))

        return count

    def spawn_child(
        self,
        conversation: Conversation,
        *,
        id: str | None = None,  # noqa: A002 -- the name of the field
        context_data: Any = None,
    ) -> Workflow:
        """A workflow that works for this one; cancelling this one cancels it (WF-13)."""
        data = self.context_data if context_data is None else context_data
        child = Workflow(conversation, context_data=data, parent=self, id=id, options=self._options)
        child.forward_to(self, lambda event: ChildWorkflowEvent(workflow=self, event=event))
        self._children.append(child)
        self.post(ChildWorkflowBegin(workflow=self, child=child))

        return child

    def forward_to(self, above: Hearer, wrap: Callable[[Event], Event]) -> None:
        """Let a manager or a parent workflow hear every event, wrapped."""
        self._above = above
        self._wrap = wrap

    async def emit(self, event: Event) -> None:
        """Announce to the consumer, to the listeners, and above."""
        self._keep(event)

        try:
            await self._emitter.emit(event)
        except BaseException:  # cancelled: those above are owed it all the same
            self._post_above(event)
            raise

        if self._above is not None:
            await self._above.emit(self._wrap(event))

    def post(self, event: Event) -> None:
        """`emit`, from a sync call."""
        self._keep(event)
        self._emitter.post(event)
        self._post_above(event)

    async def announce_dequeued(self, contents: tuple[UserContent, ...]) -> None:
        await self.emit(MessageDequeued(workflow=self, message=contents))

    async def announce_progress(self, progress: ToolProgress) -> None:
        await self.emit(WorkflowToolProgress(workflow=self, progress=progress))

    def _post_above(self, event: Event) -> None:
        if self._above is not None:
            self._above.post(self._wrap(event))

    def _keep(self, event: Event) -> None:
        if self._run is not None:
            self._run.keep(event)
            self.stir()

    def _require_idle(self) -> None:
        if self.state != "idle":
            raise InvalidStateError(
                "starting a workflow", state=self.state, allowed=("idle",), remedy="Create a new Workflow"
            )

    def _watch(self) -> tuple[Unsubscribe, ...]:
        """What the conversation sends and receives is what this workflow sees (WF-1)."""

        async def sent(event: PromptSend) -> None:
            await self._saw(event.message)

        async def received(event: MessageComplete) -> None:
            await self._saw(event.message)

        async def cut(event: ResponseCancelled) -> None:
            if event.message is not None:
                await self._saw(event.message)

        conversation = self.conversation

        return (
            conversation.on(PromptSend, sent),
            conversation.on(MessageComplete, received),
            conversation.on(ResponseCancelled, cut),
        )

    async def _saw(self, message: Message) -> None:
        self._messages.append(message)
        await self.emit(WorkflowUpdate(workflow=self, message=message))

    async def _end(self, run: Run, loop: ToolLoop) -> None:
        """Announce the end (WF-11); whatever cuts an announcement short, the next one is made."""
        rest = self._unseen()
        self._messages += rest
        self.result = result = WorkflowResult(
            reason=loop.reason,
            response=loop.response,
            messages=self.messages,
            usage=loop.usage,
            rounds=loop.rounds,
            error=loop.error,
        )

        if loop.reason == "cancel":
            for child in self._children:
                child.cancel()

        acts: deque[Callable[[], Event]] = deque()
        acts.extend(partial(WorkflowUpdate, workflow=self, message=message) for message in rest)
        acts.append(partial(self._changed, "idle"))
        acts.append(partial(WorkflowEnd, workflow=self, result=result, reason=result.reason))
        acts.append(partial(WorkflowDispose, workflow=self))
        acts.append(partial(self._changed, "disposed"))

        try:
            with run.closing():
                while acts:
                    await self.emit(acts.popleft()())
        finally:
            if acts:
                self._end_without_waiting(run, acts)
            else:
                self._emitter.close()

    def _end_without_waiting(self, run: Run, acts: deque[Callable[[], Event]]) -> None:
        """Sync listeners hear the rest now; async ones, beside whatever comes next."""
        while acts:
            self.post(acts.popleft()())

        async def tell_async_listeners() -> None:
            try:
                await self._emitter.flush()
            finally:
                self._emitter.close()

        run.core.background.start(tell_async_listeners)

    def _unseen(self) -> tuple[Message, ...]:
        """Results that a cancel left unsent are in history, too."""
        history = self.conversation.journal.history
        last = history.position(self._messages[-1].id or "") if self._messages else None

        return () if last is None else history.messages[last + 1 :]

    def _changed(self, current: WorkflowState) -> WorkflowStateChange:
        previous, self.state = self.state, current

        return WorkflowStateChange(workflow=self, previous=previous, current=current)

    async def _report(self, error: Exception, event_name: str) -> None:
        await self._emitter.emit(
            WorkflowLifecycleError(workflow=self, error=error, operation="listener", context={"event": event_name})
        )


async def conclude(workflow: Workflow, admission: Awaitable[Run | Response]) -> WorkflowResult:
    """Iterate the run that `workflow` conducts; never raises for what the model did."""
    try:
        admitted = await admission
    except (InvalidStateError, ConfigurationError):
        raise
    except Exception as error:  # noqa: BLE001 -- what ended the run that this input became a part of
        reason = reason_of_error(error)

        return WorkflowResult(reason=reason, response=None, messages=(), usage=Usage(), rounds=0, error=error)

    if isinstance(admitted, Response):
        return result_of(admitted)

    async with aclosing(admitted.events()) as events:
        try:
            async for _ in events:
                pass
        except Exception:
            if workflow.result is None:
                raise

    if workflow.result is None:
        assert admitted.response is not None
        return result_of(admitted.response)

    return workflow.result


def result_of(response: Response) -> WorkflowResult:
    """The result of an input that another caller's work answered, or that was dropped."""
    return WorkflowResult(
        reason=reason_of(response.stop_reason),
        response=response,
        messages=() if response.message is None else (response.message,),
        usage=Usage(),
        rounds=0,
    )


def _nobody_waits() -> None:
    """No tools are under way."""


def _as_it_is(event: Event) -> Event:
    """Nobody above hears it."""
    return event
