"""The append-only record of a conversation, and its fold into history."""

from simulacra.journal.entries import EntryDraft, FailedTurn, JournalEntry, JournalStore
from simulacra.journal.history import History, fold
from simulacra.journal.journal import Journal

__all__ = ["EntryDraft", "FailedTurn", "History", "Journal", "JournalEntry", "JournalStore", "fold"]
