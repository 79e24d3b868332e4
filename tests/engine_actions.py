"""What people and programs do to a conversation, at any moment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dealt_replies import PAUSE, Dealt, dealt
from engine_stage import Call, Stage
from hypothesis import strategies as st

from simulacra.clock import clock
from simulacra.events import ContentUpdate
from simulacra.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ToolContent,
    ToolResultContent,
    ToolSuccessResult,
    UserMessage,
)

EVENT_NAMES = [
    "state_change",
    "prompt_send",
    "before_request",
    "message_start",
    "content_start",
    "content_update",
    "content_complete",
    "request_success",
    "message_complete",
    "history_change",
]


@dataclass(frozen=True, slots=True)
class Send:
    """Send a new text.

    Args:
        way: How; `leave`, `stop` and `dawdle` are streams that are left early, cancelled, or consumed slowly.
        replies: What the model says to it.
        after: How many events a stream takes before it leaves or stops.
    """

    way: str
    replies: tuple[Dealt, ...] = ()
    after: int = 0

    def __call__(self, stage: Stage) -> None:
        stage.deck.extend(self.replies)
        call = Call(self.way, stage.new_text())

        if self.way == "interrupt":
            stage.note_cancel()

        stage.start(call, lambda: self._send(stage, call))

    async def _send(self, stage: Stage, call: Call) -> Any:
        conversation, text = stage.conversation, call.text
        assert text is not None

        match self.way:
            case "send_message":
                response = await conversation.send_message(text)
                stage.undriven.add(response.message and response.message.id)
                return response
            case "run" if stage.manager is not None:
                return await stage.manager.run(text)
            case "interrupt":
                return await conversation.interrupt(text)
            case "stream" | "leave" | "stop" | "dawdle":
                return await self._stream(stage, text)
            case _:
                return await conversation.prompt(text)

    async def _stream(self, stage: Stage, text: str) -> Any:
        async with stage.conversation.stream(text) as stream:
            taken = 0

            async for event in stream:
                taken += 1

                if isinstance(event, ContentUpdate) and event.content.type == "text":
                    stage.taken[event.request_id] += event.delta

                if self.way == "leave" and taken > self.after:
                    break

                if self.way == "stop" and taken == self.after + 1:
                    stream.cancel()

                if self.way == "dawdle":
                    await clock().sleep(PAUSE)

        return await stream.response()


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel the response."""

    def __call__(self, stage: Stage) -> None:
        stage.note_cancel()
        stage.attempt(stage.conversation.cancel_response, allowed=stage.conversation.is_busy)


@dataclass(frozen=True, slots=True)
class CancelAt:
    """Cancel the response from inside a listener."""

    event: str

    def __call__(self, stage: Stage) -> None:
        def cancel(_: object) -> None:
            if stage.conversation.is_busy:
                stage.note_cancel()
                stage.conversation.cancel_response()

        stage.traps.append(stage.conversation.once(self.event, cancel))


@dataclass(frozen=True, slots=True)
class Abandon:
    """Cancel the task that waits for one of the calls under way."""

    which: int

    def __call__(self, stage: Stage) -> None:
        if stage.under_way:
            call = stage.under_way[self.which % len(stage.under_way)]
            call.was_abandoned = True

            if call.scope is not None:
                call.scope.cancel()


