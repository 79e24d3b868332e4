"""The fold of a journal into history: pure, in slot order, one entry at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from simulacra.journal.entries import JournalEntry
from simulacra.messages import CheckpointState, Message, UserMessage


class History:
    """Messages, checkpoints and turn count, as the entries so far make them.

    A user message waits outside `messages` until its turn has ended and was kept; a message of tool results is in
    history at once (CONV-7). Unknown kinds change nothing.
    """

    def __init__(self) -> None:
        self.turn_count = 0
        self.checkpoint: CheckpointState | None = None
        self.checkpoints: tuple[CheckpointState, ...] = ()
        self._slots: list[int] = []
        self._messages: list[Message] = []
        self._frozen: tuple[Message, ...] | None = ()
        self._waiting: dict[str, list[tuple[int, UserMessage]]] = {}

    @property
    def messages(self) -> tuple[Message, ...]:
        """The same tuple until history changes."""
        if self._frozen is None:
            self._frozen = tuple(self._messages)

        return self._frozen

    def apply(self, entry: JournalEntry) -> tuple[str, ...]:
        """Fold one entry in.

        Returns:
            Ids of the messages that entered history.
        """
        body = entry.body

        match entry.kind:
            case "user_admitted":
                return self._admit(entry)
            case "response_closed":
                return self._close(entry)
            case "history_loaded":
                self._replace_all(body["messages"], entry.seq)
                self._set_checkpoint(body.get("checkpoint"))
            case "history_cleared":
                self._replace_all((), entry.seq)
                self._set_checkpoint(None)
            case "checkpoint":
                self._set_checkpoint(body["state"])

        return ()

    def position(self, message_id: str) -> int | None:
        """Index in `messages` of the message with this id."""
        for index in range(len(self._messages) - 1, -1, -1):
            if self._messages[index].id == message_id:
                return index

        return None

    def _admit(self, entry: JournalEntry) -> tuple[str, ...]:
        message: UserMessage = entry.body["message"]

        if entry.body.get("committed"):
            return self._insert(entry.slot, message)

        self._waiting.setdefault(entry.body["request_id"], []).append((entry.slot, message))

        return ()

    def _close(self, entry: JournalEntry) -> tuple[str, ...]:
        body = entry.body
        waiting = self._waiting.pop(body["request_id"], [])

        if body["status"] == "failed":
            return ()

        entered: tuple[str, ...] = ()

        for slot, message in waiting:
            entered += self._insert(slot, message)

        if body["message"] is not None:
            entered += self._insert(entry.slot, body["message"])

        if body["status"] == "complete":
            self.turn_count += 1

        return entered

    def _insert(self, slot: int, message: Message) -> tuple[str, ...]:
        at = bisect_right(self._slots, slot)
        self._slots.insert(at, slot)
        self._messages.insert(at, message)
        self._frozen = None

        return (message.id or "",)

    def _replace_all(self, messages: Iterable[Message], slot: int) -> None:
        self._messages = list(messages)
        ids = {message.id for message in self._messages}
        self.checkpoints = tuple(state for state in self.checkpoints if state.message_id in ids)
        self._slots = [slot] * len(self._messages)
        self._frozen = None

    def _set_checkpoint(self, state: CheckpointState | None) -> None:
        self.checkpoint = state

        if state is None:
            self.checkpoints = ()
        elif state in self.checkpoints:
            self.checkpoints = self.checkpoints[: self.checkpoints.index(state) + 1]
        else:
            self.checkpoints = (*self.checkpoints, state)


def fold(entries: Iterable[JournalEntry]) -> History:
    """The history that these entries, in order of `seq`, make."""
    history = History()

    for entry in entries:
        history.apply(entry)

    return history
