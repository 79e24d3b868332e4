"""Structured output, predicted output and the options of the service."""

from __future__ import annotations

import pytest
from chat_requests import asking
from simulacra_openai import COMPATIBLE, OPENAI, rules_for
from simulacra_openai.drafting import Settings
from simulacra_openai.encode import encode_request
from simulacra_openai.strict import NotStrictError, strict_fault, strict_schema

from simulacra.errors import ConfigurationError
from simulacra.messages import TextContent, UserMessage
from simulacra.provider import ModelRequest, OutputRequest, RequestOptions
from simulacra.schema import ToolDefinition
from simulacra.testing import EmulatedReply
from simulacra.testing.driving import reply_of, request, user

pytestmark = pytest.mark.anyio

HELLO = (UserMessage((TextContent("hello"),)),)
CITY = {
    "type": "object",
    "title": "City report",
    "description": "A city.",
    "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
    "required": ["name"],
}
OPEN = {"type": "object", "additionalProperties": {"type": "string"}}


def params(schema, *, preset=OPENAI, options=None):
    asked = ModelRequest(
        messages=HELLO, output=OutputRequest(schema=schema), options=RequestOptions.model_validate(options or {})
    )

    return encode_request(asked, Settings(model="gpt-test", preset=preset))


def test_an_output_is_strict_where_the_schema_allows():
    asked = params(CITY)["response_format"]

    assert asked["type"] == "json_schema"
    assert asked["json_schema"]["strict"] is True
    assert asked["json_schema"]["description"] == "A city."
    assert asked["json_schema"]["schema"]["required"] == ["name", "size"]
    assert asked["json_schema"]["schema"]["properties"]["size"] == {"type": ["integer", "null"]}


def test_an_output_whose_schema_cannot_be_strict_goes_out_as_it_is():
    asked = params(OPEN)["response_format"]["json_schema"]

    assert asked == {"name": "output", "schema": OPEN, "strict": False}


def test_an_outputs_name_is_put_right_by_the_rules():
    assert params(CITY)["response_format"]["json_schema"]["name"] == "City_report"


def test_a_compatible_service_gets_the_schema_and_no_flag():
    assert params(CITY, preset=COMPATIBLE)["response_format"]["json_schema"] == {
        "name": "City_report",
        "description": "A city.",
        "schema": CITY,
    }


def test_the_schema_given_in_is_not_changed():
    before = repr(CITY)
    params(CITY)["response_format"]["json_schema"]["schema"]["properties"].clear()

    assert repr(CITY) == before


async def test_structured_output_over_the_wire(serve):
    async with serve([EmulatedReply(text='{"name": "Ulm", "size": 3}')]) as (emulator, provider):
        message = await reply_of(provider, request(user("which?"), output=OutputRequest(schema=CITY)))

    assert message.text == '{"name": "Ulm", "size": 3}'
    assert emulator.requests[0].body["response_format"]["json_schema"]["strict"] is True
    assert emulator.refused == []


async def test_oa_r3_a_refusal_of_an_output_is_an_outcome(serve):
    async with serve([EmulatedReply(refusal=["I can", "not."])]) as (emulator, provider):
        message = await reply_of(provider, request(user("which?"), output=OutputRequest(schema=CITY)))

    assert (message.text, message.stop_reason) == ("I cannot.", "refusal")
    assert len(emulator.requests) == 1


async def test_options_of_the_service_go_through(serve):
    options = {
        "prediction": {"type": "content", "content": "x = 1"},
        "service_tier": "flex",
        "verbosity": "low",
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "store": True,
        "metadata": {"a": "b"},
        "seed": 1,
        "logit_bias": {"50256": -100},
        "web_search_options": {},
    }

    async with serve([EmulatedReply(text="x")]) as (emulator, provider):
        await reply_of(provider, request(options=RequestOptions.model_validate(options)))

    assert {name: emulator.requests[0].body[name] for name in options} == options


def test_a_prediction_beside_tools_is_refused_before_sending():
    tool = ToolDefinition(name="f", description="")
    asked = ModelRequest(
        messages=HELLO,
        tools=(tool,),
        options=RequestOptions.model_validate({"prediction": {"type": "content", "content": "x"}}),
    )

    for _ in range(2):  # tools that are known to be good are still seen
        with pytest.raises(ConfigurationError, match="predictions-stand-alone"):
            encode_request(asked, Settings(model="gpt-test"))


def test_a_tool_without_a_fitting_name_is_refused_before_sending():
    asked = ModelRequest(messages=HELLO, tools=(ToolDefinition(name="files.read", description=""),))

    for _ in range(2):
        with pytest.raises(ConfigurationError, match="tool-names-fit"):
            encode_request(asked, Settings(model="gpt-test"))


def nested(levels):
    schema = {"type": "string"}

    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}

    return schema


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        (3, "type object"),
        ({"type": "array", "items": {}}, "type object"),
        ({"type": "object"}, "at #: an object must list"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}, "every property"),
        ({**nested(1), "oneOf": []}, "oneOf cannot be expressed"),
        ({**nested(1), "properties": {"a": {"type": "array"}}}, "at #/properties/a: an array without items"),
        ({**nested(1), "properties": {"a": {}}}, "without a type"),
        ({**nested(1), "properties": {"a": 3}}, "no object"),
        ({**nested(1), "properties": {"a": {"$ref": "#/$defs/A", "description": "x"}}}, "stands alone"),
        ({**nested(1), "properties": {"a": {"type": "string", "format": ["x"]}}}, "format"),
        ({**nested(1), "properties": [], "required": []}, "properties must be"),
        (nested(11), "nested more than 10"),
    ],
)
def test_sc_r4_what_keeps_a_schema_from_being_strict_is_told_with_its_place(schema, fault):
    assert fault in strict_fault(schema)
    sent = asking(tools=[{"type": "function", "function": {"name": "f", "parameters": schema, "strict": True}}])
    assert "strict-schemas-are-strict" in [found.rule for found in rules_for(OPENAI).check(sent)]


def test_sc_r4_a_schema_that_is_too_deep_is_not_called_strict():
    assert strict_fault(nested(9)) == ""

    with pytest.raises(NotStrictError, match="nested"):
        strict_schema(nested(12))


@pytest.mark.parametrize("schema", [CITY, nested(3), {"type": "object", "properties": {}}])
def test_sc_r4_what_is_made_strict_is_strict(schema):
    assert strict_fault(strict_schema(schema)) == ""
