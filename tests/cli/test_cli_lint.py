"""`simulacra lint`: what a vendor would refuse, and what would be sent."""

from __future__ import annotations

import json

import pytest

from simulacra.cli import app
from simulacra.messages import TextContent, UserMessage
from simulacra.provider import ProviderPlugin
from simulacra.rules import Found, Rule, RuleTable
from simulacra.serialization import dump_message, dump_message_json
from simulacra.testing import ScriptedProvider


def draft(request):
    return {"messages": [message.content[0].text for message in request.messages]}


def blank(wire):
    return [Found(("messages", at)) for at, text in enumerate(wire["messages"]) if not text]


def without_blank(wire):
    return {"messages": [text for text in wire["messages"] if text]} if "" in wire["messages"] else wire


def long(wire):
    return [Found(("messages", at)) for at, text in enumerate(wire["messages"]) if len(text) > 9]


RULES = RuleTable(
    vendor="strict",
    draft=draft,
    rules=(
        Rule(name="no-blanks", demand="texts say something", fix="It is left out", find=blank, repair=without_blank),
        Rule(name="short-texts", demand="texts are short", fix="Say less", find=long),
    ),
)


@pytest.fixture(autouse=True)
def strict(install):
    def create(model):
        return ScriptedProvider(model=model)

    install(ProviderPlugin(kind="strict", create=create, rules=RULES), ProviderPlugin(kind="lax", create=create))


@pytest.fixture
def run(runner):
    def invoke(*arguments, **options):
        return runner.invoke(app, ["lint", *map(str, arguments)], **options)

    return invoke


def history(*texts):
    return [UserMessage((TextContent(text),)) for text in texts]


def saved(messages):
    return json.dumps({"schema_version": 1, "messages": [dump_message(message) for message in messages]})


def as_list(messages):
    return json.dumps([dump_message(message) for message in messages])


def as_lines(messages):
    return "\n".join([*map(dump_message_json, messages), ""])


@pytest.mark.parametrize("write", [saved, as_list, as_lines])
def test_every_way_to_write_a_history_is_read(run, tmp_path, write):
    file = tmp_path / "history.json"
    file.write_text(write(history("one", "", "more than nine")), encoding="utf-8")
    result = run(file, "--for", "strict")

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "messages[1]: texts say something [no-blanks]. It is left out",
        "messages[2]: texts are short [short-texts]. Say less",
    ]
    assert "2 violations of strict's rules; 1 of them only you can mend" in result.stderr


def test_one_message_is_a_history_too(run):
    assert run("-", "--for", "strict", input=dump_message_json(history("one")[0])).exit_code == 0


def test_a_clean_history_is_told_with_exit_code_0(run):
    result = run("-", "--for", "strict", input=as_lines(history("one")))

    assert result.exit_code == 0
    assert result.stdout == ""
    assert "nothing that strict would refuse" in result.stderr


def test_the_repaired_request_is_printed_as_json(run):
    result = run("-", "--for", "strict", "--repaired", input=as_lines(history("one", "")))

    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"messages": ["one"]}
    assert "1 violation of strict's rules; what is amiss is put right on the way out" in result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("42", "holds no messages"),
        ('{"role": "user"', "line 1 is no JSON"),
        ('{"role": "wizard"}', "message 0 cannot be read"),
        ("[3]", "message 0 cannot be read"),
    ],
)
def test_what_is_no_history_is_refused_and_named(run, text, said):
    result = run("-", "--for", "strict", input=text)

    assert result.exit_code == 2
    assert said in result.stderr


def test_a_missing_file_an_unknown_vendor_and_one_without_rules_are_named(run, tmp_path):
    assert "cannot be read" in run(tmp_path / "none.json", "--for", "strict").stderr
    assert "unknown provider 'other'" in run("-", "--for", "other", input="[]").stderr
    assert "provider 'lax' states no rules" in run("-", "--for", "lax", input="[]").stderr
