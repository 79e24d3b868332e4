"""Each rule of the Messages API: broken, the emulator refuses it; repaired, it is accepted; what repairs cannot do is told."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest
from anthropic import APIStatusError, AsyncAnthropic, BadRequestError
from simulacra_anthropic.field_rules import MAX_BYTES
from simulacra_anthropic.message_rules import MAX_MESSAGES
from simulacra_anthropic.repairs import FOREIGN
from simulacra_anthropic.rules import RULES

from simulacra.errors import ConfigurationError
from simulacra.messages import AssistantMessage, RawContent, TextContent, ThinkingContent, ToolContent, UserMessage
from simulacra.provider import ProviderProfile
from simulacra.rules import lint, repair
from simulacra.testing import AnthropicEmulator, EmulatedReply

pytestmark = pytest.mark.anyio

PNG = "iVBORw0KGgoAAAANSUhEUg=="
ADD = {"name": "add", "input_schema": {"type": "object"}}
MARK = {"type": "ephemeral"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "SIG"}


def text(said: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **fields}


def call(call_id: Any = "t1", name: Any = "add", given: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {} if given is None else given}


def result(call_id: Any = "t1", said: Any = "3") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": said}


def said(*contents: Any, **fields: Any) -> dict[str, Any]:
    """A request whose messages have these contents, user and assistant in turn."""
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": content} for at, content in enumerate(contents)]

    return {"model": "claude-test", "max_tokens": 9, "messages": messages, **fields}


def used(*contents: Any, **fields: Any) -> dict[str, Any]:
    return said(*contents, tools=[ADD], **fields)


def tool_with(schema: Any) -> dict[str, Any]:
    return said("hi", tools=[{"name": "add", "input_schema": schema}])


def answering(schema: Any) -> dict[str, Any]:
    return said("hi", output_config={"format": {"type": "json_schema", "schema": schema}})


def picture(side: int) -> dict[str, Any]:
    head = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + side.to_bytes(4, "big") + (10).to_bytes(4, "big")
    data = base64.b64encode(head).decode()

    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


BROKEN: dict[str, dict[str, Any]] = {
    "messages-given": said(),
    "roles-known": said("hi") | {"messages": [{"role": "system", "content": "Be kind."}]},
    "first-message-by-the-user": said("hi") | {"messages": [{"role": "assistant", "content": "Hello."}] * 1},
    "roles-alternate": said("hi") | {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]},
    "content-given": said("hi", []),
    "texts-not-blank": said("hi", [text("Hello."), text("")], "and?"),
    "results-not-blank": used("hi", [call()], [result(said=[text("3"), text(" ")])]),
    "text-is-unicode": said("half a face: \ud83d"),
    "blocks-are-objects": said(["hi", text("hello")]),
    "blocks-of-this-api": said([text("hi"), {"type": FOREIGN, "block": "audio", "text": "[a song]"}]),
    "blocks-stand-with-their-role": said([text("hi"), {**THOUGHT}]),
    "media-fit": said([{"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": PNG}}]),
    "thoughts-are-signed": said("hi", [{**THOUGHT, "signature": ""}, text("x")], "and?"),
    "redacted-thoughts-have-data": said("hi", [{"type": "redacted_thinking", "data": ""}, text("x")], "and?"),
    "replies-do-not-end-in-thoughts": said("hi", [text("x"), THOUGHT], "and?"),
    "prefill-without-trailing-space": said("hi", "Once upon "),
    "calls-have-results": used("hi", [text("Now."), call()], "stop"),
    "results-have-calls": used("hi", "Hello.", [result(), text("and?")]),
    "calls-have-one-result": used("hi", [call()], [result(), result(said="4")]),
    "server-calls-and-results-in-pairs": said(
        "hi", [{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}, text("x")], "and?"
    ),
    "results-first": used("hi", [call()], [text("by the way"), result()]),
    "nothing-behind-calls": used("hi", [call(), text("Done.")], [result()]),
    "call-ids-fit": used("hi", [call("call.1|x")], [result("call.1|x")]),
    "call-ids-differ": used("hi", [call()], [result()], [call()], [result()]),
    "call-names-fit": used("hi", [call(name="my tool")], [result()]),
    "call-input-is-an-object": used("hi", [call(given=[1])], [result()]),
    "model-named": said("hi") | {"model": ""},
    "limit-given": said("hi") | {"max_tokens": -1},
    "request-small-enough": said("x" * MAX_BYTES),
    "system-not-blank": said("hi", system=[text("")]),
    "stop-sequences-not-blank": said("hi", stop_sequences=[" "]),
    "tool-names-fit": said("hi", tools=[{**ADD, "name": "my tool"}]),
    "tool-names-differ": said("hi", tools=[ADD, ADD]),
    "calls-need-tools": said("hi", [call()], [result()]),
    "tool-choice-needs-tools": said("hi", tool_choice={"type": "auto"}),
    "tool-choice-fits": used("hi", tool_choice={"type": "tool", "name": "sub"}),
    "budgets-fit": said("hi", thinking={"type": "enabled", "budget_tokens": 8}),
    "thinking-forces-no-tool": used("hi", thinking={"type": "adaptive"}, tool_choice={"type": "any"}),
    "thinking-leads-the-last-reply": used(
        "hi", [call()], [result()], thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2048
    ),
    "many-images-are-small": said([picture(2001)] * 21, "Nice.", "and?"),
    "cache-marks-few": said([text(str(number), cache_control=MARK) for number in range(5)]),
    "cache-marks-on-content": said("hi", [{**THOUGHT, "cache_control": MARK}, text("x")], "and?"),
    "cache-marks-are-ephemeral": said([text("hi", cache_control={"type": "forever"})]),
    "longer-cache-first": said(
        [text("hi", cache_control={**MARK, "ttl": "1h"})], system=[text("Be kind.", cache_control=MARK)]
    ),
    "input-schemas-are-objects": tool_with({"type": "string"}),
    "input-schemas-choose-inside": tool_with({"type": "object", "anyOf": [{"required": ["a"]}]}),
    "argument-names-fit": tool_with({"type": "object", "properties": {"filter[id]": {}}}),
    "output-objects-are-closed": answering({"type": "object", "properties": {}}),
    "output-objects-name-their-properties": answering({"type": "object", "additionalProperties": {"type": "integer"}}),
    "output-keywords-fit": answering({"type": "integer", "minimum": 1}),
    "output-references-end": answering({"$ref": "#"}),
}
BY_NAME = {rule.name: rule for rule in RULES.rules}
REPAIRABLE = [name for name in BROKEN if BY_NAME[name].repair is not None]
UNWRITABLE = frozenset({"text-is-unicode"})
"""What the SDK's own writer refuses before anything is sent."""


