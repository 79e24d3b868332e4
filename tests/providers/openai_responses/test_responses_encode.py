"""What a request to the Responses API says, and what becomes of unusual replies."""

from __future__ import annotations

import json

import pytest
from simulacra_openai.responses import OpenAIResponsesProvider, plugin

from simulacra.conversation import Conversation
from simulacra.errors import (
    AuthenticationError,
    ConfigurationError,
    ContextWindowError,
    ProtocolError,
    ServerError,
)
from simulacra.messages import (
    AssistantMessage,
    MediaContent,
    RawContent,
    TextContent,
    ThinkingContent,
    ToolContent,
    ToolResultContent,
    ToolSuccessResult,
    UserMessage,
)
from simulacra.provider import ModelRequest, OutputRequest, RequestOptions
from simulacra.schema import ToolDefinition, ToolParameter
from simulacra.testing import EmulatedCall, EmulatedReply, response_stream
from simulacra.testing.driving import failure_of, reply_of, user
from simulacra.tools import tool

pytestmark = pytest.mark.anyio

ADD = ToolDefinition(
    name="add", description="Add.", parameters=(ToolParameter(name="a", type="number", required=True),)
)
PNG = MediaContent(kind="image", media_type="image/png", data=b"\x89PNG\r\n")
PDF = MediaContent(kind="file", media_type="application/pdf", data=b"%PDF", name="a.pdf")


@pytest.fixture
def prepared(serve):
    async def prepare(*messages, options=None, provider=None, **fields):
        asked = ModelRequest(messages=messages or (user("hi"),), options=options or RequestOptions(), **fields)

        async with serve([], **(provider or {})) as (_, built):
            return await built.prepare(asked)

    return prepare


async def test_a_plain_request(prepared):
    params = await prepared(system=("Be kind.", "Be brief."), options=RequestOptions(max_tokens=50))

    assert params == {
        "model": "gpt-test",
        "input": [{"role": "user", "content": "hi"}],
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "instructions": "Be kind.\n\nBe brief.",
        "max_output_tokens": 50,
    }


async def test_tools_are_strict_where_they_can_be_and_one_can_be_chosen(prepared):
    params = await prepared(tools=(ADD,), options=RequestOptions(tool_choice="add"))

    assert params["tool_choice"] == {"type": "function", "name": "add"}
    assert params["tools"][0]["strict"] is True
    assert params["tools"][0]["parameters"]["required"] == ["a"]
    assert (await prepared(tools=(ADD,), options=RequestOptions(tool_choice="any")))["tool_choice"] == "required"

    with pytest.raises(ConfigurationError, match="tool_choice 'sub'"):
        await prepared(tools=(ADD,), options=RequestOptions(tool_choice="sub"))


async def test_built_in_tools_stand_before_the_conversations(prepared):
    params = await prepared(tools=(ADD,), provider={"built_in_tools": [{"type": "web_search"}]})

    assert [one["type"] for one in params["tools"]] == ["web_search", "function"]


@pytest.mark.parametrize(
    ("thinking", "reasoning"),
    [
        ({"enable": True}, {"summary": "auto"}),
        ({"effort": "low"}, {"effort": "low"}),
        ({"enable": True, "budget_tokens": 4000}, {"effort": "medium", "summary": "auto"}),
        ({"budget_tokens": 1}, {"effort": "low"}),
        ({"enable": False, "effort": "high"}, None),
        ({"effort": "high", "summary": "detailed"}, {"effort": "high", "summary": "detailed"}),
    ],
)
async def test_w_oai_5_what_is_asked_of_reasoning(prepared, thinking, reasoning):
    assert (await prepared(options=RequestOptions(thinking=thinking))).get("reasoning") == reasoning


async def test_options_and_extras_go_through_and_are_merged(prepared):
    given = {"reasoning": {"effort": "low"}, "text": {"verbosity": "low"}, "include": ["message.output_text.logprobs"]}
    options = RequestOptions(
        thinking={"enable": True}, service_tier="flex", previous_response_id="resp_1", store=False, **given
    )
    params = await prepared(options=options, output=OutputRequest(schema={"type": "object", "properties": {}}))

    assert params["service_tier"] == "flex"
    assert params["previous_response_id"] == "resp_1"
    assert params["store"] is False
    assert params["reasoning"] == {"summary": "auto", "effort": "low"}
    assert params["text"]["verbosity"] == "low"
    assert params["text"]["format"]["type"] == "json_schema"
    assert params["text"]["format"]["strict"] is True
    assert params["include"] == ["reasoning.encrypted_content", "message.output_text.logprobs"]
    assert (await prepared(provider={"store": True}))["store"] is True


async def test_mu_r1_media_go_as_their_parts_in_prompts_and_in_results(prepared):
    call = ToolContent(tool_request_id="c1", tool="add", params={})
    result = ToolResultContent(
        tool_request_id="c1", tool="add", result=ToolSuccessResult(result=True), content=(PNG, TextContent("seen"))
    )
    params = await prepared(UserMessage((PNG, PDF)), AssistantMessage((call,)), UserMessage((result,)), tools=(ADD,))
    prompt, _, output = params["input"]

    assert [part["type"] for part in prompt["content"]] == ["input_image", "input_file"]
    assert prompt["content"][0]["image_url"].startswith("data:image/png;base64,")
    assert prompt["content"][1]["filename"] == "a.pdf"
    assert [part["type"] for part in output["output"]] == ["input_text", "input_image"]
    assert output["output"][0]["text"] == '{"result":true}\nseen'