@dataclass(frozen=True, slots=True)
class Hush:
    """Interrupt without a new input."""

    def __call__(self, stage: Stage) -> None:
        stage.note_cancel()
        stage.start(Call("hush"), stage.conversation.interrupt)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Make a checkpoint; its summary comes before every other reply."""

    summary: Dealt

    def __call__(self, stage: Stage) -> None:
        stage.deck.appendleft(self.summary)
        stage.start(Call("checkpoint"), stage.conversation.checkpoint)


@dataclass(frozen=True, slots=True)
class Rollback:
    """Go back to the first checkpoint, or to none."""

    to_first: bool

    def __call__(self, stage: Stage) -> None:
        conversation = stage.conversation
        target = conversation.checkpoints[0] if self.to_first and conversation.checkpoints else None
        stage.attempt(lambda: setattr(conversation, "checkpoint_state", target), allowed=not conversation.is_busy)


@dataclass(frozen=True, slots=True)
class Clear:
    """Empty the history."""

    def __call__(self, stage: Stage) -> None:
        stage.attempt(stage.conversation.clear, allowed=not stage.conversation.is_busy)


@dataclass(frozen=True, slots=True)
class Load:
    """Load a history from elsewhere; not every one is whole."""

    shape: str

    def __call__(self, stage: Stage) -> None:
        history = self._history(stage)

        if stage.attempt(lambda: stage.conversation.load(history), allowed=not stage.conversation.is_busy):
            stage.loaded |= {message.id for message in stage.conversation.messages}

    def _history(self, stage: Stage) -> list[Message]:
        asked, said = UserMessage((TextContent(stage.new_text("loaded")),)), AssistantMessage((TextContent("Yes."),))
        call = ToolContent(tool_request_id="old", tool="quick", params={"tag": 0})
        result = ToolResultContent(tool_request_id="old", tool="quick", result=ToolSuccessResult())
        called, answered = AssistantMessage((call,)), UserMessage((result,))

        match self.shape:
            case "own":
                return list(stage.conversation.messages)
            case "own, new ids":
                return [replace(message, id=None) for message in stage.conversation.messages]
            case "whole":
                return [asked, called, answered, said]
            case "open call":
                return [asked, said, asked, called]
            case "late result":
                return [asked, called, asked, answered, said]
            case "lost call":
                return [asked, said, answered, said]
            case _:
                return []


@dataclass(frozen=True, slots=True)
class Steer:
    """Queue a message for the next normal stop of the tool loop."""

    def __call__(self, stage: Stage) -> None:
        if stage.manager is not None:
            text = stage.new_text("steer")
            stage.calls.append(Call("steer", text, is_over=True))
            stage.manager.queue_message(text)


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on where a tool loop failed."""

    def __call__(self, stage: Stage) -> None:
        if stage.manager is not None:
            stage.start(Call("resume"), stage.manager.resume)


@dataclass(frozen=True, slots=True)
class DropQueue:
    """Drop what waits."""

    def __call__(self, stage: Stage) -> None:
        stage.conversation.clear_queue()


@dataclass(frozen=True, slots=True)
class Regulate:
    """Decide anew what becomes of prompts that come too early."""

    when_busy: Any

    def __call__(self, stage: Stage) -> None:
        stage.conversation.when_busy = self.when_busy


@dataclass(frozen=True, slots=True)
class Dispose:
    """Dispose the conversation."""

    def __call__(self, stage: Stage) -> None:
        stage.start(Call("dispose"), stage.conversation.aclose)


when_busy = st.sampled_from(["reject", "queue", "merge", "latest", "interrupt"])
replies = st.lists(dealt, min_size=1, max_size=3).map(tuple)
ways = st.sampled_from(["prompt", "prompt", "stream", "dawdle", "run", "send_message", "interrupt"])
sends = st.builds(Send, ways, replies)
early = st.builds(Send, st.sampled_from(["leave", "stop"]), replies, st.integers(0, 12))
shapes = st.sampled_from(["own", "own, new ids", "whole", "open call", "late result", "lost call", "none"])
cancels = st.one_of(
    st.builds(Cancel),
    st.builds(CancelAt, st.sampled_from(EVENT_NAMES)),
    st.builds(Abandon, st.integers(0, 3)),
    st.builds(Hush),
)
edits = st.one_of(
    st.builds(Checkpoint, st.just(Dealt("text")) | st.just(Dealt("slow text")) | dealt),
    st.builds(Rollback, st.booleans()),
    st.builds(Clear),
    st.builds(Load, shapes),
)
queueing = st.one_of(st.builds(Steer), st.builds(Resume), st.builds(DropQueue), st.builds(Regulate, when_busy))
groups = st.sampled_from([sends, sends, early, cancels, cancels, edits, queueing])
actions = groups.flatmap(lambda group: group)
