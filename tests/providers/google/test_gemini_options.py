"""Options of a request to Gemini: thinking, choice of tools, fields of the vendor's own, an output's schema."""

from __future__ import annotations

import pytest
from gemini_wire import add, params_of

from simulacra.errors import ConfigurationError
from simulacra.provider import OutputRequest, RequestOptions


def thinking_of(settings=None, **options):
    generation = params_of(options=RequestOptions(**options), settings=settings).get("generationConfig", {})

    return generation.get("thinkingConfig")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, None),
        ({"enable": True}, {"includeThoughts": True}),
        ({"enable": False}, {"includeThoughts": False}),
        ({"budget_tokens": 0}, {"thinkingBudget": 0}),
        ({"enable": True, "budget_tokens": -1}, {"includeThoughts": True, "thinkingBudget": -1}),
        ({"level": "high"}, {"thinkingLevel": "high"}),
        ({"enable": True, "level": "LOW"}, {"includeThoughts": True, "thinkingLevel": "LOW"}),
        ({"include_thoughts": True}, {"includeThoughts": True}),
    ],
)
def test_thinking_has_a_budget_or_a_level_and_is_shown_on_demand(asked, expected):
    assert thinking_of(thinking=asked) == thinking_of(settings={"thinking": asked}) == expected


def test_the_thinking_of_a_request_stands_for_the_providers():
    assert thinking_of(settings={"thinking": {"level": "low"}}, thinking={"enable": True}) == {"includeThoughts": True}


@pytest.mark.parametrize("asked", [{"effort": "high"}, {"budget_tokens": -5}, {"budget_tokens": 1, "level": "low"}])
def test_thinking_that_cannot_be_right_is_refused(asked):
    with pytest.raises(ConfigurationError, match=r"think"):
        thinking_of(thinking=asked)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"mode": "AUTO"}),
        ("any", {"mode": "ANY"}),
        ("none", {"mode": "NONE"}),
        ("add", {"mode": "ANY", "allowedFunctionNames": ["add"]}),
    ],
)
def test_a_tool_may_be_chosen(choice, expected):
    params = params_of(tools=[add.get_definition()], options=RequestOptions(tool_choice=choice))

    assert params["toolConfig"] == {"functionCallingConfig": expected}


def test_a_tool_that_there_is_not_cannot_be_chosen():
    with pytest.raises(ConfigurationError, match=r"'sub' is none of .*add"):
        params_of(tools=[add.get_definition()], options=RequestOptions(tool_choice="sub"))


def test_built_in_tools_stand_beside_functions():
    params = params_of(
        tools=[add.get_definition()], settings={"built_in_tools": [{"googleSearch": {}}, {"codeExecution": {}}]}
    )

    assert [next(iter(tool)) for tool in params["tools"]] == ["googleSearch", "codeExecution", "functionDeclarations"]


def test_options_stand_where_they_belong_in_either_spelling():
    settings = {"extra": {"top_p": 0.5, "safetySettings": [{"category": "C", "threshold": "BLOCK_NONE"}], "seed": 1}}
    options = RequestOptions(max_tokens=9, seed=2, stop_sequences=["x"], labels={"a_b": "c"})
    params = params_of(settings=settings, options=options)

    assert params["generationConfig"] == {"topP": 0.5, "seed": 2, "stopSequences": ["x"], "maxOutputTokens": 9}
    assert params["safetySettings"] == [{"category": "C", "threshold": "BLOCK_NONE"}]
    assert params["labels"] == {"a_b": "c"}


def test_cached_content_has_its_own_system_and_tools():
    options = RequestOptions(cached_content="cachedContents/c")
    params = params_of(system=["s"], tools=[add.get_definition()], options=options)

    assert params.keys() == {"model", "contents", "cachedContent"}


def test_an_output_is_asked_for_by_its_schema():
    schema = {
        "$defs": {"City": {"type": "object", "properties": {"n": {"type": "string", "minLength": 1}}}},
        "type": "object",
        "properties": {"city": {"$ref": "#/$defs/City"}, "kind": {"const": "x"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    generation = params_of(output=OutputRequest(schema=schema))["generationConfig"]

    assert generation["responseMimeType"] == "application/json"
    assert generation["responseJsonSchema"] == {
        "type": "object",
        "properties": {"city": {"type": "object", "properties": {"n": {"type": "string"}}}, "kind": {"enum": ["x"]}},
        "required": ["city"],
        "additionalProperties": False,
    }