def test_there_are_at_least_25_rules_and_each_one_is_broken_here() -> None:
    assert len(RULES.rules) == len(BY_NAME) >= 25
    assert BROKEN.keys() == BY_NAME.keys()


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_found_and_nothing_else_that_was_not_meant(name: str) -> None:
    before = copy.deepcopy(BROKEN[name])

    assert name in {violation.rule for violation in RULES.check(BROKEN[name])}
    assert BROKEN[name] == before


@pytest.mark.parametrize("name", [name for name in BROKEN if name not in UNWRITABLE])
async def test_the_emulator_refuses_a_broken_request_with_the_vendors_error(name: str) -> None:
    async with (
        AnthropicEmulator([]) as emulator,
        AsyncAnthropic(base_url=emulator.base_url, api_key="k", max_retries=0) as client,
    ):
        with pytest.raises(APIStatusError) as raised:
            await client.post("/v1/messages", body=BROKEN[name], cast_to=object)

    [(_, violations)] = emulator.refused
    assert name in {violation.rule for violation in violations}
    assert raised.value.status_code == violations[0].status
    assert raised.value.body["type"] == "error"
    assert violations[0].path in raised.value.body["error"]["message"]


@pytest.mark.parametrize("name", REPAIRABLE)
async def test_the_emulator_accepts_the_repaired_request(name: str) -> None:
    before = copy.deepcopy(BROKEN[name])
    done = RULES.repair_with_receipt(BROKEN[name])

    assert name in {entry.rule for entry in done.receipt}
    assert done.left == ()
    assert RULES.repair(done.request) is done.request
    assert BROKEN[name] == before

    async with (
        AnthropicEmulator([EmulatedReply(text="fine")]) as emulator,
        AsyncAnthropic(base_url=emulator.base_url, api_key="k", max_retries=0) as client,
    ):
        await client.post("/v1/messages", body=done.request, cast_to=object)

    assert emulator.refused == []


