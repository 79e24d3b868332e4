"""The manager: conducts the tool loop of every prompt of its conversation, one workflow each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import anyio

from simulacra.blocking import refuse_inside_loop, run_sync
from simulacra.conversation import Conversation, register_default_driver
from simulacra.dialog.attributes import require_kind
from simulacra.dialog.disposal import Disposable, Disposal
from simulacra.dialog.inputs import TextOrContents, input_of
from simulacra.dialog.run import Run, admit
from simulacra.emitter import Emitter, Event, Observable
from simulacra.errors import InvalidStateError
from simulacra.events import Dispose
from simulacra.messages import AssistantMessage, Message, Response, ToolResultContent, UserMessage
from simulacra.workflows.events import (
    MANAGER_EVENTS,
    ForwardedWorkflowEvent,
    ManagerDispose,
    ManagerLifecycleError,
    ManagerStateChange,
    WorkflowBegin,
    WorkflowState,
)
from simulacra.workflows.limits import FINAL_SYSTEM_PROMPT, LoopOptions, ToolResultInfo
from simulacra.workflows.result import WorkflowResult
from simulacra.workflows.workflow import Workflow, conclude


class WorkflowManager(Observable, Disposable):
    """Conducts the tool loop of a conversation; at most one manager per conversation.

    Args:
        conversation: Whose prompts it conducts.
        context_data: Shared by all tools of all its workflows: a mapping, or any object.
        max_rounds: Model replies per run before the last request, which is made with tools switched off.
        max_tool_calls: Tool calls per run; `None` sets no limit.
        max_concurrency: Calls of one batch that run at once.
        max_result_bytes: Bytes of JSON a tool result may have.
        final_system_prompt: Added to the system prompt of that last request; `None` adds nothing.
        tool_choice: Choice of every run; one that forces a call holds for the first request only.
        on_tool_result: Told of each finished call, sync or async; what it raises stops nothing.
        name: For logs.

    Raises:
        InvalidStateError: The conversation has a manager, is busy, or is disposed.
        ConfigurationError: A bound below 1.
    """

    def __init__(  # noqa: PLR0913 -- keyword options of a constructor
        self,
        conversation: Conversation,
        *,
        context_data: Any = None,
        max_rounds: int = 50,
        max_tool_calls: int | None = None,
        max_concurrency: int = 16,
        max_result_bytes: int = 262_144,
        final_system_prompt: str | None = FINAL_SYSTEM_PROMPT,
        tool_choice: str | None = None,
        on_tool_result: Callable[[ToolResultInfo], object] | None = None,
        name: str | None = None,
    ) -> None:
        core = require_kind(conversation, Conversation, "conversation").core
        core.require_free("attaching a manager")

        if core.driver is not None:
            raise InvalidStateError(
                "attaching a manager", state="led by a manager", remedy="Use that one, or await its aclose() first"
            )

        self.name = name
        self.conversation = conversation
        self.state: WorkflowState = "idle"
        self.current_workflow: Workflow | None = None
        self._options = LoopOptions(
            max_rounds=max_rounds,
            max_tool_calls=max_tool_calls,
            max_concurrency=max_concurrency,
            max_result_bytes=max_result_bytes,
            final_system_prompt=final_system_prompt,
            tool_choice=tool_choice,
            on_tool_result=on_tool_result,
        )
        self._disposal = Disposal()
        self._context_data = {} if context_data is None else context_data
        self._results: dict[str, WorkflowResult] = {}
        self._underway: dict[str, anyio.Event] = {}
        self._emitter = Emitter(MANAGER_EVENTS, report=self._report)
        core.driver = self
        self._unsubscribe = conversation.on(Dispose, self._conversation_disposed)

    async def run(self, text_or_contents: TextOrContents, *, key: str | None = None, **options: Any) -> WorkflowResult:
        """Send, and conduct the tool loop to its end.

        Args:
            text_or_contents: Text, or content blocks of a user message.
            key: A run under a key that was used before is not made again; it gets that run's result.
            options: Options of these requests only, as in `RequestOptions`.

        Returns:
            How the run ended; model failures do not raise, they are in the result.

        Raises:
            InvalidStateError: Disposed, or busy and set to reject.
            ConfigurationError: Nothing to send, or a wrong option.
        """
        self._require_alive("run")
        message = input_of(text_or_contents)

        if key is None:
            return await self._send(_Conductor(self), message, options)

        while key in self._underway:
            await self._underway[key].wait()

        if key in self._results:
            return self._results[key]

        self._underway[key] = anyio.Event()
        conductor = _Conductor(self)

        try:
            self._results[key] = await self._send(conductor, message, options)

            return self._results[key]
        finally:
            if conductor.workflow.result is not None:  # also when the caller was cancelled
                self._results[key] = conductor.workflow.result

            self._underway.pop(key).set()

    def run_sync(self, text_or_contents: TextOrContents, *, key: str | None = None, **options: Any) -> WorkflowResult:
        """`run` for plain scripts."""
        refuse_inside_loop("run_sync", "Use `await manager.run(...)`")

        return run_sync(self.run(text_or_contents, key=key, **options))

    async def resume(self, **options: Any) -> WorkflowResult:
        """Go on with a history that ends in a user message, such as tool results whose request failed.

        Raises:
            InvalidStateError: History does not end in a user message, or only in results without their calls, which no
                vendor is sent; or something is under way.
        """
        self._require_alive("resume")
        core = self.conversation.core
        core.require_free("resume")
        last = self.conversation.messages[-1] if self.conversation.messages else None

        if not isinstance(last, UserMessage) or not _asks_something(last, self.conversation.messages[:-1]):
            raise InvalidStateError(
                "resume",
                state="history does not end in a user message that asks for a reply",
                remedy="Use run() with a new input",
            )

        conductor = _Conductor(self, resumed=last)

        return await self._send(conductor, UserMessage(last.content), options)

    def queue_message(self, text_or_contents: TextOrContents) -> None:
        """Send this at the next normal stop of the current workflow, or of the next one.

        Raises:
            ConfigurationError: Nothing to send.
            InvalidStateError: Disposed, or too many inputs wait.
        """
        self._require_alive("queue_message")

        workflow = self.current_workflow

        if workflow is not None and workflow.state != "disposed":  # it may still be on its way out
            workflow.queue_message(text_or_contents)
        else:
            self.conversation.core.floor.enqueue(input_of(text_or_contents), has_caller=False)

    async def drive(self, run: Run) -> AsyncGenerator[Event, None]:
        """Conduct a prompt of the conversation; the conversation calls this."""
        async with aclosing(_Conductor(self).drive(run)) as events:
            async for event in events:
                yield event

    async def conduct(
        self, run: Run, workflow: Workflow, inputs: tuple[UserMessage, ...], *, committed: bool
    ) -> AsyncGenerator[Event, None]:
        """One workflow, from `idle` to `idle`."""
        self.current_workflow = workflow
        workflow.forward_to(self._emitter, lambda event: ForwardedWorkflowEvent(manager=self, event=event))

        try:
            with run.step():
                await self._move_to("busy")

            with run.step():
                await self._emitter.emit(WorkflowBegin(manager=self, workflow=workflow))

            async with aclosing(workflow.conduct(run, inputs, committed=committed)) as events:
                async for event in events:
                    yield event
        except Exception as error:
            run.grant.share(error)
            raise
        finally:
            self.current_workflow = None
            run.release()

            if self.state == "busy":
                with run.closing():
                    await self._move_to("idle")

    def new_workflow(self) -> Workflow:
        return Workflow(self.conversation, context_data=self._context_data, options=self._options)

    @property
    def is_closing(self) -> bool:
        return self._disposal.has_begun

    async def aclose(self) -> None:
        """Dispose: cancel the current workflow, settle its waiters, let go of the conversation.

        Idempotent: further calls wait, for a bounded time, until the first one has done it.
        """
        if self.is_closing:
            await self._disposal.wait()
            return

        with self._disposal:
            core = self.conversation.core

            if core.driver is self:  # prompts that wait go on without it
                core.driver = None

            if self.current_workflow is not None and core.run is not None:
                run = core.run
                run.cancel()
                await run.wait_settled()

            await self._emitter.emit(ManagerDispose(manager=self))
            await self._move_to("disposed")
            self._emitter.close()
            self._unsubscribe()

    async def _send(self, conductor: _Conductor, message: UserMessage, options: Mapping[str, Any]) -> WorkflowResult:
        core = self.conversation.core

        if core.run is not None and core.run.is_cancelled and core.floor.when_busy == "reject":
            await core.run.wait_settled()  # what was cancelled is about to end (W-MGR-4)

        admitted = admit(core, message, options, streaming=False, driver=lambda: conductor)

        return await conclude(conductor.workflow, admitted)

    async def _conversation_disposed(self, _: Dispose) -> None:
        await self.aclose()

    async def _move_to(self, current: WorkflowState) -> None:
        previous, self.state = self.state, current
        await self._emitter.emit(ManagerStateChange(manager=self, previous=previous, current=current))

    def _require_alive(self, operation: str) -> None:
        if self.is_closing:
            raise InvalidStateError(
                operation, state="disposed", allowed=("idle", "busy"), remedy="Create a new WorkflowManager"
            )

    async def _report(self, error: Exception, event_name: str) -> None:
        context: Mapping[str, Any] = {"event": event_name}
        await self._emitter.emit(
            ManagerLifecycleError(manager=self, error=error, operation="listener", context=context)
        )


def _asks_something(last: UserMessage, before: Sequence[Message]) -> bool:
    """Whether anything is left of a last message once results without their calls are left out of it."""
    caller = before[-1] if before else None
    called = {call.tool_request_id for call in caller.tool_calls} if isinstance(caller, AssistantMessage) else set()

    return any(not isinstance(block, ToolResultContent) or block.tool_request_id in called for block in last.content)


class _Conductor:
    """Drives one run with a workflow of its own, so that each caller gets its own result (MGR-3)."""

    def __init__(self, manager: WorkflowManager, *, resumed: UserMessage | None = None) -> None:
        self.workflow = manager.new_workflow()
        self._manager = manager
        self._resumed = resumed

    async def drive(self, run: Run) -> AsyncGenerator[Event, None]:
        if self._manager.is_closing:  # while this input waited
            run.response = Response(message=None, stop_reason="cancelled", stop_details="disposed")
            return

        inputs = run.user_messages() if self._resumed is None else (self._resumed,)
        committed = self._resumed is not None

        async with aclosing(self._manager.conduct(run, self.workflow, inputs, committed=committed)) as events:
            async for event in events:
                yield event


register_default_driver(Workflow)
