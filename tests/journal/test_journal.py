"""The journal: places without gaps, history as a fold, and what failed stays readable."""

from __future__ import annotations

import pytest

from simulacra.journal import EntryDraft, Journal, fold
from simulacra.messages import AssistantMessage, CheckpointState, TextContent, UserMessage
from simulacra.testing import FakeClock


def user(name):
    return UserMessage((TextContent(name),), id=name)


def reply(name, **fields):
    return AssistantMessage((TextContent(name),), id=name, **fields)


def admit(journal, name, request_id, **body):
    return journal.record(EntryDraft("user_admitted", {"message": user(name), "request_id": request_id, **body}))


def open_response(journal, request_id):
    journal.record(EntryDraft("response_opened", {"response_id": "r", "request_id": request_id, "model": "m"}))

    return journal.head


def close(journal, request_id, slot, message, status="complete"):
    body = {"request_id": request_id, "status": status, "message": message, "error": None, "provider_message_id": None}

    return journal.record(EntryDraft("response_closed", body, slot=slot))


def ids(journal):
    return [message.id for message in journal.history.messages]


def turn(journal, name):
    admit(journal, f"U{name}", name)

    return close(journal, name, open_response(journal, name), reply(f"A{name}"))


@pytest.fixture
def journal(fake_clock: FakeClock) -> Journal:
    return Journal("session")


def test_entries_have_places_without_gaps(journal, fake_clock):
    turn(journal, "1")
    journal.record()
    entries = list(journal.entries())

    assert [entry.seq for entry in entries] == [1, 2, 3]
    assert [entry.slot for entry in entries] == [1, 2, 2]
    assert {entry.session_id for entry in entries} == {"session"}
    assert {entry.timestamp for entry in entries} == {fake_clock.now_ms()}
    assert journal.head == 3


def test_entries_can_be_asked_for_by_place_and_kind(journal):
    turn(journal, "1")
    turn(journal, "2")

    assert [entry.seq for entry in journal.entries(after=4)] == [5, 6]
    assert [entry.seq for entry in journal.entries(kinds={"user_admitted"})] == [1, 4]
    assert [entry.seq for entry in journal.entries(2, {"user_admitted"})] == [4]


def test_conv_7_a_user_message_enters_history_when_its_turn_ends(journal):
    assert admit(journal, "U", "q") == ()
    slot = open_response(journal, "q")
    assert ids(journal) == []
    assert close(journal, "q", slot, reply("A")) == ("U", "A")
    assert ids(journal) == ["U", "A"]
    assert journal.history.turn_count == 1


def test_conv_7_tool_results_are_in_history_at_once(journal):
    assert admit(journal, "R", "q", committed=True) == ("R",)
    assert ids(journal) == ["R"]


def test_d_2_a_failed_turn_enters_nothing_and_is_kept(journal):
    turn(journal, "1")
    admit(journal, "U2", "2")
    slot = open_response(journal, "2")

    assert close(journal, "2", slot, reply("half", status="failed"), "failed") == ()
    assert ids(journal) == ["U1", "A1"]
    (attempt,) = journal.attempts()
    assert [message.id for message in attempt.inputs] == ["U2"]
    assert attempt.partial.id == "half"
    assert journal.history.turn_count == 1


def test_d_3_a_cancelled_turn_keeps_its_input_and_counts_as_none(journal):
    admit(journal, "U", "q")
    slot = open_response(journal, "q")

    assert close(journal, "q", slot, None, "interrupted") == ("U",)
    assert ids(journal) == ["U"]
    assert journal.history.turn_count == 0


def test_history_is_ordered_by_place_and_not_by_commit(journal):
    admit(journal, "U1", "1")
    slot = open_response(journal, "1")
    admit(journal, "note", "", committed=True)
    close(journal, "1", slot, reply("A1"))

    assert ids(journal) == ["U1", "A1", "note"]


def test_what_is_recorded_in_a_place_stands_behind_what_is_there(journal):
    admit(journal, "U1", "1")
    slot = open_response(journal, "1")
    close(journal, "1", slot, reply("A1"))
    turn(journal, "2")
    journal.record(
        EntryDraft("user_admitted", {"message": user("R1"), "request_id": "1", "committed": True}, slot=slot)
    )

    assert ids(journal) == ["U1", "A1", "R1", "U2", "A2"]


def test_loading_and_clearing_begin_anew(journal):
    turn(journal, "1")
    state = CheckpointState(message_id="A1", summary="s")
    journal.record(EntryDraft("checkpoint", {"state": state}))
    journal.record(EntryDraft("history_loaded", {"messages": (user("x"), reply("A1")), "checkpoint": state}))
    assert (ids(journal), journal.history.checkpoints) == (["x", "A1"], (state,))

    journal.record(EntryDraft("history_loaded", {"messages": (user("x"),), "checkpoint": None}))
    assert (ids(journal), journal.history.checkpoint, journal.history.checkpoints) == (["x"], None, ())

    turn(journal, "2")
    assert ids(journal) == ["x", "U2", "A2"]
    journal.record(EntryDraft("history_cleared", {}))
    assert ids(journal) == []


def test_checkpoints_pile_up_and_an_earlier_one_goes_back(journal):
    states = [CheckpointState(message_id=str(n), summary=str(n)) for n in range(3)]

    for state in states:
        journal.record(EntryDraft("checkpoint", {"state": state}))

    assert journal.history.checkpoint is states[2]
    assert journal.history.checkpoints == tuple(states)
    journal.record(EntryDraft("checkpoint", {"state": states[0]}))
    assert journal.history.checkpoints == (states[0],)
    journal.record(EntryDraft("checkpoint", {"state": None}))
    assert (journal.history.checkpoint, journal.history.checkpoints) == (None, ())


def test_unknown_kinds_are_kept_and_change_nothing(journal):
    turn(journal, "1")
    journal.record(EntryDraft("from_the_future", {"x": 1}))

    assert ids(journal) == ["U1", "A1"]
    assert [entry.kind for entry in journal.entries(after=3)] == ["from_the_future"]


def test_the_fold_of_the_entries_is_the_history(journal):
    turn(journal, "1")
    admit(journal, "U2", "2")
    close(journal, "2", open_response(journal, "2"), None, "failed")
    journal.record(EntryDraft("checkpoint", {"state": CheckpointState(message_id="A1", summary="s")}))
    turn(journal, "3")
    again = fold(journal.entries())

    assert again.messages == journal.history.messages
    assert again.checkpoint == journal.history.checkpoint
    assert again.turn_count == journal.history.turn_count == 2


def test_w_conv_15_messages_are_the_same_tuple_until_they_change(journal):
    turn(journal, "1")
    before = journal.history.messages
    journal.record(EntryDraft("tool_intent", {}))
    admit(journal, "U2", "2")

    assert journal.history.messages is before
    close(journal, "2", open_response(journal, "2"), reply("A2"))
    assert journal.history.messages is not before


def test_messages_are_found_by_id(journal):
    turn(journal, "1")

    assert journal.history.position("A1") == 1
    assert journal.history.position("nowhere") is None


def test_values_are_held_as_they_are(journal):
    message = user("U")
    journal.record(EntryDraft("user_admitted", {"message": message, "request_id": "q", "committed": True}))

    assert journal.history.messages[0] is message