@pytest.mark.parametrize("wire", [{}, {"messages": 3}, {"messages": [None, 3, "x", [], {"role": 3, "content": 3}]}])
def test_no_rule_fails_on_what_is_no_request(wire: dict[str, Any]) -> None:
    strange = {**wire, "system": 3, "tools": [3, {}], "tool_choice": 3, "thinking": 3, "output_config": 3}

    assert RULES.check(strange)
    assert RULES.check(RULES.repair(strange))


@pytest.mark.parametrize(
    "block",
    [None, 3, {}, {"type": 3}, {"type": "text"}, {"type": "tool_use"}, {"type": "tool_result", "content": [None, {}]}],
)
def test_no_rule_fails_on_what_is_no_block(block: Any) -> None:
    assert RULES.check(said([block]))
    RULES.repair(said([block], [block], [block]))


def test_more_messages_than_the_api_takes_are_found() -> None:
    many = said(*(["hi"] * (MAX_MESSAGES + 1)))

    assert "messages-given" in {violation.rule for violation in RULES.check(many)}


def test_a_clean_request_comes_back_as_the_same_object() -> None:
    clean = used("hi", [THOUGHT, text("Now."), call()], [result(), text("and?")], "Well.", "thanks")

    assert RULES.repair(clean) is clean
    assert RULES.check(clean) == ()


def test_lint_tells_what_a_history_of_another_vendor_breaks_and_repair_what_becomes_of_it() -> None:
    history = [
        UserMessage((TextContent("hi"),)),
        AssistantMessage(
            (
                ThinkingContent("foreign"),
                RawContent(model_kind="openai", data="{}"),
                ToolContent(tool_request_id="call.1", tool="add"),
            )
        ),
    ]
    profile = ProviderProfile(rules=RULES)
    found = {(violation.rule, violation.path) for violation in lint(history, profile)}

    assert found == {
        ("thoughts-are-signed", "messages[1].content[0].signature"),
        ("blocks-of-this-api", "messages[1].content[1].type"),
        ("calls-have-results", "messages[1].content[2]"),
        ("call-ids-fit", "messages[1].content[2].id"),
        ("calls-need-tools", "tools"),
    }
    assert repair(history, profile).request["messages"] == [{"role": "user", "content": "hi"}]


async def test_what_only_the_user_can_put_right_is_told_before_sending(serve) -> None:
    from simulacra.testing.driving import reply_of, request, user  # noqa: PLC0415 -- only this test drives a provider

    async with serve([], thinking={"enable": True, "budget_tokens": 9}) as (emulator, provider):
        with pytest.raises(ConfigurationError, match=r"anthropic would refuse .*budget_tokens.*\[budgets-fit\]"):
            await reply_of(provider, request(user("hi")))

    assert emulator.requests == emulator.refused == []


async def test_a_refusal_is_a_bad_request_of_the_sdk() -> None:
    async with (
        AnthropicEmulator([]) as emulator,
        AsyncAnthropic(base_url=emulator.base_url, api_key="k", max_retries=0) as client,
    ):
        with pytest.raises(BadRequestError, match="messages"):
            await client.messages.create(model="claude-test", max_tokens=9, messages=[])
