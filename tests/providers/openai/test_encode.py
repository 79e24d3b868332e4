from __future__ import annotations

import pytest
from simulacra_openai.drafting import Settings
from simulacra_openai.encode import encode_request
from simulacra_openai.presets import COMPATIBLE

from simulacra.errors import ConfigurationError
from simulacra.messages import TextContent, UserMessage
from simulacra.provider import ModelRequest, RequestOptions
from simulacra.schema import ToolDefinition, ToolParameter

HELLO = (UserMessage((TextContent("hello"),)),)
ADD = ToolDefinition(
    name="add",
    description="Adds.",
    parameters=(ToolParameter(name="a", type="integer", required=True), ToolParameter(name="b", type="integer")),
)
OPEN = ToolDefinition(name="put", description="Puts.", parameters={"type": "object", "additionalProperties": True})


def params(*, tools=(), system=(), options=None, messages=HELLO, **settings):
    asked = ModelRequest(
        messages=messages, tools=tools, system=system, options=RequestOptions.model_validate(options or {})
    )

    return encode_request(asked, Settings(**{"model": "gpt-test", **settings}))


def test_oai_1_a_plain_request():
    assert params() == {
        "model": "gpt-test",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_oai_1_the_limit_has_the_name_the_service_knows():
    assert params(max_tokens=9)["max_completion_tokens"] == 9
    assert params(max_tokens=9, options={"max_tokens": 5})["max_completion_tokens"] == 5
    assert params(max_tokens=9, preset=COMPATIBLE)["max_tokens"] == 9
    assert "max_completion_tokens" not in params(max_tokens=9, preset=COMPATIBLE)


def test_oai_1_tools_come_with_a_choice():
    assert params(tools=(ADD,))["tool_choice"] == "auto"
    assert "tool_choice" not in params(options={"tool_choice": "any"})


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("any", "required"),
        ("add", {"type": "function", "function": {"name": "add"}}),
    ],
)
def test_w_oai_5_tool_choice_is_settable(choice, sent):
    assert params(tools=(ADD,), options={"tool_choice": choice})["tool_choice"] == sent


def test_w_oai_5_a_choice_of_no_tool_is_refused():
    with pytest.raises(ConfigurationError, match="'sub'"):
        params(tools=(ADD,), options={"tool_choice": "sub"})


@pytest.mark.parametrize(
    ("model", "role"),
    [
        ("o1", "developer"),
        ("o4-mini", "developer"),
        ("gpt-5", "system"),
        ("ft:o4-mini:me", "system"),
        ("olmo", "system"),
        ("llama", "system"),
    ],
)
def test_oai_2_the_role_of_the_system_prompt(model, role):
    assert params(system=("Be brief.",), model=model)["messages"][0] == {"role": role, "content": "Be brief."}


def test_oai_2_the_role_can_be_given():
    assert params(system=("s",), model="o1", system_role="system")["messages"][0]["role"] == "system"
    assert params(system=("s",), model="o1", preset=COMPATIBLE)["messages"][0]["role"] == "system"


@pytest.mark.parametrize("empty", [(), ("",), (" \n", "")])
def test_oai_2_an_empty_system_prompt_is_none(empty):
    assert params(system=empty)["messages"] == [{"role": "user", "content": "hello"}]


def test_oai_2_several_texts_are_one_message():
    assert params(system=("a", " ", "b"))["messages"][0]["content"] == "a\n\nb"


def test_oai_3_a_tool_that_can_be_strict_is():
    assert params(tools=(ADD,))["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "add",
                "description": "Adds.",
                "parameters": {
                    "type": "object",
                    "properties": {"a": {"type": "integer"}, "b": {"type": ["integer", "null"]}},
                    "required": ["a", "b"],
                    "additionalProperties": False,
                },
                "strict": True,
            },
        }
    ]


def test_oai_3_a_tool_that_cannot_be_strict_goes_out_plain():
    (tool,) = params(tools=(OPEN,))["tools"]

    assert tool["function"]["strict"] is False
    assert tool["function"]["parameters"] == {"type": "object", "properties": {}, "additionalProperties": True}


def test_oai_3_strict_true_refuses_what_cannot_be():
    assert params(tools=(ADD,), strict=True)["tools"][0]["function"]["strict"] is True

    with pytest.raises(ConfigurationError, match="'put' cannot be strict"):
        params(tools=(OPEN,), strict=True)


