"""Streamed Markdown on a terminal."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from simulacra.cli.markdown import MarkdownPrinter
from simulacra.events import ContentComplete, ContentUpdate, MessageComplete
from simulacra.messages import AssistantMessage, ToolContent, Usage
from simulacra.streaming import LiveContent


def delta(text, kind="text"):
    return ContentUpdate(
        conversation=None, request_id="r", index=0, delta=text, content=LiveContent(kind, 0), usage=Usage()
    )


def call(name, **params):
    content = ToolContent(tool_request_id="1", tool=name, params=params)

    return ContentComplete(conversation=None, request_id="r", index=0, content=content, usage=Usage())


@pytest.fixture
def screen():
    return Console(file=io.StringIO(), force_terminal=True, width=40, height=10, color_system=None)


@pytest.fixture
def show(screen):
    """What stays on the screen after these events; redrawn lines and cursor movements are left out."""

    def shown(*events):
        printer = MarkdownPrinter(screen)
        with printer:
            for event in events:
                printer.show(event)

        return screen.file.getvalue()

    return shown


def visible(output):
    """The text left on the screen: what a line clear wiped out is gone."""
    lines = [""]

    for piece in re.split(r"(\x1b\[2K|\x1b\[1A|\r|\n)", output):
        if piece == "\x1b[2K":
            lines[-1] = ""
        elif piece == "\x1b[1A":
            lines = lines[:-1] or [""]
        elif piece == "\n":
            lines.append("")
        elif piece != "\r":
            lines[-1] += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", piece)

    return "\n".join(line.rstrip() for line in lines).strip()


def test_text_is_rendered_as_markdown(show):
    assert (
        visible(show(delta("# Ti"), delta("tle\n\nSome **bo"), delta("ld** text"))).split("\n")[-1] == "Some bold text"
    )


def test_blocks_keep_their_order_and_a_blank_line_between_them(show):
    text = "one\n\ntwo\n\n- a\n- b\n\nthree"

    assert re.sub(r"\n+", "\n", visible(show(*map(delta, text)))).split("\n") == ["one", "two", " • a", " • b", "three"]


def test_a_block_is_shown_once_however_it_is_cut(show):
    text = "first paragraph\n\n```python\nprint('a')\n\nprint('b')\n```\n\nlast paragraph\n"
    output = visible(show(*map(delta, text)))

    for line in ("first paragraph", "print('a')", "print('b')", "last paragraph"):
        assert output.count(line) == 1


def test_a_text_taller_than_the_screen_stays_whole(show):
    text = "```\n" + "".join(f"line {number}\n" for number in range(60)) + "```\n"
    output = visible(show(*map(delta, text)))

    assert [f"line {number}" for number in range(60)] == re.findall(r"line \d+", output)


def test_text_shown_before_a_failure_stays(screen):
    def fail():
        with MarkdownPrinter(screen) as printer:
            printer.show(delta("half an ans"))
            raise ValueError

    with pytest.raises(ValueError):
        fail()

    assert visible(screen.file.getvalue()) == "half an ans"


def test_the_model_cannot_command_the_terminal(show):
    output = show(delta("be\x1b]0;title\x07fore \x9b2J after"))

    assert "\x1b]0" not in output
    assert "\x9b" not in output
    assert "\x07" not in output


def test_a_tool_call_is_one_line(show):
    output = visible(show(delta("Let me see."), call("search", query="a\nb" + "x" * 100), delta("Found.")))
    lines = [line for line in output.split("\n") if line]

    assert lines[0] == "Let me see."
    assert lines[1].startswith("-> search(query='a\\nbxxx")
    assert len(lines[1]) <= 40
    assert lines[2:] == ["Found."]


def test_thinking_is_not_taken_for_the_answer(show):
    assert visible(show(delta("hm, let me think", "thinking"), delta("Yes."))) == "Yes."


def test_a_message_ends_its_last_block(show):
    message = AssistantMessage((), id="1")
    end = MessageComplete(conversation=None, request_id="r", message=message, usage=Usage(), stop_reason="end_turn")

    assert visible(show(delta("one"), end, delta("two"))).split() == ["one", "two"]
