"""What is recorded, and the port of what can keep it.

| kind | body |
|---|---|
| `user_admitted` | `message`, `request_id`, `committed` (tool results are in history at once) |
| `response_opened` | `response_id` (id of the message to be), `request_id`, `model` |
| `response_closed` | `request_id`, `status`, `message` (`None`: nothing was delivered), `error`, `provider_message_id` |
| `tool_intent` | `tool_request_id`, `tool`, `params`, `effect`, `key`; written when the call begins, not before |
| `tool_result` | `tool_request_id`, `content` (the result block), `late` (it had been answered before it ended) |
| `input_queued`, `input_dropped` | `input_id`, `content` / `input_id`, `reason` |
| `history_loaded`, `history_cleared` | `messages`, `checkpoint` / nothing |
| `checkpoint` | `state` (`None`: dropped) |

In memory a body holds the values themselves; JSON exists only at a store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from simulacra.messages import AssistantMessage, UserMessage


@dataclass(frozen=True, slots=True)
class EntryDraft:
    """An entry without a place yet.

    Args:
        kind: What happened.
        body: The facts.
        slot: The place in history it belongs to; its own `seq` when not given.
        idempotency_key: Written at most once per session under this key.
    """

    kind: str
    body: Mapping[str, Any]
    slot: int | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One fact, in its place.

    Args:
        session_id: Whose it is.
        seq: 1, 2, 3 ... without gaps.
        slot: `seq` of the entry that reserved this message's place; orders history.
        kind: What happened.
        body: The facts.
        timestamp: Milliseconds since the epoch, for people; orders nothing.
        idempotency_key: Written at most once per session under this key.
        schema_version: Version of the body's form.
    """

    session_id: str
    seq: int
    slot: int
    kind: str
    body: Mapping[str, Any]
    timestamp: int
    idempotency_key: str | None = None
    schema_version: int = 1


@dataclass(frozen=True, slots=True)
class FailedTurn:
    """A turn that failed: what was sent, what had been delivered, why it failed."""

    inputs: tuple[UserMessage, ...]
    partial: AssistantMessage | None
    error: str


class JournalStore(Protocol):
    """Where a journal can be kept. Appending is one transaction.

    `append` succeeds only if the store's last `seq` equals `expected_seq`, else it raises `ConflictError` and writes
    nothing; the same `append_id` again returns the first answer, so a retry after an unknown outcome is harmless.
    """

    async def append(
        self, session_id: str, entries: Sequence[JournalEntry], expected_seq: int, *, append_id: str
    ) -> int: ...

    def read(self, session_id: str, from_seq: int = 0) -> AsyncIterator[JournalEntry]: ...
