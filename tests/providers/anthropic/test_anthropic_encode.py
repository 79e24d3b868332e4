"""The parameters of a request beside its messages: system, tools, thinking, caching, extras."""

from __future__ import annotations

import dataclasses

import pytest
from messages_wire import NO_CACHE, params_of, result, user
from simulacra_anthropic import PromptCaching
from simulacra_anthropic.caching import caching_of
from simulacra_anthropic.drafting import Settings
from simulacra_anthropic.encode import check_extra, count_params

from simulacra.errors import ConfigurationError
from simulacra.messages import AssistantMessage, RawContent, TextContent, ThinkingContent, ToolContent
from simulacra.provider import OutputRequest, RequestOptions
from simulacra.schema import ToolDefinition, ToolParameter

EPHEMERAL = {"type": "ephemeral"}
ADD = ToolDefinition(
    name="add",
    description="Add.",
    parameters=(
        ToolParameter(name="a", type="integer", required=True),
        ToolParameter(name="b", type="integer", default=2),
        ToolParameter(
            name="how", type="object", properties=(ToolParameter(name="mode", type="string", required=True),)
        ),
    ),
)
CALL = AssistantMessage((ToolContent(tool_request_id="t1", tool="add", params={}),))


def cached(*messages, caching=None, **fields):
    return params_of(*messages, settings=Settings(model="m", caching=caching or PromptCaching()), **fields)


def with_thinking(thinking, **options):
    return params_of(options=RequestOptions(thinking=thinking, **options))


def with_options(**options):
    return params_of(options=RequestOptions.model_validate(options))


def marks_in(value):
    """Every cache mark of a request, with the type of what carries it."""
    if isinstance(value, list):
        return [found for item in value for found in marks_in(item)]

    if not isinstance(value, dict):
        return []

    own = [value.get("type", "tool")] if value.get("cache_control") else []

    return own + [found for item in value.values() for found in marks_in(item)]


def test_ant_1_the_system_prompt_is_a_string_or_left_out():
    assert "system" not in params_of()
    assert "system" not in params_of(system=(" ", ""))
    assert params_of(system=("Be brief.", " ", "Be kind."))["system"] == "Be brief.\n\nBe kind."
    assert params_of()["stream"] is True


def test_ant_1_a_cached_system_prompt_is_one_marked_text():
    assert cached(system=("a", "b"))["system"] == [{"type": "text", "text": "a\n\nb", "cache_control": EPHEMERAL}]


def test_max_tokens_is_always_sent():
    assert params_of()["max_tokens"] == 8192
    assert params_of(options=RequestOptions(max_tokens=5))["max_tokens"] == 5


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        (None, None),
        ({}, None),
        ({"enable": True, "budget_tokens": 2048}, {"type": "enabled", "budget_tokens": 2048}),
        (
            {"budget_tokens": 2048, "display": "omitted"},
            {"type": "enabled", "budget_tokens": 2048, "display": "omitted"},
        ),
        ({"enable": True}, {"type": "adaptive"}),
        ({"enable": True, "display": "summarized"}, {"type": "adaptive", "display": "summarized"}),
        ({"enable": False}, {"type": "disabled"}),
        ({"enable": False, "budget_tokens": 9}, {"type": "disabled"}),
        ({"type": "between_tools"}, {"type": "between_tools"}),
        ({"type": "future", "x": [1]}, {"type": "future", "x": [1]}),
        ({"effort": "high"}, None),
    ],
)
def test_ant_2_thinking_is_what_was_asked_for(asked, sent):
    assert with_thinking(asked).get("thinking") == sent


