"""`simulacra chat TEXT`, and from a pipe: what goes where, and with which exit code."""

from __future__ import annotations

import json
import sys

import pytest

from simulacra.cli import app
from simulacra.errors import AuthenticationError, ServerError, StreamInterruptedError
from simulacra.messages import TextContent, UserMessage
from simulacra.provider import ProviderPlugin
from simulacra.testing import ScriptedProvider, calls, fault, fault_after, reply, stall


def said(request):
    return request.messages[-1].content[0].text


def test_the_answer_goes_to_standard_output_and_nothing_else(runner, scripted):
    with scripted(reply(chunks=["Hel", "lo ", "🌍"])) as provider:
        result = runner.invoke(app, ["chat", "Say hello", "--model", "scripted:demo"])

    assert (result.exit_code, result.stdout, result.stderr) == (0, "Hello 🌍\n", "")
    assert said(provider.requests[0]) == "Say hello"


def test_an_answer_that_ends_its_line_gets_no_second_line_end(runner, scripted):
    scripted("one\n")

    assert runner.invoke(app, ["chat", "x"]).stdout == "one\n"


def test_a_pipe_is_the_text(runner, scripted):
    with scripted("ok") as provider:
        result = runner.invoke(app, ["chat"], input="Grüße\naus dem Rohr 🚀\n")

    assert result.exit_code == 0
    assert said(provider.requests[0]) == "Grüße\naus dem Rohr 🚀\n"


def test_a_pipe_goes_behind_a_text_when_it_is_asked_for(runner, scripted):
    with scripted("ok", "ok") as provider:
        runner.invoke(app, ["chat", "Translate:", "--stdin"], input="Grüße")
        runner.invoke(app, ["chat", "Say hello"], input="not asked for")

    assert said(provider.requests[0]) == "Translate:\n\nGrüße"
    assert said(provider.requests[1]) == "Say hello"


@pytest.mark.parametrize(
    ("data", "reason"), [(b"", "nothing to say"), (b" \n", "nothing to say"), (b"caf\xe9", "UTF-8")]
)
def test_a_pipe_without_a_text_is_a_usage_error(runner, scripted, data, reason):
    scripted()

    result = runner.invoke(app, ["chat"], input=data)

    assert result.exit_code == 2
    assert reason in result.stderr


def test_an_empty_text_is_a_usage_error(runner, scripted):
    scripted()

    result = runner.invoke(app, ["chat", ""])

    assert result.exit_code == 2
    assert "simulacra: a prompt needs content" in result.stderr


def test_the_system_prompt_is_sent(runner, scripted):
    with scripted("ok") as provider:
        runner.invoke(app, ["chat", "x", "--system", "Be brief."])

    assert provider.requests[0].system == ("Be brief.",)


def test_without_key_and_flag_the_keyless_model_answers_and_one_line_says_so(runner, scripted):
    scripted("ok")

    result = runner.invoke(app, ["chat", "x"])

    assert result.stdout == "ok\n"
    assert result.stderr.count("\n") == 1
    assert "No key is set: scripted:demo answers, on this machine" in result.stderr


def test_a_key_that_is_set_chooses_its_model(runner, install, monkeypatch):
    keyed = ScriptedProvider(["from the service"], model="big")
    keyless = ScriptedProvider(model="small")
    install(
        ProviderPlugin(kind="alpha", create=lambda model: keyless, default_model="small"),
        "broken",
        ProviderPlugin(kind="zeta", create=lambda model: keyed, keys=("ZETA_KEY",), default_model="big"),
    )
    monkeypatch.setenv("ZETA_KEY", "secret")

    result = runner.invoke(app, ["chat", "x"])

    assert result.stdout == "from the service\n"
    assert "zeta:big answers: ZETA_KEY is set" in result.stderr
    assert "secret" not in result.output


def test_a_key_without_a_default_model_is_mentioned(runner, install, monkeypatch):
    keyless = ScriptedProvider(["from here"], model="small")
    install(
        ProviderPlugin(kind="alpha", create=lambda model: pytest.fail("not asked for"), keys=("ALPHA_KEY",)),
        ProviderPlugin(kind="free", create=lambda model: keyless, default_model="small"),
    )
    monkeypatch.setenv("ALPHA_KEY", "secret")

    result = runner.invoke(app, ["chat", "x"])

    assert result.stdout == "from here\n"
    assert (
        "No --model given: free:small answers, on this machine (ALPHA_KEY is set: --model alpha:NAME)" in result.stderr
    )


def test_no_model_at_all_says_how_to_get_one(runner, install):
    install()

    result = runner.invoke(app, ["chat", "x"])

    assert result.exit_code == 2
    assert "pip install 'simulacra[local]'" in result.stderr


@pytest.mark.parametrize("name", ["nope:model", "nope", "scripted2:"])
def test_an_unknown_model_is_a_usage_error_with_a_remedy(runner, scripted, name):
    scripted()

    result = runner.invoke(app, ["chat", "x", "--model", name])

    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "unknown provider" in result.stderr
    assert "pip install" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_failed_request_is_one_line_and_exit_code_one(runner, scripted):
    scripted(fault(AuthenticationError("Incorrect\nAPI key", status=401)))

    result = runner.invoke(app, ["chat", "x", "--model", "scripted:demo"])

    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == ("simulacra: scripted/demo: Incorrect API key (which keys are set: simulacra providers)\n")


