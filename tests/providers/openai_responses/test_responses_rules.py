"""Each rule of the Responses API: broken, the emulator refuses it; repaired, it is accepted."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from openai import APIStatusError, AsyncOpenAI
from simulacra_openai.responses.rules import RULES

from simulacra.errors import ConfigurationError
from simulacra.provider import RequestOptions
from simulacra.testing import EmulatedReply, OpenAIResponsesEmulator
from simulacra.testing.driving import reply_of, request, user

pytestmark = pytest.mark.anyio

ADD = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}, "strict": False}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}


def call(call_id: Any = "c1", **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "add", "arguments": "{}", **fields}


def output(call_id: Any = "c1", said: Any = "3") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": said}


def said(content: Any = "hi", role: Any = "user", **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


def text(what: str) -> dict[str, Any]:
    return {"type": "input_text", "text": what}


def asked(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "gpt-test", "input": list(items), **fields}


def with_output(schema: Any, **fields: Any) -> dict[str, Any]:
    return asked(said(), text={"format": {"type": "json_schema", "name": "out", "schema": schema, **fields}})


BROKEN: dict[str, dict[str, Any]] = {
    "input-given": asked(),
    "roles-known": asked(said(role="wizard")),
    "items-are-objects": asked(said(), {}),
    "items-of-this-api": asked(said(), {"type": "foreign", "block": "a part of anthropic"}),
    "text-is-unicode": asked(said("half a face: \ud83d")),
    "content-given": asked(said([])),
    "texts-not-blank": asked(said([text("hi"), text(" ")])),
    "parts-stand-with-their-role": asked(said([{"type": "output_text", "text": "hi"}])),
    "media-fit": asked(said([{"type": "input_image", "detail": "auto", "image_url": "nowhere"}])),
    "outputs-follow-calls": asked(said(), output()),
    "calls-are-answered": asked(said(), call(), tools=[ADD]),
    "calls-are-answered-once": asked(said(), call(), output(), output(said="4"), tools=[ADD]),
    "outputs-before-messages": asked(said(), call(), said("by the way"), output(), tools=[ADD]),
    "outputs-are-text-or-parts": asked(said(), call(), output(said=3), tools=[ADD]),
    "call-ids-fit": asked(said(), call("c" * 65), output("c" * 65), tools=[ADD]),
    "call-ids-differ": asked(said(), call(), output(), said("again"), call(), output(), tools=[ADD]),
    "call-names-fit": asked(said(), call(name="my tool"), output(), tools=[ADD]),
    "arguments-are-an-object": asked(said(), call(arguments="[1"), output(), tools=[ADD]),
    "item-ids-fit": asked(said(), call(id="toolu_1"), output(), tools=[ADD]),
    "item-ids-differ": asked(said(), call(id="fc_1"), call("c2", id="fc_1"), output(), output("c2"), tools=[ADD]),
    "reasoning-leads-an-item": asked(said(), REASONING, said("and?")),
    "unstored-reasoning-is-encrypted": asked(
        said(), {**REASONING, "encrypted_content": None}, call(id="fc_1"), output(), tools=[ADD], store=False
    ),
    "model-named": asked(said()) | {"model": ""},
    "limit-large-enough": asked(said(), max_output_tokens=3),
    "instructions-not-blank": asked(said(), instructions=" "),
    "numbers-in-range": asked(said(), temperature=3),
    "metadata-fits": asked(said(), metadata={"k": "v" * 513}),
    "truncation-known": asked(said(), truncation="middle"),
    "tools-few-enough": asked(said(), tools=[{**ADD, "name": f"add_{number}"} for number in range(129)]),
    "tools-have-a-type": asked(said(), tools=[{"name": "add"}]),
    "tool-names-fit": asked(said(), tools=[{**ADD, "name": "my tool"}]),
    "tool-names-differ": asked(said(), tools=[ADD, ADD]),
    "parameters-are-an-object": asked(said(), tools=[{**ADD, "parameters": {"type": "string"}}]),
    "strict-schemas-are-strict": asked(said(), tools=[{**ADD, "strict": True}]),
    "tool-choice-needs-tools": asked(said(), tool_choice="auto"),
    "tool-choice-fits": asked(said(), tools=[ADD], tool_choice={"type": "function", "name": "sub"}),
    "output-format-known": asked(said(), text={"format": {"type": "poem"}}),
    "strict-outputs-are-strict": with_output({"type": "object", "properties": {"a": {}}}, strict=True),
}
BY_NAME = {rule.name: rule for rule in RULES.rules}
REPAIRABLE = [name for name in BROKEN if BY_NAME[name].repair is not None]
UNWRITABLE = frozenset({"text-is-unicode"})
"""What the SDK's own writer refuses before anything is sent."""


