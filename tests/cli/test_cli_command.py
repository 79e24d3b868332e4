"""The installed command as its own process, with the real model; structure is asserted, never its words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from simulacra.serialization import load_message

COMMAND = str(Path(sys.executable).with_name("simulacra"))
LONG = "Write a very long story about a fox, a crow and a river. Never stop."


def run(*arguments, stdin="", **environment):
    return subprocess.run(
        [COMMAND, *arguments],
        input=stdin.encode(),
        env=os.environ | environment,
        check=False,
        capture_output=True,
        timeout=110,
    )


def test_it_says_hello():
    done = run("chat", "Say hello")

    assert done.returncode == 0
    assert done.stdout.decode().strip()
    assert done.stdout.endswith(b"\n")
    assert done.stderr.decode().startswith("No key is set: local:smollm2 answers, on this machine")
    assert done.stderr.count(b"\n") == 1


def test_a_pipe_is_utf8_whatever_the_locale():
    text = "Say hello to André."
    done = run("chat", "-m", "local", "--json", stdin=text, LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    events = [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()]
    sent = next(event["message"] for event in events if event["event"] == "prompt_send")

    assert done.returncode == 0
    assert load_message(sent).content[0].text == text
    assert text.encode() in done.stdout


def test_json_lines_hold_the_whole_answer():
    done = run("chat", "Say hello", "--json", "--model", "local:smollm2")
    events = [json.loads(line) for line in done.stdout.decode().splitlines()]
    complete = next(event for event in events if event["event"] == "message_complete")
    deltas = [event["delta"] for event in events if event["event"] == "content_update"]

    assert done.returncode == 0
    assert len(deltas) > 1
    assert load_message(complete["message"]).text == "".join(deltas)


def test_a_wrong_model_is_one_line_and_exit_code_two():
    done = run("chat", "x", "--model", "local:/no/such/model.gguf")

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.count(b"\n") == 1
    assert b"local:smollm2" in done.stderr


def test_an_unknown_option_is_one_line_and_exit_code_two():
    done = run("chat", "--colour")

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"simulacra: No such option: --colour (see: simulacra --help)\n"


def test_a_reader_that_leaves_early_is_no_traceback():
    with subprocess.Popen(
        [COMMAND, "chat", LONG, "--model", "local"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.read(1)
        process.stdout.close()
        said = process.stderr.read()

    assert process.returncode == 1
    assert b"Traceback" not in said
    assert b"Exception ignored" not in said


def test_providers_are_listed():
    done = run("providers")

    assert done.returncode == 0
    assert "local:smollm2" in done.stdout.decode()


def test_help_and_version_tell_and_leave():
    assert run("--version").stdout.startswith(b"simulacra ")
    assert b"--model" in run("chat", "--help").stdout
    assert run().returncode == 2


def test_ctrl_c_stops_a_single_answer_with_exit_code_130(terminal):
    screen = terminal(COMMAND, "chat", LONG, "--model", "local")
    screen.wait_for(r"[a-z]{2,} [a-z]{2,}")
    os.kill(screen.process.pid, signal.SIGINT)

    assert screen.wait_for_exit() == 130
    assert "Traceback" not in screen.shown


def test_a_chat_is_interrupted_goes_on_and_keeps_what_was_shown(terminal, tmp_path):
    path = tmp_path / "chat.json"
    screen = terminal(COMMAND, "chat", "--model", "local", "--system", "You tell stories.")
    screen.wait_for("local:smollm2.*/help")
    screen.wait_for("> ")
    screen.type(LONG + "\n")
    screen.wait_for(r"Never stop\.\s")
    word = screen.wait_for(r"[a-z]{3,} [a-z]{3,}")[0]
    os.kill(screen.process.pid, signal.SIGINT)
    screen.wait_for(r"\(interrupted\)\s+> ")

    screen.type(f"/save {path}\n")
    screen.wait_for("Saved 2 messages")
    screen.type("/clear\n")
    screen.wait_for("is empty")
    screen.type("/quit\n")

    assert screen.wait_for_exit() == 0
    saved = json.loads(path.read_text(encoding="utf-8"))
    _, reply = map(load_message, saved["messages"])
    assert (reply.status, reply.stop_reason) == ("interrupted", "cancelled")
    assert word in " ".join(reply.text.split())


@pytest.mark.parametrize("leave", ["\x04", "/quit\n"])
def test_the_chat_is_left_with_ctrl_d_and_quit(terminal, leave):
    screen = terminal(COMMAND, "chat", "--model", "local")
    screen.wait_for("> ")
    screen.type(leave)

    assert screen.wait_for_exit() == 0


def test_ctrl_c_at_the_prompt_stays(terminal):
    screen = terminal(COMMAND, "chat", "--model", "local")
    screen.wait_for("> ")
    os.kill(screen.process.pid, signal.SIGINT)
    screen.type("\n")  # wakes a readline that was interrupted just before it began to wait
    screen.wait_for("/quit leaves")
    screen.wait_for("> ")
    screen.type("/tools\n")
    screen.wait_for("No tools")
    screen.type("/quit\n")

    assert screen.wait_for_exit() == 0


def test_the_engines_log_does_not_reach_the_terminal():
    program = """
import logging, sys
from simulacra.cli import main

sys.argv = ["simulacra", "--version"]

try:
    main()
finally:
    logging.getLogger("simulacra.conversation").error("not for the user")
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)

    assert (done.returncode, done.stderr) == (0, b"")


def test_json_without_a_text_is_a_usage_error(terminal):
    screen = terminal(COMMAND, "chat", "--json")

    assert screen.wait_for_exit() == 2
    assert "--json needs" in screen.shown
