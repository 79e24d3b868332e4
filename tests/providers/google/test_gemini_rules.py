"""Each rule of Gemini: broken, the emulator refuses it; repaired, it is accepted."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from google.genai import errors
from google.genai.types import HttpOptions
from simulacra_google.media import MAX_INLINE
from simulacra_google.mending import OPENING
from simulacra_google.reading import SKIPPED
from simulacra_google.rules import RULES

from simulacra.errors import ConfigurationError
from simulacra.provider import RequestOptions
from simulacra.testing import EmulatedReply, GeminiEmulator
from simulacra.testing.driving import reply_of, request, user

pytestmark = pytest.mark.anyio

ADD = {"name": "add", "description": "Add.", "parameters": {"type": "OBJECT", "properties": {"a": {"type": "NUMBER"}}}}
TOOLS = [{"functionDeclarations": [ADD]}]


def text(what: Any = "hi", **fields: Any) -> dict[str, Any]:
    return {"text": what, **fields}


def call(call_id: str = "", name: Any = "add", args: Any = None, **fields: Any) -> dict[str, Any]:
    given = {"id": call_id} if call_id else {}

    return {"functionCall": {**given, "name": name, "args": {} if args is None else args}, **fields}


def response(call_id: str = "", name: Any = "add", told: Any = None) -> dict[str, Any]:
    given = {"id": call_id} if call_id else {}

    return {"functionResponse": {**given, "name": name, "response": {"output": 3} if told is None else told}}


def users(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts or [text()])}


def models(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def asked(*contents: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "gemini-test", "contents": list(contents), **fields}


def generating(**config: Any) -> dict[str, Any]:
    return asked(users(), generationConfig=config)


def declaring(**function: Any) -> dict[str, Any]:
    return asked(users(), tools=[{"functionDeclarations": [{**ADD, **function}]}])


BROKEN: dict[str, dict[str, Any]] = {
    "contents-given": asked(),
    "roles-known": asked({"role": "wizard", "parts": [text()]}),
    "first-content-by-the-user": asked(models(text()), users()),
    "roles-alternate": asked(users(), users()),
    "parts-given": asked(users(), models(), users()),
    "text-is-unicode": asked(users(text("half a face: \ud83d"))),
    "parts-are-something": asked(users(text(), {})),
    "parts-of-this-api": asked(users(), models(text(), {"foreign": "a part of anthropic"}), users()),
    "texts-not-blank": asked(users(text(), text(" "))),
    "parts-stand-with-their-role": asked(users(text(), {"executableCode": {"code": "1", "language": "PYTHON"}})),
    "thoughts-lead-to-something": asked(users(), models(text("hm", thought=True)), users()),
    "signatures-are-base64": asked(users(), models(text(thoughtSignature="not base64!")), users()),
    "media-fit": asked(users(text(), {"inlineData": {"mimeType": "application/zip", "data": "AAAA"}})),
    "call-names-fit": asked(users(), models(call(name="my tool")), users(response(name="my tool")), tools=TOOLS),
    "call-args-are-an-object": asked(users(), models(call(args="[1")), users(response()), tools=TOOLS),
    "responses-are-objects": asked(users(), models(call()), users(response(told=[3])), tools=TOOLS),
    "first-calls-signed": asked(users(), models(call()), users(response()), tools=TOOLS) | {"model": "gemini-3-pro"},
    "calls-have-responses": asked(users(), models(text(), call()), users(), tools=TOOLS),
    "responses-have-calls": asked(users(text(), response())),
    "as-many-responses-as-calls": asked(users(), models(call()), users(response(), response()), tools=TOOLS),
    "responses-in-call-order": asked(
        users(), models(call("a"), call("b")), users(response("b"), response("a")), tools=TOOLS
    ),
    "responses-first": asked(users(), models(call()), users(text(), response()), tools=TOOLS),
    "responses-named-as-calls": asked(users(), models(call("a")), users(response("a", name="sub")), tools=TOOLS),
    "model-named": asked(users()) | {"model": ""},
    "system-is-text": asked(users(), systemInstruction={"parts": [text(" ")]}),
    "cached-content-has-its-own": asked(users(), cachedContent="cachedContents/c", tools=TOOLS),
    "safety-settings-differ": asked(users(), safetySettings=[{"category": "HARM_CATEGORY_HARASSMENT"}] * 2),
    "inline-data-small-enough": asked(users({"inlineData": {"mimeType": "image/png", "data": "A" * MAX_INLINE}})),
    "tools-not-empty": asked(users(), tools=[]),
    "tool-names-fit": declaring(name="my tool"),
    "tool-names-differ": asked(users(), tools=[*TOOLS, *TOOLS]),
    "parameters-are-objects": declaring(parameters={"type": "STRING"}),
    "schemas-in-the-subset": declaring(
        parameters={"type": "OBJECT", "properties": {"a": {"type": ["STRING", "NULL"]}}}
    ),
    "tool-config-needs-tools": asked(users(), toolConfig={"functionCallingConfig": {"mode": "AUTO"}}),
    "tool-config-fits": asked(users(), tools=TOOLS, toolConfig={"functionCallingConfig": {"mode": "SOMETIMES"}}),
    "limit-is-positive": generating(maxOutputTokens=0),
    "thinking-fits": generating(thinkingConfig={"thinkingBudget": -2}),
    "budget-or-level": generating(thinkingConfig={"thinkingBudget": 1024, "thinkingLevel": "LOW"}),
    "schema-needs-json": generating(responseJsonSchema={"type": "object"}),
    "one-candidate": generating(candidateCount=2),
    "numbers-in-range": generating(temperature=3),
    "stop-sequences-few": generating(stopSequences=list("abcdef")),
}
BY_NAME = {rule.name: rule for rule in RULES.rules}
REPAIRABLE = [name for name in BROKEN if BY_NAME[name].repair is not None]
NAMELESS = frozenset({"model-named"})
"""What has no address to be sent to."""


async def sent(connect: Any, emulator: GeminiEmulator, wire: dict[str, Any]) -> Any:
    """What the SDK makes of the answer to a request that its typed surface would not let through."""
    body = {key: value for key, value in wire.items() if key != "model"}

    async with connect(emulator.base_url) as client:
        path, once = f"models/{wire['model']}:generateContent", HttpOptions(retry_options={"attempts": 1})

        return await client._api_client.async_request("post", path, body, once)


def test_there_are_at_least_25_rules_and_each_one_is_broken_here() -> None:
    assert len(RULES.rules) == len(BY_NAME) >= 25
    assert BROKEN.keys() == BY_NAME.keys()


@pytest.mark.parametrize("name", [name for name in BROKEN if name not in NAMELESS])
async def test_the_emulator_refuses_a_broken_request_with_the_vendors_error(connect, name: str) -> None:
    async with GeminiEmulator([]) as emulator:
        with pytest.raises(errors.ClientError) as raised:
            await sent(connect, emulator, BROKEN[name])

    [(_, violations)] = emulator.refused
    assert name in {violation.rule for violation in violations}
    assert raised.value.code == violations[0].status == 400
    assert raised.value.status == "INVALID_ARGUMENT"
    assert violations[0].path in raised.value.message


@pytest.mark.parametrize("name", NAMELESS)
def test_a_request_without_a_model_is_noticed(name: str) -> None:
    assert name in {violation.rule for violation in RULES.check(BROKEN[name])}


@pytest.mark.parametrize("name", REPAIRABLE)
async def test_the_emulator_accepts_the_repaired_request(connect, name: str) -> None:
    before = copy.deepcopy(BROKEN[name])
    done = RULES.repair_with_receipt(BROKEN[name])

    assert name in {entry.rule for entry in done.receipt}
    assert done.left == ()
    assert RULES.repair(done.request) is done.request
    assert BROKEN[name] == before

    async with GeminiEmulator([EmulatedReply(text="fine")]) as emulator:
        await sent(connect, emulator, done.request)

    assert emulator.refused == []


@pytest.mark.parametrize(
    "contents",
    [
        3,
        [None, 3, "x", [], {"role": 3, "parts": 3}, {"role": "user"}],
        [{"role": "user", "parts": [3, {"functionResponse": 3}, {"inlineData": 3}, {"fileData": []}]}],
        [{"role": "model", "parts": [{"functionCall": 3}, {"functionCall": {"name": []}}, {"thoughtSignature": 3}]}],
    ],
)
def test_no_rule_fails_on_what_is_no_request(contents: Any) -> None:
    strange = {
        "model": 3,
        "contents": contents,
        "systemInstruction": 3,
        "tools": [3, {}, {"functionDeclarations": [3, {"parameters": 3}, {"parameters": {"properties": 3}}]}],
        "toolConfig": {"functionCallingConfig": {"mode": [], "allowedFunctionNames": 3}},
        "generationConfig": {"maxOutputTokens": "x", "thinkingConfig": 3, "responseSchema": 3, "stopSequences": 3},
    }

    for generation in (strange["generationConfig"], 3):
        wire = {**strange, "generationConfig": generation}
        assert RULES.check(wire)
        assert RULES.check(RULES.repair(wire))

    strict = {**strange, "model": "gemini-3-pro", "systemInstruction": {"parts": 3}}
    assert RULES.check(strict)
    assert RULES.check(RULES.repair(strict))


def test_gm_01_parallel_calls_stay_together_with_the_one_signature_they_have() -> None:
    wire = asked(
        users(),
        models(call("a", thoughtSignature="U0lH"), call("b")),
        users(response("a"), response("b")),
        tools=TOOLS,
    ) | {"model": "gemini-3-pro"}

    assert RULES.repair(wire) is wire
    assert RULES.check(wire) == ()


def test_gm_10_a_history_that_opens_with_a_call_is_led_by_the_user() -> None:
    wire = asked(models(call("t1")), users(response("t1")), users(text("next")), tools=TOOLS)
    sent = RULES.repair(wire)["contents"]

    assert [content["role"] for content in sent] == ["user", "model", "user"]
    assert sent[0]["parts"] == [text(OPENING)]
    assert sent[2]["parts"] == [response("t1"), text("next")]


def test_gm_r1_an_empty_part_is_dropped_alone_and_a_signed_one_stays_in_its_place() -> None:
    signed = text("", thoughtSignature="U0lH")
    lone = {"thoughtSignature": "U0lH"}
    wire = asked(users(), models(text("a"), text(""), signed, {}, lone), users())

    assert RULES.repair(wire)["contents"][1]["parts"] == [text("a"), signed, lone]


def test_gm_r4_responses_go_back_together_in_call_order_by_id() -> None:
    wire = asked(
        users(),
        models(call("a"), call("b"), call("c")),
        users(response("c")),
        users(response("a"), text("and?")),
        users(response("b")),
        tools=TOOLS,
    )

    assert RULES.repair(wire)["contents"][2]["parts"] == [response("a"), response("b"), response("c"), text("and?")]


def test_gm_r5_a_response_has_the_name_of_the_call_it_answers() -> None:
    wire = asked(users(), models(call("a", name="add")), users(response("a", name="unknown")), tools=TOOLS)

    assert RULES.repair(wire)["contents"][2]["parts"] == [response("a", name="add")]


@pytest.mark.parametrize("model", ["gemini-3-pro-preview", "publishers/google/models/gemini-3.6-flash", "gemini-10-x"])
def test_only_the_first_call_of_each_content_gets_the_word_for_no_signature(model: str) -> None:
    wire = asked(users(), models(call("a"), call("b")), users(response("a"), response("b")), tools=TOOLS) | {
        "model": model
    }

    assert RULES.repair(wire)["contents"][1]["parts"] == [call("a", thoughtSignature=SKIPPED), call("b")]


@pytest.mark.parametrize("model", ["gemini-2.5-pro", "gemini-flash-latest", "gemma-3"])
def test_other_models_get_calls_without_a_signature(model: str) -> None:
    wire = asked(users(), models(call("a")), users(response("a")), tools=TOOLS) | {"model": model}

    assert RULES.repair(wire) is wire


async def test_what_only_the_user_can_put_right_is_told_before_sending(serve) -> None:
    async with serve([]) as (emulator, provider):
        with pytest.raises(ConfigurationError, match=r"google would refuse .*temperature.*numbers-in-range"):
            await reply_of(provider, request(user("hi"), options=RequestOptions(temperature=3)))

    assert emulator.requests == emulator.refused == []
