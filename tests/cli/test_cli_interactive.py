"""The chat on a terminal, line by line."""

from __future__ import annotations

import json
import re

import pytest

from simulacra.cli.interactive import Chat
from simulacra.conversation import Conversation
from simulacra.errors import ServerError
from simulacra.events import ContentUpdate
from simulacra.serialization import load_message
from simulacra.streaming import TextDelta
from simulacra.testing import ScriptedProvider, fault, stall
from simulacra.tools import tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def chat(monkeypatch, capsys):
    """Hold a chat: `chat(conversation, line, ...)` types the lines, then Ctrl-D; an exception stands for Ctrl-C."""

    def hold(conversation, *lines):
        typed = iter(lines)

        def read(prompt):
            line = next(typed, EOFError())

            if isinstance(line, BaseException):
                raise line

            return line

        monkeypatch.setattr("builtins.input", read)
        Chat(conversation).run()

        return capsys.readouterr()

    return hold


def conversation_of(*steps, **options):
    return Conversation(ScriptedProvider(steps, model="demo"), **options)


def test_turns_are_held_in_one_conversation(chat):
    with conversation_of("Hello.", "Fine.") as conversation:
        shown = chat(conversation, "Hi", "", "   ", "How are you?")

        assert [message.role for message in conversation.messages] == ["user", "assistant"] * 2

    assert "Hello.\n" in shown.out
    assert "Fine.\n" in shown.out
    assert shown.err == ""


def test_the_first_line_names_the_model_and_the_way_out(chat):
    with conversation_of() as conversation:
        first = chat(conversation).out.splitlines()[0]

    assert "scripted:demo" in first
    assert "/help" in first
    assert "Ctrl-D" in first


def test_help_lists_every_command(chat):
    with conversation_of() as conversation:
        shown = chat(conversation, "/help").out

    for name in ("help", "clear", "checkpoint", "tools", "model", "save", "quit"):
        assert f"/{name}" in shown


def test_quit_leaves(chat):
    with conversation_of() as conversation:
        chat(conversation, "/quit", "never read")

        assert conversation.messages == ()


def test_clear_empties_the_history(chat):
    with conversation_of("one") as conversation:
        chat(conversation, "x", "/clear")

        assert conversation.messages == ()


def test_a_failed_turn_is_told_and_the_chat_goes_on(chat):
    with conversation_of(fault(ServerError("boom", retryable=False)), "ok") as conversation:
        shown = chat(conversation, "x", "y")

        assert len(conversation.messages) == 2

    assert "boom" in shown.err
    assert "ok\n" in shown.out


def test_even_a_bug_does_not_end_the_chat(chat):
    with conversation_of("one", fault(ZeroDivisionError("oops")), "two") as conversation:
        shown = chat(conversation, "x", "y", "z")

        assert len(conversation.messages) == 4

    assert "oops" in shown.err


def test_ctrl_c_at_the_prompt_says_how_to_leave_and_stays(chat):
    with conversation_of("ok") as conversation:
        shown = chat(conversation, KeyboardInterrupt(), "x")

    assert "/quit" in shown.out
    assert "ok\n" in shown.out


def test_ctrl_c_during_an_answer_keeps_what_was_shown(chat, press_ctrl_c):
    async def interrupt(event):
        if event.delta == "an ":
            await press_ctrl_c()

    with conversation_of([TextDelta(0, "half "), TextDelta(0, "an "), stall()], "ok") as conversation:
        conversation.on(ContentUpdate, interrupt)
        shown = chat(conversation, "x", "y")

        assert conversation.messages[1].status == "interrupted"
        assert conversation.messages[1].text == "half an "
        assert conversation.messages[3].text == "ok"

    assert re.search(r"half (an )?\n\(interrupted\)\nok\n", shown.out)


def test_an_unknown_command_is_told_and_not_sent(chat):
    with conversation_of() as conversation:
        shown = chat(conversation, "/nope")

    assert "no command /nope" in shown.err


@pytest.mark.parametrize("line", ["/etc/hosts holds what?", "/nope is no command", " /help"])
def test_what_only_looks_like_a_command_is_sent(chat, line):
    with conversation_of("ok") as conversation:
        chat(conversation, line)

        assert conversation.messages[0].content[0].text == line


def test_tools_are_listed(chat):
    with conversation_of(toolkit=[add]) as conversation:
        assert "add: Add two numbers." in chat(conversation, "/tools").out

    with conversation_of() as conversation:
        assert "--tool module:Name" in chat(conversation, "/tools").out


def test_checkpoint_shows_the_summary(chat):
    with conversation_of("one", "They said one.") as conversation:
        shown = chat(conversation, "x", "/checkpoint")

        assert conversation.checkpoint_state.summary == "They said one."

    assert "They said one." in shown.out


def test_checkpoint_of_nothing_is_told(chat):
    with conversation_of() as conversation:
        assert "simulacra: " in chat(conversation, "/checkpoint").err


def test_model_is_shown_and_changed(chat, scripted):
    other = scripted("from the other")
    other.model = "other"

    with conversation_of("one") as conversation:
        shown = chat(conversation, "x", "/model", "/model scripted:other", "y")

        assert len(conversation.messages) == 4

    assert "scripted:demo\n" in shown.out
    assert "scripted:other\n" in shown.out
    assert "from the other" in shown.out


def test_a_wrong_model_changes_nothing(chat, scripted):
    scripted()

    with conversation_of("one") as conversation:
        shown = chat(conversation, "/model nope:x", "y")

        assert conversation.messages[1].text == "one"

    assert "unknown provider 'nope'" in shown.err


def test_save_writes_what_load_reads(chat, tmp_path):
    path = tmp_path / "über.json"

    with conversation_of("Grüße 🌍", system="Be kind.") as conversation:
        chat(conversation, "x", f"/save {path}")
        saved = json.loads(path.read_text(encoding="utf-8"))

        assert saved["schema_version"] == 1
        assert saved["id"] == conversation.id
        assert saved["model"] == "scripted:demo"
        assert saved["system"] == "Be kind."
        assert tuple(map(load_message, saved["messages"])) == conversation.messages

    assert [entry.name for entry in tmp_path.iterdir()] == ["über.json"]


def test_save_overwrites_only_what_it_wrote(chat, tmp_path):
    foreign = tmp_path / "notes.txt"
    foreign.write_text("mine", encoding="utf-8")
    own = tmp_path / "chat.json"

    with conversation_of("one", "two") as conversation:
        shown = chat(conversation, f"/save {foreign}", "x", f"/save {own}", "y", f"/save {own}", "/save")

    assert foreign.read_text(encoding="utf-8") == "mine"
    assert "is not overwritten" in shown.err
    assert "needs a file's name" in shown.err
    assert len(json.loads(own.read_text(encoding="utf-8"))["messages"]) == 4


def test_save_into_nowhere_is_told(chat, tmp_path):
    with conversation_of() as conversation:
        shown = chat(conversation, f"/save {tmp_path / 'no' / 'such.json'}")

    assert f"{str(tmp_path / 'no' / 'such.json')!r} cannot be written: No such file or directory" in shown.err