def test_there_are_at_least_25_rules_and_each_one_is_broken_here() -> None:
    assert len(RULES.rules) == len(BY_NAME) >= 25
    assert BROKEN.keys() == BY_NAME.keys()


@pytest.mark.parametrize("name", [name for name in BROKEN if name not in UNWRITABLE])
async def test_the_emulator_refuses_a_broken_request_with_the_vendors_error(name: str) -> None:
    async with (
        OpenAIResponsesEmulator([]) as emulator,
        AsyncOpenAI(base_url=emulator.base_url, api_key="k", max_retries=0) as client,
    ):
        with pytest.raises(APIStatusError) as raised:
            await client.post("/responses", body=BROKEN[name], cast_to=object)

    [(_, violations)] = emulator.refused
    assert name in {violation.rule for violation in violations}
    assert raised.value.status_code == violations[0].status
    assert raised.value.code == violations[0].code
    assert violations[0].path in raised.value.body["message"]


@pytest.mark.parametrize("name", REPAIRABLE)
async def test_the_emulator_accepts_the_repaired_request(name: str) -> None:
    before = copy.deepcopy(BROKEN[name])
    done = RULES.repair_with_receipt(BROKEN[name])

    assert name in {entry.rule for entry in done.receipt}
    assert {violation.rule for violation in done.left} <= {"input-given"}
    assert RULES.repair(done.request) is done.request
    assert BROKEN[name] == before

    if done.left:  # nothing else was said
        return

    async with (
        OpenAIResponsesEmulator([EmulatedReply(text="fine")]) as emulator,
        AsyncOpenAI(base_url=emulator.base_url, api_key="k", max_retries=0) as client,
    ):
        await client.post("/responses", body=done.request, cast_to=object)

    assert emulator.refused == []


@pytest.mark.parametrize("items", [3, [None, 3, "x", [], {"role": 3, "content": 3}, {"type": 3}, {"type": "message"}]])
def test_no_rule_fails_on_what_is_no_request(items: Any) -> None:
    strange = {"input": items, "tools": [3, {}], "tool_choice": 3, "text": 3, "metadata": 3, "max_output_tokens": "x"}

    assert RULES.check(strange)
    assert RULES.check(RULES.repair(strange))


def test_oa_10_reasoning_and_its_item_travel_together_or_the_item_goes_without_its_id() -> None:
    whole = asked(said(), REASONING, call(id="fc_1"), output(), tools=[ADD], store=False)
    lost = asked(said(), {**REASONING, "encrypted_content": ""}, call(id="fc_1"), output(), tools=[ADD], store=False)

    assert RULES.repair(whole) is whole
    assert RULES.repair(lost)["input"] == [said(), call(), output()]


async def test_oa_r5_ids_that_are_too_long_are_mapped_alike_for_call_and_output_in_every_request() -> None:
    long = asked(said(), call("x" * 70), output("x" * 70), tools=[ADD])
    _, called, answered = RULES.repair(long)["input"]

    assert called["call_id"] == answered["call_id"] != "x" * 70
    assert len(called["call_id"]) <= 64
    assert RULES.repair(long) == RULES.repair(copy.deepcopy(long))


async def test_what_only_the_user_can_put_right_is_told_before_sending(serve) -> None:
    async with serve([]) as (emulator, provider):
        with pytest.raises(ConfigurationError, match=r"openai_responses would refuse .*temperature.*numbers-in-range"):
            await reply_of(provider, request(user("hi"), options=RequestOptions(temperature=3)))

    assert emulator.requests == emulator.refused == []
