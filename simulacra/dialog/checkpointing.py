"""Making a checkpoint: a child conversation writes a summary of everything up to a boundary fixed at the start."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence

from simulacra.checkpoints import CheckpointConfig, SummarizationContext
from simulacra.dialog.core import Core
from simulacra.errors import ConfigurationError, InvalidStateError, OperationCancelledError, ProtocolError
from simulacra.events import CheckpointBegin, CheckpointComplete
from simulacra.journal import EntryDraft
from simulacra.messages import (
    AssistantMessage,
    CheckpointState,
    Message,
    Response,
    TextContent,
    ToolResultContent,
    UserMessage,
)
from simulacra.provider import ModelProvider

_FINISHED = frozenset({"end_turn", "stop_sequence", "other", "tool_use"})
# The share of the context window that one part of a long transcript may fill; the rest is for prompt and summary.
_WINDOW_SHARE = 0.6


async def make_checkpoint(core: Core, config: CheckpointConfig | None) -> CheckpointState:
    """Summarise history up to its present end (CP-1 to CP-8).

    Raises:
        InvalidStateError: A turn is under way, a checkpoint is being made, or there is nothing to summarise.
        ProtocolError: The summary is blank, cut off, refused or filtered; nothing was changed.
        OperationCancelledError: The summary's conversation was cancelled or disposed.
    """
    core.require_state("checkpoint", "idle")

    if core.is_checkpointing:
        raise InvalidStateError("checkpoint", state="making a checkpoint", remedy="Await the one that is being made")

    config = config or CheckpointConfig()
    messages = _messages_to_cover(core)
    boundary = messages[-1].id or ""
    child = core.conversation.spawn_child(provider=config.provider, system="", toolkit=(), is_checkpoint=True)
    child.options = child.options.updated(tool_choice=None)
    core.is_checkpointing = True

    try:
        await core.emitter.emit(CheckpointBegin(conversation=core.conversation, child=child))
        state: CheckpointState | None = core.journal.history.checkpoint

        for part in _parts(core, child.provider, messages):
            prompt = await _build_prompt(core, part, state, config)
            question = _question(prompt)
            child.load(prompt[:-1])
            response = await child.send_message(question)
            state = CheckpointState(message_id=boundary, summary=_summary_of(response))

        assert state is not None
        _store(core, state)
        await core.emitter.emit(CheckpointComplete(conversation=core.conversation, checkpoint=state))
    except Exception as error:
        await core.report(error, "checkpoint")
        raise
    finally:
        core.is_checkpointing = False
        await child.aclose()

    return state


def _messages_to_cover(core: Core) -> Sequence[Message]:
    """All messages, or those after the last boundary; all, if that boundary is gone (CP-2)."""
    history = core.journal.history
    messages = _before_results(history.messages)

    if not messages:
        raise InvalidStateError("checkpoint", state="no messages to checkpoint", remedy="Send a prompt first")

    if history.checkpoint is not None:
        boundary = history.position(history.checkpoint.message_id)
        messages = messages if boundary is None else messages[boundary + 1 :]

    if not messages:
        raise InvalidStateError(
            "checkpoint", state="no new messages since last checkpoint", remedy="Send a prompt first"
        )

    return messages


def _before_results(messages: Sequence[Message]) -> Sequence[Message]:
    """Up to the last reply while its calls run: the results will stand behind it, before what came meanwhile."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]

        if isinstance(message, AssistantMessage):
            return messages[: at + 1] if message.tool_calls else messages

        if _has_results(message):
            break

    return messages


def _parts(core: Core, provider: ModelProvider, messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """The messages in parts that fit into the summarising model's window; calls stay with their results."""
    window = provider.profile.context_window
    count = core.settings.counter.count_messages
    part: list[Message] = []

    if window is None:
        yield messages
        return

    size = 0

    for message in messages:
        tokens = count([message])

        if part and size + tokens > window * _WINDOW_SHARE and not _has_results(message):
            yield part
            part, size = [], 0

        part.append(message)
        size += tokens

    yield part


def _has_results(message: Message) -> bool:
    return any(isinstance(block, ToolResultContent) for block in message.content)


async def _build_prompt(
    core: Core, messages: Sequence[Message], previous: CheckpointState | None, config: CheckpointConfig
) -> Sequence[Message]:
    context = SummarizationContext(
        session_id=core.id,
        messages=tuple(messages),
        previous_checkpoint=previous,
        system=core.settings.system,
        context=config.context,
    )
    built = core.settings.strategy.build_prompt(context)
    prompt: Sequence[Message] = await built if inspect.isawaitable(built) else built

    return prompt


def _question(prompt: Sequence[Message]) -> UserMessage:
    if not prompt or not isinstance(prompt[-1], UserMessage):
        raise ConfigurationError("checkpoint prompt strategy must return a user message last")

    return prompt[-1]


def _summary_of(response: Response) -> str:
    """Only text of a reply that ended by itself becomes a summary (CP-6, CP-R3, CP-R4)."""
    if response.cancelled:
        raise OperationCancelledError

    if response.stop_reason not in _FINISHED:
        raise ProtocolError(f"the checkpoint's summary did not finish: it stopped with {response.stop_reason}")

    message = response.message
    texts = [] if message is None else [block.text for block in message.content if isinstance(block, TextContent)]
    summary = "\n".join(text for text in texts if text.strip())

    if not summary:
        raise ProtocolError("checkpoint produced an empty summary")

    return summary


def _store(core: Core, state: CheckpointState) -> None:
    if core.journal.history.position(state.message_id) is None:
        raise InvalidStateError(
            "storing a checkpoint", state="history was replaced meanwhile", remedy="Make a new checkpoint"
        )

    core.journal.record(EntryDraft("checkpoint", {"state": state}))