def test_what_was_shown_before_a_failure_stays_and_ends_its_line(runner, scripted):
    scripted(fault_after("half an ans", StreamInterruptedError("cut")))

    result = runner.invoke(app, ["chat", "x", "--model", "scripted:demo"])

    assert (result.exit_code, result.stdout) == (1, "half an ans\n")
    assert "cut" in result.stderr


def test_an_error_cannot_command_the_terminal(runner, scripted):
    scripted(fault(ServerError("boom \x1b[2J", retryable=False)))

    assert "\x1b" not in runner.invoke(app, ["chat", "x", "--model", "scripted:demo"]).stderr


def test_an_interrupt_is_exit_code_130(runner, scripted, press_ctrl_c):
    async def interrupt(request):
        await press_ctrl_c()

        return stall()

    scripted(interrupt)

    assert runner.invoke(app, ["chat", "x"]).exit_code == 130


def test_a_cut_off_answer_says_so_beside_the_answer(runner, scripted):
    scripted(reply("half", stop_reason="max_tokens"))

    result = runner.invoke(app, ["chat", "x", "--model", "scripted:demo"])

    assert (result.exit_code, result.stdout) == (0, "half\n")
    assert "token limit" in result.stderr


def test_json_prints_each_event_on_a_line(runner, scripted):
    scripted(reply(chunks=["Hel", "lo 🌍"], thinking="hm"))

    result = runner.invoke(app, ["chat", "x", "--json"])
    events = [json.loads(line) for line in result.stdout.splitlines()]
    names = [event["event"] for event in events]

    assert result.exit_code == 0
    assert "🌍" in result.stdout
    assert "".join(event["delta"] for event in events if event["event"] == "content_update") == "hmHello 🌍"
    assert names.index("prompt_send") < names.index("message_start") < names.index("message_complete")
    complete = events[names.index("message_complete")]
    assert complete["stop_reason"] == "end_turn"
    assert complete["message"]["content"][-1]["text"] == "Hello 🌍"
    assert len({event["conversation"] for event in events}) == 1


def test_json_tells_a_failure_too(runner, scripted):
    scripted(fault(ServerError("boom", retryable=False)))

    result = runner.invoke(app, ["chat", "x", "--json"])
    events = [json.loads(line) for line in result.stdout.splitlines()]

    assert result.exit_code == 1
    assert [event["error"] for event in events if event["event"] == "request_error"] == [
        {"type": "ServerError", "message": "scripted/demo: boom"}
    ]


@pytest.fixture
def tools(tmp_path, monkeypatch):
    (tmp_path / "my_tools.py").write_text(
        """
from simulacra.tools import tool

@tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

number = 3
""",
        encoding="utf-8",
    )
    (tmp_path / "broken_tools.py").write_text("raise RuntimeError('out\\nof order')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    yield

    sys.modules.pop("my_tools", None)


def test_a_tool_from_the_working_directory_is_called(runner, scripted, tools):
    with scripted(calls(("add", {"a": 2, "b": 3})), "five") as provider:
        result = runner.invoke(app, ["chat", "2 + 3?", "--tool", "my_tools:add"])

    assert result.stdout == "five\n"
    assert [tool.name for tool in provider.requests[0].tools] == ["add"]
    assert isinstance(provider.requests[1].messages[-1], UserMessage)
    assert provider.requests[1].messages[-1].content[0].result.result is True


def test_a_tool_that_fails_is_told_beside_the_answer(runner, scripted, tools):
    with scripted(calls(("add", {"a": "two"})), "I could not."):
        result = runner.invoke(app, ["chat", "2 + 3?", "--tool", "my_tools:add"])

    assert result.stdout == "I could not.\n"
    assert "(tool add failed: " in result.stderr
    assert "two" in result.stderr


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("add", "module:Name"),
        (":add", "module:Name"),
        ("my_tools:", "module:Name"),
        ("my_tools:subtract", "has no 'subtract'"),
        ("my_tools:number", "no tool but int"),
        ("json:dumps", "no tool but function"),
        ("no_such_module:add", "cannot be imported"),
        ("broken_tools:add", "RuntimeError: out of order"),
    ],
)
def test_what_is_no_tool_is_a_usage_error(runner, scripted, tools, name, reason):
    scripted()

    result = runner.invoke(app, ["chat", "x", "--tool", name])

    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert reason in result.stderr


def test_unknown_options_are_usage_errors(runner):
    assert runner.invoke(app, ["chat", "--nope"]).exit_code == 2
    assert runner.invoke(app, ["nope"]).exit_code == 2


def test_the_text_is_sent_as_one_user_message(runner, scripted):
    with scripted("ok") as provider:
        runner.invoke(app, ["chat", "[bold]x[/bold] /help"])

    [message] = provider.requests[0].messages
    assert [block.text for block in message.content if isinstance(block, TextContent)] == ["[bold]x[/bold] /help"]
