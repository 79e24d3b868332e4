"""`simulacra emulate`: a vendor's server in the terminal."""

from __future__ import annotations

import json
import signal
import socket
import sys
import urllib.request
from pathlib import Path

import pytest

from simulacra.cli import app

COMMAND = (Path(sys.executable).with_name("simulacra"), "emulate")


def ask(base_url, messages):
    body = json.dumps({"model": "any", "max_tokens": 9, "messages": messages}).encode()
    request = urllib.request.Request(f"{base_url}/v1/messages", data=body, headers={"content-type": "application/json"})

    with urllib.request.urlopen(request) as response:
        return json.load(response)["content"][0]["text"]


@pytest.fixture
def serve(terminal):
    def start(*arguments):
        command = terminal(*COMMAND, "--vendor", "anthropic", *arguments)

        return command, command.wait_for(r"(http://127\.0\.0\.1:\d+)")[1]

    return start


def test_it_answers_tells_each_request_and_ends_with_ctrl_c(serve):
    command, url = serve()

    assert "emulator" in ask(url, [{"role": "user", "content": "hi"}])
    command.wait_for("POST /v1/messages")
    command.process.send_signal(signal.SIGINT)
    assert command.wait_for_exit() == 130


def test_a_script_is_played_over_and_over(serve, tmp_path):
    script = tmp_path / "script.jsonl"
    script.write_text('{"text": "one"}\n\n{"text": "two"}\n', encoding="utf-8")
    _, url = serve("--script", str(script))

    assert [ask(url, [{"role": "user", "content": "hi"}]) for _ in range(3)] == ["one", "two", "one"]


def test_an_unknown_vendor_is_named(runner):
    result = runner.invoke(app, ["emulate", "--vendor", "nobody"])

    assert result.exit_code == 2
    assert "no emulator of 'nobody'; there are: anthropic" in result.stderr


@pytest.mark.parametrize("port", ["99999", "taken"])
def test_a_port_that_cannot_be_served_ends_the_command(terminal, port):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        chosen = str(taken.getsockname()[1]) if port == "taken" else port
        command = terminal(*COMMAND, "--vendor", "anthropic", "--port", chosen)

        assert command.wait_for(r"port (\d+) cannot be served")[1] == chosen
        assert command.wait_for_exit() == 2


@pytest.mark.parametrize(("text", "said"), [("{", "line 1 is no reply"), ('{"txt": "a"}', "line 1"), ("", "no reply")])
def test_a_script_that_cannot_be_played_is_refused(runner, tmp_path, text, said):
    script = tmp_path / "script.jsonl"
    script.write_text(text, encoding="utf-8")
    result = runner.invoke(app, ["emulate", "--vendor", "anthropic", "--script", str(script)])

    assert result.exit_code == 2
    assert said in result.stderr
