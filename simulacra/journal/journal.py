"""A conversation's journal: gives every entry its place and keeps history folded."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from simulacra.clock import clock
from simulacra.journal.entries import EntryDraft, FailedTurn, JournalEntry
from simulacra.journal.history import History
from simulacra.messages import UserMessage


class Journal:
    """Append-only; `history` is always the fold of `entries()`.

    Args:
        session_id: Whose entries these are.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.history = History()
        self._entries: list[JournalEntry] = []

    @property
    def head(self) -> int:
        """The last `seq` that has a place."""
        return len(self._entries)

    def record(self, *drafts: EntryDraft) -> tuple[str, ...]:
        """Give the drafts their places, in order, and fold them.

        Returns:
            Ids of the messages that entered history.
        """
        now = clock().now_ms()
        entered: tuple[str, ...] = ()

        for draft in drafts:
            seq = len(self._entries) + 1
            slot = seq if draft.slot is None else draft.slot
            entry = JournalEntry(self.session_id, seq, slot, draft.kind, draft.body, now, draft.idempotency_key)
            self._entries.append(entry)
            entered += self.history.apply(entry)

        return entered

    def entries(self, after: int = 0, kinds: Collection[str] | None = None) -> Iterator[JournalEntry]:
        """Entries in order of `seq`.

        Args:
            after: Only those with a higher `seq`.
            kinds: Only these kinds.
        """
        for entry in self._entries[after:]:
            if kinds is None or entry.kind in kinds:
                yield entry

    def attempts(self) -> tuple[FailedTurn, ...]:
        """The turns that failed, oldest first: nothing that was typed is gone."""
        inputs: dict[str, tuple[UserMessage, ...]] = {}
        failed: list[FailedTurn] = []

        for entry in self._entries:
            if entry.kind == "user_admitted":
                request_id = entry.body["request_id"]
                inputs[request_id] = (*inputs.get(request_id, ()), entry.body["message"])
            elif entry.kind == "response_closed" and entry.body["status"] == "failed":
                request_id = entry.body["request_id"]
                failed.append(FailedTurn(inputs.get(request_id, ()), entry.body["message"], entry.body["error"]))

        return tuple(failed)
