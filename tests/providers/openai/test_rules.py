"""Each rule: the emulator refuses what breaks it through the official SDK, and takes what was put right."""

from __future__ import annotations

import json

import openai
import pytest
from chat_requests import BROKEN, FOR_THE_USER, REPAIRABLE, answer, asking, call, called, showing
from hypothesis import given, settings
from hypothesis import strategies as st
from simulacra_openai import AZURE, CLOUDFLARE, COMPATIBLE, FIREWORKS, OLLAMA, OPENAI, OpenAIProvider, rules_for

from simulacra.errors import BadRequestError, ConfigurationError
from simulacra.messages import MediaContent, TextContent, UserMessage
from simulacra.provider import ProviderProfile, RequestOptions
from simulacra.registry import plugin
from simulacra.rules import lint
from simulacra.testing import EmulatedReply, OpenAIEmulator, Recorder
from simulacra.testing.driving import failure_of, request, user

pytestmark = pytest.mark.anyio

OWN = rules_for(OPENAI)
OPEN = rules_for(COMPATIBLE)
NULLESS = rules_for(OLLAMA)
SENT = {rule.name: table for table in (NULLESS, OPEN, OWN) for rule in table.rules}
"""For each rule a table that has it; OpenAI's own where it does."""


async def sent(emulator, wire):
    async with openai.AsyncOpenAI(base_url=emulator.base_url, api_key="k", max_retries=0) as client:
        return await client.post(
            "/chat/completions", content=json.dumps(wire).encode(), cast_to=object, options={"max_retries": 0}
        )


def test_every_rule_of_every_service_has_a_request_that_breaks_it():
    assert SENT.keys() == BROKEN.keys()
    assert len({rule.name for rule in OWN.rules}) == len(OWN.rules) >= 25
    assert all(len(rules_for(preset).rules) >= 25 for preset in (COMPATIBLE, FIREWORKS, CLOUDFLARE, OLLAMA, AZURE))
    assert {rule.name for table in (OWN, OPEN, NULLESS) for rule in table.rules if rule.repair} == REPAIRABLE.keys()


@pytest.mark.parametrize("name", sorted(BROKEN))
async def test_the_emulator_refuses_what_breaks_the_rule(name):
    async with OpenAIEmulator([], rules=SENT[name]) as emulator:
        with pytest.raises(openai.BadRequestError) as refused:
            await sent(emulator, BROKEN[name])

    ((_, violations),) = emulator.refused
    assert name in [violation.rule for violation in violations]
    assert refused.value.body["type"] == "invalid_request_error"
    assert violations[0].path in refused.value.body["message"]


@pytest.mark.parametrize("name", sorted(BROKEN))
async def test_what_was_put_right_is_taken(name):
    table = SENT[name]
    good = table.repair(BROKEN[name]) if name in REPAIRABLE else FOR_THE_USER[name][1]

    async with OpenAIEmulator([EmulatedReply(text="x")], rules=table) as emulator:
        await sent(emulator, good)

    assert emulator.refused == []
    assert name not in [violation.rule for violation in table.check(good)]


@pytest.mark.parametrize("name", sorted(REPAIRABLE))
def test_a_repair_says_what_it_did_and_comes_to_rest(name):
    table = SENT[name]
    before = json.dumps(BROKEN[name])
    repaired = table.repair_with_receipt(BROKEN[name])

    assert name in [violation.rule for violation in repaired.receipt]
    assert repaired.left == ()
    assert table.repair(repaired.request) is repaired.request
    assert json.dumps(BROKEN[name]) == before


@pytest.mark.parametrize("preset", [OPENAI, COMPATIBLE, FIREWORKS, CLOUDFLARE, OLLAMA, AZURE])
def test_a_good_request_comes_back_as_it_is(preset):
    table = rules_for(preset)
    good = asking(
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "ä"}, {"type": "image_url", "image_url": {"url": "https://x.y/z"}}],
        },
        called(call(), call("b", arguments='{"q": 1}'), **({} if preset.takes_null else {"content": ""})),
        answer(),
        answer("b"),
        {"role": "assistant", "content": "1", "refusal": None},
        {"role": "user", "content": "thanks"},
    )

    assert table.check(good) == ()
    assert table.repair(good) is good


def test_services_differ_by_their_preset():
    extended = asking({"role": "user", "content": "x"}, {"role": "assistant", "content": "y", "reasoning_content": "z"})
    two_in_a_row = asking({"role": "user", "content": "x"}, {"role": "user", "content": "y"})

    assert [found.rule for found in OWN.check(extended)] == ["message-fields-known"]
    assert OPEN.check(extended) == ()
    assert OWN.check(two_in_a_row) == ()
    assert [found.rule for found in OPEN.check(two_in_a_row)] == ["roles-alternate"]