def test_w_ant_4_effort_and_thinking_between_calls_reach_the_request():
    assert with_thinking({"enable": True, "effort": "max"})["output_config"] == {"effort": "max"}
    assert "output_config" not in with_thinking({"enable": True})
    between = with_thinking({"enable": True, "budget_tokens": 9000, "interleaved": True})
    assert between["extra_headers"] == {"anthropic-beta": "interleaved-thinking-2025-05-14"}
    settings = Settings(model="m", thinking={"enable": True})
    assert params_of(settings=settings)["thinking"] == {"type": "adaptive"}
    off = params_of(settings=settings, options=RequestOptions(thinking={"enable": False}))
    assert off["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize(
    "thinking",
    [
        {"budget": 3},
        {"budget_tokens": 0},
        {"budget_tokens": True},
        {"budget_tokens": "9"},
        {"effort": 3},
        {"enable": 7},
    ],
)
def test_w_ant_4_thinking_that_cannot_be_right_is_refused(thinking):
    with pytest.raises(ConfigurationError, match="thinking option"):
        with_thinking(thinking)


def test_ant_3_a_tools_schema_is_an_object_without_empty_parts():
    plain = ToolDefinition(name="now", description="The time.")
    loose = ToolDefinition(name="any", description="Any.", parameters={"properties": {}, "required": []})
    tools = params_of(tools=(ADD, plain, loose))["tools"]

    assert tools[0]["input_schema"] == {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "integer", "default": 2},
            "how": {"type": "object", "properties": {"mode": {"type": "string"}}, "required": ["mode"]},
        },
        "required": ["a"],
    }
    assert [one["input_schema"] for one in tools[1:]] == [{"type": "object"}] * 2
    assert "tools" not in params_of()
    assert "tool_choice" not in params_of(tools=(ADD,))


def test_ant_3_calls_of_history_never_go_out_without_tools():
    messages = (user("q"), CALL, user(result("t1")))
    params = params_of(*messages)

    assert params["tools"] == [{"name": "add", "input_schema": {"type": "object"}}]
    assert params["tool_choice"] == {"type": "none"}
    off = params_of(*messages, tools=(ADD,), options=RequestOptions(tool_choice="none"))
    assert [one["name"] for one in off["tools"]] == ["add"]
    assert off["tool_choice"] == {"type": "none"}


@pytest.mark.parametrize(
    ("wanted", "sent"),
    [
        ("auto", {"type": "auto"}),
        ("any", {"type": "any"}),
        ("none", {"type": "none"}),
        ("add", {"type": "tool", "name": "add"}),
    ],
)
def test_the_choice_among_tools(wanted, sent):
    assert params_of(tools=(ADD,), options=RequestOptions(tool_choice=wanted))["tool_choice"] == sent


def test_a_choice_that_is_no_tool_is_refused():
    with pytest.raises(ConfigurationError, match="sub"):
        params_of(tools=(ADD,), options=RequestOptions(tool_choice="sub"))


def test_one_call_at_a_time():
    alone = RequestOptions.model_validate({"disable_parallel_tool_use": True})

    assert params_of(tools=(ADD,), options=alone)["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert params_of(options=alone).keys().isdisjoint({"tool_choice", "disable_parallel_tool_use"})


def test_server_tools_stand_before_the_engines_own():
    search = {"type": "web_search_20250305", "name": "web_search"}
    params = params_of(tools=(ADD,), settings=Settings(model="m", server_tools=(search,)))

    assert [one["name"] for one in params["tools"]] == ["web_search", "add"]
    assert search == {"type": "web_search_20250305", "name": "web_search"}


def test_an_object_is_asked_for_by_its_schema():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    params = params_of(output=OutputRequest(schema=schema), options=RequestOptions(thinking={"effort": "low"}))

    assert params["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": schema}}


def test_w_ant_5_four_breakpoints_for_an_agent():
    hidden = ThinkingContent("", redacted=True, extended={"data": "D"})
    turns = [user("q"), AssistantMessage((hidden, *CALL.content)), user(result("t1"))]
    params = cached(*turns, system=("s",), tools=(ADD, dataclasses.replace(ADD, name="sum")))

    assert marks_in(params) == ["text", "tool_result", "text", "tool"]
    assert [bool(one.get("cache_control")) for one in params["tools"]] == [False, True]
    assert params["messages"][0]["content"][0]["cache_control"] == EPHEMERAL
    assert params["messages"][2]["content"][-1]["cache_control"] == EPHEMERAL