async def test_mu_r1_media_that_the_api_does_not_take_are_refused_in_a_prompt_and_named_in_history(prepared):
    song = MediaContent(kind="audio", media_type="audio/wav", data=b"RIFF")

    with pytest.raises(ConfigurationError, match="the prompt's audio cannot be sent"):
        await prepared(UserMessage((song,)))

    params = await prepared(UserMessage((song,)), AssistantMessage((TextContent("nice"),)), user("again"))
    assert "audio/wav" in params["input"][0]["content"][0]["text"]


async def test_w_prv_3_what_other_vendors_thought_and_said_in_their_own_words_is_left_out(prepared):
    foreign = AssistantMessage(
        (
            ThinkingContent("secret", extended={"signature": "S"}),
            RawContent(model_kind="anthropic", data='{"type": "server_tool_use"}'),
            TextContent("Hello."),
        )
    )
    params = await prepared(user("hi"), foreign, user("and?"))

    assert params["input"][1] == {"role": "assistant", "content": "Hello."}
    assert "secret" not in json.dumps(params)


async def test_an_r3_reasoning_and_calls_go_back_as_they_came(serve):
    @tool
    async def add(a: int) -> int:
        """Add one."""
        return a + 1

    script = [
        EmulatedReply(thinking="hm", calls=[EmulatedCall(tool="add", arguments={"a": 1})]),
        EmulatedReply(thinking="well", text="two"),
        EmulatedReply(text="bye"),
    ]

    async with serve(script) as (emulator, provider):
        conversation = Conversation(provider, toolkit=[add])
        await conversation.prompt("1 + 1?")
        await conversation.prompt("thanks")

    items = emulator.requests[2].body["input"]
    assert [item.get("type", item.get("role")) for item in items] == [
        *("user", "reasoning", "function_call", "function_call_output", "reasoning", "message", "user")
    ]
    assert items[1]["encrypted_content"] == items[4]["encrypted_content"]
    assert "early" not in items[1]["encrypted_content"]
    assert (items[1]["id"], items[2]["id"]) == ("rs_1", "fc_1_0")


async def test_a_refusal_stops_as_one_and_goes_back_as_one(serve):
    async with serve([EmulatedReply(refusal="I will not."), EmulatedReply(text="ok")]) as (emulator, provider):
        conversation = Conversation(provider)
        response = await conversation.prompt("do it")
        await conversation.prompt("then not")

    assert (response.stop_reason, response.text) == ("refusal", "I will not.")
    assert emulator.requests[1].body["input"][1]["content"] == [{"type": "refusal", "refusal": "I will not."}]


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("max_output_tokens", "max_tokens"), ("content_filter", "content_filter"), ("new", "other")],
)
async def test_why_a_response_is_incomplete(serve, reason, stop):
    async with serve([EmulatedReply(text="Hel", finish=reason)]) as (_, provider):
        message = await reply_of(provider)

    assert (message.text, message.stop_reason) == ("Hel", stop)


def failed(error):
    events = [
        {"type": "response.created", "response": {"id": "resp_1", "model": "m", "status": "in_progress"}},
        {"type": "response.failed", "response": {"id": "resp_1", "status": "failed", "error": error, "output": []}},
    ]

    return EmulatedReply(body=response_stream(events), content_type="text/event-stream")


@pytest.mark.parametrize(
    ("code", "kind"), [("server_error", ServerError), ("context_length_exceeded", ContextWindowError)]
)
async def test_w_prv_1_a_response_that_failed_is_its_typed_error(serve, code, kind):
    async with serve([failed({"code": code, "message": "no"})]) as (_, provider):
        error, _ = await failure_of(provider)

    assert type(error) is kind


async def test_a_reply_that_is_not_streamed_is_read_too(serve):
    reply = EmulatedReply(thinking="hm", text="hi", calls=[EmulatedCall(tool="add", arguments={"a": 1}, id="c1")])

    async with serve([reply, reply]) as (emulator, provider):
        streamed = await reply_of(provider)
        provider.extra["extra_body"] = {"stream": False}
        whole = await reply_of(provider)

    assert [type(block) for block in whole.content] == [type(block) for block in streamed.content]
    assert whole.text == streamed.text
    assert whole.tool_calls[0].params == {"a": 1}
    assert whole.usage == streamed.usage


async def test_an_event_that_is_none_of_the_apis_is_a_protocol_error(serve):
    strange = [{"type": "response.output_text.delta", "delta": 3}]

    async with serve([EmulatedReply(body=response_stream(strange), content_type="text/event-stream")]) as (_, provider):
        error, _ = await failure_of(provider)

    assert isinstance(error, ProtocolError)


def test_a_missing_key_comes_with_its_remedy(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(AuthenticationError, match="platform.openai.com"):
        plugin.create("gpt-test")

    assert isinstance(plugin.create("gpt-test", api_key="k"), OpenAIResponsesProvider)


@pytest.mark.parametrize(
    "options",
    [
        {"model": ""},
        {"max_tokens": 0},
        {"store": "yes"},
        {"strict": 3},
        {"input": []},
        {"reasoning": 3},
        {"include": "x"},
    ],
)
async def test_options_that_cannot_be_right_are_refused(serve, options):
    with pytest.raises(ConfigurationError):
        async with serve([], **options):
            pass


async def test_a_clone_shares_no_options(serve):
    async with serve([], service_tier="flex", built_in_tools=[{"type": "web_search"}]) as (_, provider):
        twin = provider.clone()
        twin.extra["service_tier"] = "default"
        twin.built_in_tools.append({"type": "file_search"})

        assert provider.extra == {"service_tier": "flex"}
        assert provider.built_in_tools == [{"type": "web_search"}]
