"""What has to hold of a conversation, whatever was done to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from dealt_replies import runs
from engine_stage import SETTLE_SECONDS, Call, Stage
from sendable import pairs, texts_of

from simulacra.errors import InvalidStateError, OperationCancelledError, ProviderError
from simulacra.events import (
    ContentUpdate,
    MessageComplete,
    PromptSend,
    RequestError,
    ResponseCancelled,
    StateChange,
)
from simulacra.journal import fold
from simulacra.messages import Message, Response, ToolContent, ToolResultContent
from simulacra.workflows import WorkflowResult

EXPECTED = (ProviderError, OperationCancelledError, InvalidStateError)


def check_always(stage: Stage) -> None:
    """What holds at any moment."""
    history, journal = stage.conversation.journal.history, stage.conversation.journal
    refolded = fold(journal.entries())
    ids = [message.id for message in history.messages]
    executed = runs[stage.conversation.id]

    assert not stage.faults, stage.faults
    assert refolded.messages == history.messages
    assert refolded.checkpoints == history.checkpoints
    assert (refolded.checkpoint, refolded.turn_count) == (history.checkpoint, history.turn_count)
    assert len(set(ids)) == len(ids), f"ids are not unique: {ids}"
    assert None not in ids
    assert history.checkpoint is None or history.checkpoint.message_id in ids, "a checkpoint of what is gone"
    assert all(getattr(message, "status", "") != "failed" for message in history.messages)
    assert not (twice := [tag for tag, times in executed.items() if times > 1]), f"run twice: {twice}"

    for each in stage.cancelled:
        late = stage.clock.monotonic() - each.since > SETTLE_SECONDS
        assert each.run.finished.is_set() or not late or stage.is_dawdling, "a cancelled response does not settle"


def check_at_rest(stage: Stage) -> None:
    """What holds when nothing is under way."""
    conversation = stage.conversation

    assert conversation.state == "idle"
    assert not conversation.is_busy
    assert conversation.core.run is None
    assert not [waiting for waiting in conversation.queued if waiting.has_caller]
    assert stage.provider.open_streams == 0, "a stream was left open"
    assert stage.clock.pending == 0, "a timer was left behind"
    assert not conversation.core.background._jobs, "work was left behind"
    _check_events(stage)
    _check_calls_are_answered(stage)

    for call in stage.calls:
        _check_outcome(stage, call)


def check_disposed(stage: Stage) -> None:
    """What holds a moment after the conversation was disposed, whatever was under way."""
    assert stage.conversation.state == "disposed"
    assert not stage.under_way, f"still waiting: {[(call.way, call.text) for call in stage.under_way]}"
    assert not stage.conversation.queued
    assert stage.provider.open_streams == 0, "a stream was left open"
    _check_events(stage)
    _check_calls_are_answered(stage)

    for call in stage.calls:
        _check_outcome(stage, call)


def _check_events(stage: Stage) -> None:
    """The states follow each other, every turn ends once, and what was kept is what was delivered."""
    state = "idle"
    ends: defaultdict[str, list[str]] = defaultdict(list)
    begun: set[str] = set()
    said: defaultdict[str, str] = defaultdict(str)

    for event in stage.events:
        match event:
            case StateChange():
                assert event.previous == state, f"from {event.previous} while {state}"
                state = event.current
            case PromptSend():
                begun.add(event.request_id)
            case ContentUpdate() if event.content.type == "text":
                assert not ends[event.request_id], "a delta after the end"
                said[event.request_id] += event.delta
            case MessageComplete() | ResponseCancelled() | RequestError():
                ends[event.request_id].append(event.name)

        if isinstance(event, MessageComplete | ResponseCancelled):
            kept = "" if event.message is None else event.message.text
            delivered = [said[event.request_id]]

            if event.request_id in stage.streamed:  # delivered is what the consumer took
                delivered.append(stage.taken[event.request_id])

            assert kept in delivered or not any(text.strip() for text in delivered), f"{kept!r} is none of {delivered}"

    assert all(len(ends[request_id]) == 1 for request_id in begun), f"turns end once: {dict(ends)}"


def _check_calls_are_answered(stage: Stage) -> None:
    """Every call of a driven reply has exactly one result, and that tells the truth about whether it ran."""
    messages = stage.conversation.messages
    answers = dict(pairs(messages))
    executed = runs[stage.conversation.id]

    for index, message in enumerate(messages):
        for at, block in enumerate(message.content):
            if not isinstance(block, ToolContent) or message.id in stage.loaded | stage.undriven:
                continue

            assert (index, at) in answers, f"{block.tool}({block.params}) of {message.id} has no result"
            result = _at(messages, answers[index, at])
            tag = block.params.get("tag", 0)
            assert executed[tag] or not result.result.result, f"{tag} never ran, but its result is {result.result}"

    results = sum(isinstance(block, ToolResultContent) for message in messages for block in message.content)
    assert results == len(answers) or stage.loaded, "a result without its call"


def _at(messages: Sequence[Message], place: tuple[int, int]) -> ToolResultContent:
    block = messages[place[0]].content[place[1]]
    assert isinstance(block, ToolResultContent)

    return block


def _check_outcome(stage: Stage, call: Call) -> None:
    error = call.error
    assert error is None or isinstance(error, EXPECTED) or "a bug of the provider" in str(error), repr(error)

    if call.text is None:
        return

    where = _places(stage, call.text)
    found = sum(where.values())

    if isinstance(error, InvalidStateError):
        assert found == 0, f"{call.text} was refused, but it is in {where}"
        return

    assert found == 1 or (call.was_abandoned and found == 0), f"{call.text} is in {where}"
    outcome = call.outcome.response if isinstance(call.outcome, WorkflowResult) else call.outcome

    if isinstance(outcome, Response) and not outcome.cancelled:
        assert where["history"] or where["erased"], f"{call.text} was answered, but it is in {where}"
        assert outcome.message is not None


def _places(stage: Stage, text: str) -> dict[str, int]:
    """Where a text is; it ought to be in one place."""
    journal = stage.conversation.journal
    entries = list(journal.entries())
    last_erased = max((each.seq for each in entries if each.kind in {"history_cleared", "history_loaded"}), default=0)
    admitted = [each for each in entries if each.kind == "user_admitted" and text in texts_of([each.body["message"]])]
    attempts = sum(text in texts_of(attempt.inputs) for attempt in journal.attempts())
    assert len(admitted) < 2, f"{text} was admitted twice"
    in_history = texts_of(stage.conversation.messages).count(text)
    queued = {each.body["input_id"] for each in entries if each.kind == "input_queued" and text in _queued(each.body)}
    dropped = {each.body["input_id"] for each in entries if each.kind == "input_dropped"}
    waiting = {each.input_id for each in stage.conversation.queued}
    was_kept = len(admitted) == 1 and not attempts

    return {
        "history": in_history,
        "attempts": attempts,
        "erased": int(was_kept and not in_history and admitted[0].seq < last_erased),
        "dropped": len(queued & dropped),
        "waiting": len(queued & waiting),
    }


def _queued(body: Any) -> list[str]:
    return [getattr(block, "text", "") for block in body["content"]]
