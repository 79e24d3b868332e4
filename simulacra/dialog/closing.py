"""What the journal is told when a turn ends."""

from __future__ import annotations

from simulacra.clock import clock
from simulacra.journal import EntryDraft
from simulacra.messages import AssistantMessage, MessageStatus, ToolErrorResult, ToolResultContent, UserMessage
from simulacra.streaming import Fold


def response_closed(
    fold: Fold,
    message: AssistantMessage | None,
    status: MessageStatus,
    *,
    request_id: str,
    slot: int,
    error: Exception | None = None,
) -> EntryDraft:
    """The entry that closes a response, at the place that was reserved for it."""
    body = {
        "request_id": request_id,
        "status": status,
        "message": message,
        "error": None if error is None else f"{type(error).__name__}: {error}",
        "provider_message_id": fold.provider_message_id,
    }

    return EntryDraft("response_closed", body, slot=slot)


def calls_refused(message: AssistantMessage | None, *, request_id: str, slot: int) -> tuple[EntryDraft, ...]:
    """Every complete call of an interrupted reply gets exactly one result, right behind it (CX-R1, T12)."""
    calls = () if message is None else message.tool_calls

    if not calls:
        return ()

    now = clock().now_ms()
    results = tuple(
        ToolResultContent(
            tool_request_id=call.tool_request_id,
            tool=call.tool,
            result=ToolErrorResult(message="cancelled before execution", error="cancelled"),
            timestamp=now,
        )
        for call in calls
    )
    answer = UserMessage(results, id=clock().new_id(), timestamp=now)

    body = {"message": answer, "request_id": request_id, "committed": True}

    return (EntryDraft("user_admitted", body, slot=slot),)