def test_w_ant_5_each_request_reads_what_the_last_one_wrote():
    """The message that was last stays marked in the next request, and its bytes before the mark are the same."""
    history, marked = [], []

    for number in range(4):
        history.append(user(f"question {number}"))
        messages = cached(*history)["messages"]
        marked.append([place for place, turn in enumerate(messages) if marks_in(turn)])
        history.append(AssistantMessage((TextContent("answer"),)))

    assert marked == [[0], [0, 2], [2, 4], [4, 6]]


def test_w_ant_5_marks_never_stand_on_what_cannot_carry_them():
    raw = RawContent(model_kind="anthropic", data='{"type": "container_upload", "file_id": "f"}')
    assert marks_in(cached(user("look", raw))) == ["text"]
    assert marks_in(cached(user(raw))) == []
    prefill = AssistantMessage((TextContent("title:"),))
    assert marks_in(cached(user("name it"), prefill)["messages"][1]) == []


def test_w_ant_5_what_is_cached_and_how_long_can_be_chosen():
    chosen = PromptCaching(system_prompt=False, toolkit=False, ttl="1h")
    params = cached(user("q"), caching=chosen, system=("s",), tools=(ADD,))

    assert params["system"] == "s"
    assert "cache_control" not in params["tools"][0]
    assert params["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert marks_in(cached(system=("s",), tools=(ADD,), caching=PromptCaching(**NO_CACHE))) == []


def test_w_ant_5_the_users_own_marks_count():
    own = RequestOptions.model_validate({"cache_control": EPHEMERAL})
    params = cached(
        user("a"), AssistantMessage((TextContent("b"),)), user("c"), system=("s",), tools=(ADD,), options=own
    )
    assert len(marks_in(params)) == 4
    assert params["messages"][-1]["content"] == "c"
    search = {"type": "web_search_20250305", "name": "w", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    assert params_of(settings=Settings(model="m", server_tools=(search,)))["tools"] == [search]


@pytest.mark.parametrize(
    "given", [{"ttl": "2h"}, {"tools": True}, {"history": "yes"}, 3, PromptCaching(ttl="x"), {"toolkit": None}]
)
def test_w_ant_5_an_option_of_caching_that_cannot_be_right_is_refused(given):
    with pytest.raises(ConfigurationError, match="prompt_caching"):
        caching_of(given)


def test_caching_is_on_unless_it_is_switched_off():
    assert caching_of(None) == caching_of(True) == caching_of({}) == PromptCaching()
    assert caching_of(False) == PromptCaching(**NO_CACHE)


@pytest.mark.parametrize(
    "field", ["model", "messages", "system", "stream", "max_tokens", "tools", "tool_choice", "thinking"]
)
@pytest.mark.parametrize("nested", [False, True])
def test_rx_10_a_field_that_the_engine_sets_is_refused(field, nested):
    with pytest.raises(ConfigurationError, match=field):
        check_extra({"extra_body": {field: 1}} if nested else {field: 1})


def test_rx_10_further_options_go_out_as_they_are():
    params = with_options(metadata={"user_id": "u"}, stop_sequences=["X"], context_management={"edits": []})

    assert params["metadata"] == {"user_id": "u"}
    assert params["stop_sequences"] == ["X"]
    assert params["context_management"] == {"edits": []}


def test_betas_become_a_header_and_the_beta_address():
    extra = {"betas": ["context-management-2025-06-27", "b"], "extra_headers": {"anthropic-beta": "a,b"}}
    params = with_options(**extra)

    assert params["extra_headers"]["anthropic-beta"] == "a,b,context-management-2025-06-27"
    assert params["extra_query"] == {"beta": "true"}
    assert "betas" not in params

    for wrong in ("a", [1]):
        with pytest.raises(ConfigurationError, match="betas"):
            with_options(betas=wrong)


def test_a_count_of_tokens_takes_what_is_counted():
    counted = count_params(
        cached(user("q"), system=("s",), tools=(ADD,), options=RequestOptions(thinking={"enable": True}))
    )

    assert counted.keys() == {"model", "messages", "system", "tools", "thinking"}