def test_the_plugins_carry_their_tables():
    assert plugin("openai").rules is rules_for(OPENAI)
    assert [plugin(name).rules.vendor for name in ("fireworks", "cloudflare", "ollama", "azure")] == [
        "fireworksai",
        "cloudflare",
        "ollama",
        "azure",
    ]


async def test_a_profile_without_rules_gets_those_of_its_service():
    async with openai.AsyncOpenAI(api_key="k") as client:
        provider = OpenAIProvider(client, model="m")
        own, plain = ([rule.name for rule in table.rules] for table in (provider.profile.rules, plugin("openai").rules))
        assert own == plain

        provider.profile = ProviderProfile(media_types=frozenset(), raw_kinds=frozenset({"openai"}))
        assert provider.profile.rules.vendor == "openai"
        picture = UserMessage((MediaContent(kind="image", media_type="image/png", data=b"\x89PNG"), TextContent("?")))
        assert [found.rule for found in lint([picture], provider.profile)] == ["part-types-known"]


@pytest.mark.parametrize("name", ["numbers-in-range", "stop-sequences-few", "metadata-fits", "predictions-stand-alone"])
async def test_what_only_the_user_can_put_right_is_told_before_sending(serve, name):
    broken = {key: value for key, value in BROKEN[name].items() if key not in ("model", "messages", "tools")}
    options = RequestOptions.model_validate({**broken, **({"logprobs": True} if "prediction" in broken else {})})

    async with serve([]) as (emulator, provider):
        error, _ = await failure_of(provider, request(user("hello"), options=options))

    assert isinstance(error, ConfigurationError)
    assert name in str(error)
    assert "openai" in str(error)
    assert emulator.requests == emulator.refused == []


async def test_a_refusal_is_the_vendors_error(serve):
    async with serve([]) as (emulator, provider):
        error, _ = await failure_of(provider, request(observer=Recorder(messages=[])))

    assert isinstance(error, BadRequestError)
    assert (error.status, error.code) == (400, "empty_array")
    assert len(emulator.refused) == 1


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from(["", " ", "a", "b", "x" * 41, "\ud800", "{}", "{", "user"]),
)
PART = st.one_of(
    ODD,
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "image_url", "input_audio", "file", "foreign", "odd", None, 3])},
        optional={"text": ODD, "image_url": ODD, "file": st.fixed_dictionaries({"file_id": ODD}), "block": ODD},
    ),
)
FUNCTION = st.one_of(ODD, st.fixed_dictionaries({}, optional={"name": ODD, "arguments": ODD}))
CALL = st.one_of(
    ODD,
    st.fixed_dictionaries(
        {},
        optional={
            "id": ODD,
            "type": st.sampled_from(["function", "custom", "odd", None]),
            "function": FUNCTION,
            "index": ODD,
        },
    ),
)
MESSAGE = st.one_of(
    ODD,
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "assistant", "tool", "tool", "system", "odd", None, 3])},
        optional={
            "content": st.one_of(ODD, st.lists(PART, max_size=3)),
            "tool_calls": st.one_of(ODD, st.lists(CALL, max_size=3)),
            "tool_call_id": ODD,
            "name": ODD,
            "refusal": ODD,
            "odd": ODD,
        },
    ),
)
FIELD = st.one_of(
    ODD,
    st.lists(ODD, max_size=2),
    st.dictionaries(
        st.sampled_from(["type", "name", "function", "json_schema", "format"]),
        st.one_of(
            ODD, st.dictionaries(st.sampled_from(["name", "schema", "strict", "parameters", "type"]), ODD, max_size=3)
        ),
        max_size=3,
    ),
)
NAMES = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "stop",
    "metadata",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "response_format",
    "stream",
    "stream_options",
    "modalities",
    "audio",
    "prediction",
    "top_logprobs",
    "functions",
]
WIRE = st.one_of(
    st.dictionaries(st.sampled_from(NAMES), FIELD),
    st.fixed_dictionaries({"model": st.just("m"), "messages": st.lists(MESSAGE, max_size=6)}),
)


@settings(max_examples=200, deadline=None)
@given(wire=WIRE, table=st.sampled_from([OWN, OPEN, NULLESS]))
def test_any_json_is_checked_and_repaired_without_raising(wire, table):
    before = repr(wire)
    table.check(wire)
    repaired = table.repair(wire)

    assert repr(wire) == before
    assert table.repair(repaired) is repaired


@settings(max_examples=200, deadline=None)
@given(messages=st.lists(MESSAGE, max_size=6), table=st.sampled_from([OWN, OPEN, NULLESS]))
def test_no_repair_leaves_what_it_could_have_put_right(messages, table):
    repaired = table.repair({"model": "m", "messages": messages})

    assert [str(found) for found in table.check(repaired) if found.is_repairable] == []


def test_what_a_picture_of_a_wrong_type_becomes():
    repaired = OWN.repair(showing({"type": "image_url", "image_url": {"url": "data:image/svg+xml;base64,aaaa"}}))

    assert "image/svg+xml" in repaired["messages"][0]["content"]