def test_oai_3_strict_false_never_is():
    function = params(tools=(ADD,), strict=False)["tools"][0]["function"]

    assert function["strict"] is False
    assert function["parameters"]["required"] == ["a"]


def test_oai_3_a_compatible_service_gets_the_schema_as_it_is():
    function = params(tools=(ADD,), preset=COMPATIBLE)["tools"][0]["function"]

    assert "strict" not in function
    assert function["parameters"]["required"] == ["a"]


def test_cc_r2_the_tools_schema_is_a_copy():
    schema = {"type": "object", "properties": {"a": {"enum": ["x"]}}, "patternProperties": {}}
    sent = params(tools=(ToolDefinition(name="t", description="", parameters=schema),))["tools"][0]
    sent["function"]["parameters"]["properties"]["a"]["enum"].append("y")

    assert schema["properties"]["a"]["enum"] == ["x"]


@pytest.mark.parametrize(
    "field",
    ["messages", "stream", "stream_options", "tools", "tool_choice", "system", "model", "max_completion_tokens"],
)
@pytest.mark.parametrize("nested", [False, True])
def test_rx_10_an_extra_that_the_engine_sets_is_refused(field, nested):
    extra = {"extra_body": {field: 1}} if nested else {field: 1}

    if field == "tool_choice" and not nested:
        return  # a known option

    with pytest.raises(ConfigurationError, match=field):
        params(options=extra)


def test_rx_10_extras_go_out_as_they_are():
    sent = params(extra={"temperature": 0.5, "seed": 1}, options={"seed": 2, "top_p": 0.1})

    assert {key: sent[key] for key in ("temperature", "seed", "top_p")} == {"temperature": 0.5, "seed": 2, "top_p": 0.1}


@pytest.mark.parametrize("extra", [{"n": 2}, {"extra_body": {"n": 3}}])
def test_oai_9_several_choices_are_refused(extra):
    with pytest.raises(ConfigurationError, match="'n'"):
        params(options=extra)


def test_oai_9_one_choice_is_fine():
    assert params(options={"n": 1})["n"] == 1


def test_rx_6_sdk_options_are_part_of_the_parameters():
    sent = params(
        extra={"extra_headers": {"a": "1", "b": "1"}, "timeout": 5},
        options={"extra_headers": {"b": "2"}, "extra_query": {"v": 1}},
    )

    assert sent["extra_headers"] == {"a": "1", "b": "2"}
    assert sent["extra_query"] == {"v": 1}
    assert sent["timeout"] == 5


@pytest.mark.parametrize("name", ["extra_headers", "extra_query", "extra_body"])
def test_rx_10_an_sdk_option_of_a_wrong_kind_is_refused(name):
    with pytest.raises(ConfigurationError, match=name):
        params(options={name: "x"})


@pytest.mark.parametrize(
    ("thinking", "effort"),
    [
        ({"effort": "minimal"}, "minimal"),
        ({"enable": True, "budget_tokens": 1024}, "low"),
        ({"enable": True, "budget_tokens": 8192}, "medium"),
        ({"enable": True, "budget_tokens": 30000}, "high"),
        ({"enable": True, "effort": "high", "budget_tokens": 1}, "high"),
        ({"enable": True}, None),
        ({"enable": False, "effort": "high"}, None),
    ],
)
def test_w_oai_5_thinking_becomes_an_effort(thinking, effort):
    assert params(options={"thinking": thinking}).get("reasoning_effort") == effort


@pytest.mark.parametrize("thinking", [{"budget": 1}, {"effort": 3}, {"budget_tokens": "x"}, {"budget_tokens": True}])
def test_w_prv_4_thinking_options_are_validated(thinking):
    with pytest.raises(ConfigurationError, match="thinking"):
        params(options={"thinking": thinking})


def test_un_01_lone_surrogates_are_replaced_in_everything_that_is_sent():
    tool = ToolDefinition(name="t", description="\ud800", parameters={"type": "object", "description": "\ud800"})
    sent = params(system=("\ud800",), tools=(tool,), options={"user": "a\udc9d"})

    assert sent["messages"][0]["content"] == "\ufffd"
    assert sent["tools"][0]["function"]["description"] == "\ufffd"
    assert sent["tools"][0]["function"]["parameters"]["description"] == "\ufffd"
    assert sent["user"] == "a\ufffd"
