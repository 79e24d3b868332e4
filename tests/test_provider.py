"""The provider port: options, requests, the default parameters, clones."""

from __future__ import annotations

import dataclasses
import json

import pytest
from pydantic import ValidationError

from simulacra.errors import ConfigurationError
from simulacra.messages import AssistantMessage, TextContent, Usage, UserMessage
from simulacra.provider import (
    ModelProvider,
    ModelRequest,
    OutputRequest,
    ProviderProfile,
    RequestOptions,
    SilentObserver,
)
from simulacra.schema import ToolDefinition, ToolParameter
from simulacra.streaming import (
    MessageStart,
    MessageStop,
    OpenStream,
    TextDelta,
    ThinkingStart,
    ToolCallStart,
    UsageUpdate,
    opens_reply,
    peek_generator,
)
from simulacra.testing import ScriptedProvider

pytestmark = pytest.mark.anyio

QUESTION = UserMessage((TextContent("hi"),), id="m1", timestamp=5)


class Echo(ModelProvider):
    kind = "echo"

    def __init__(self, client, *, model, **extra):
        self.client = client
        self.model = model
        self.extra = extra
        self.transformers = [client]

    async def stream(self, request):
        yield TextDelta(0, "echo")
        yield MessageStop()


def test_rx_1_a_provider_has_a_kind_a_model_a_profile_and_one_verb():
    provider = Echo(object(), model="m")
    assert (provider.kind, provider.model, provider.profile) == ("echo", "m", ProviderProfile())
    assert tuple(provider.context_transformers) == ()
    assert ModelProvider.__abstractmethods__ == {"stream"}


async def test_rx_1_the_default_parameters_are_the_request_as_json_values():
    tool = ToolDefinition(
        name="add", description="Adds.", parameters=[ToolParameter(name="a", type="integer", required=True)]
    )
    request = ModelRequest(
        messages=(QUESTION, AssistantMessage((TextContent("yes"),))),
        tools=(tool,),
        system=("Be brief.",),
        options=RequestOptions(max_tokens=5, seed=7, idle_timeout=None),
    )
    params = await Echo(object(), model="m").prepare(request)
    assert json.loads(json.dumps(params)) == params
    assert params["model"] == "m"
    assert params["system"] == ["Be brief."]
    assert [message["role"] for message in params["messages"]] == ["user", "assistant"]
    assert params["tools"][0]["input_schema"]["required"] == ["a"]
    assert (params["max_tokens"], params["seed"]) == (5, 7)


async def test_rx_1_a_provider_without_a_count_says_so():
    assert await Echo(object(), model="m").count_tokens(ModelRequest(messages=(QUESTION,))) is None


def test_rx_2_a_request_is_frozen_and_complete():
    request = ModelRequest(messages=(QUESTION,))
    assert [field.name for field in dataclasses.fields(request)] == [
        "messages",
        "tools",
        "system",
        "options",
        "output",
        "observer",
    ]
    assert (request.tools, request.system, request.output) == ((), (), None)

    with pytest.raises(dataclasses.FrozenInstanceError):
        request.messages = ()

    assert OutputRequest(schema={"type": "object"}).mode == "native"


@pytest.mark.parametrize(
    ("event", "opens"),
    [
        (MessageStart("id"), False),
        (UsageUpdate(Usage(input_tokens=1)), False),
        (TextDelta(0, "x"), True),
        (ThinkingStart(0), True),
        (ToolCallStart(0, "t", "f"), True),
        (MessageStop(), True),
    ],
)
def test_rx_3_the_first_event_is_content_or_the_closing_one(event, opens):
    assert opens_reply(event) is opens


async def test_rx_3_what_comes_before_the_first_event_is_held_back_and_replayed():
    events = [MessageStart("id"), UsageUpdate(Usage()), TextDelta(0, "x"), MessageStop()]
    provider = ScriptedProvider([events])
    first, stream = await peek_generator(provider.stream(ModelRequest(messages=(QUESTION,))), opens_reply)
    assert first == TextDelta(0, "x")
    assert [event async for event in stream] == events


async def test_rx_3_errors_are_raised_from_the_iterator():
    from simulacra.errors import OverloadedError
    from simulacra.testing import fault

    provider = ScriptedProvider([[MessageStart(), fault(OverloadedError("busy"))]])

    with pytest.raises(OverloadedError):
        await peek_generator(provider.stream(ModelRequest(messages=(QUESTION,))), opens_reply)

    assert provider.open_streams == 0


def test_rx_9_a_clone_shares_the_client_and_no_option_container():
    client = object()
    provider = Echo(client, model="m", extra_body={"a": {"b": [1]}}, tags={1})
    clone = provider.clone()
    clone.model = "other"
    clone.extra["extra_body"]["a"]["b"].append(2)
    clone.extra["tags"].add(2)
    clone.extra["more"] = 1
    clone.transformers.append(None)
    assert type(clone) is Echo
    assert clone.client is provider.client is provider.transformers[0]
    assert provider.model == "m"
    assert provider.extra == {"extra_body": {"a": {"b": [1]}}, "tags": {1}}
    assert len(provider.transformers) == 1


def test_w_prv_4_clones_share_no_mutable_state_in_either_direction():
    provider = Echo(object(), model="m", headers={"x": ["1"]})
    clone = provider.clone()
    provider.extra["headers"]["x"].append("2")
    assert clone.extra == {"headers": {"x": ["1"]}}


def test_rx_11_time_limits_are_options_in_seconds():
    options = RequestOptions()
    assert (options.first_event_timeout, options.idle_timeout, options.total_timeout) == (600, 120, None)


def test_gen_1_time_limits_are_named_without_ms():
    assert not [name for name in RequestOptions.model_fields if name.endswith("_ms")]


@pytest.mark.parametrize(
    "bad",
    [
        {"max_tokens": 0},
        {"max_tokens": "many"},
        {"idle_timeout": 0},
        {"first_event_timeout": -1},
        {"total_timeout": "soon"},
        {"thinking": "yes"},
        {"tool_choice": 5},
    ],
)
def test_w_prv_4_known_options_are_validated_wherever_they_are_given(bad):
    (name,) = bad

    with pytest.raises(ConfigurationError, match=name):
        RequestOptions(**bad)

    with pytest.raises(ConfigurationError, match=name):
        RequestOptions().updated(**bad)


def test_gen_3_bad_options_are_value_errors_too():
    with pytest.raises(ValueError, match="max_tokens"):
        RequestOptions(max_tokens=-1)


def test_updated_adds_replaces_and_removes():
    options = RequestOptions(max_tokens=5, temperature=0.5, seed=1)
    changed = options.updated(max_tokens=None, temperature=None, top_p=0.1, idle_timeout=None)
    assert (changed.max_tokens, changed.idle_timeout) == (None, None)
    assert dict(changed.extra) == {"seed": 1, "top_p": 0.1}
    assert (options.max_tokens, dict(options.extra)) == (5, {"temperature": 0.5, "seed": 1})


def test_updated_with_nothing_is_equal():
    options = RequestOptions(max_tokens=5, stop=["x"])
    assert options.updated() == options


def test_options_are_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        RequestOptions().max_tokens = 5


def test_an_option_may_have_any_name():
    assert dict(RequestOptions(self=1, options=2).extra) == {"self": 1, "options": 2}


async def test_an_observer_for_use_without_a_conversation_changes_nothing():
    observer = SilentObserver()
    params = {"a": 1}
    assert await observer.before_request(params) is params
    await observer.chunk({})
    await observer.response({})
    assert observer.wants_chunks is False


async def test_an_open_stream_tells_usage_and_settles_once():
    told, settled = [], []
    provider = ScriptedProvider(["x"])
    stream = OpenStream(provider.stream(ModelRequest(messages=(QUESTION,))), provider_kind="scripted", model="m")

    async def settle(usage):
        settled.append(usage)

    stream.on_usage(told.append)
    stream.on_close(settle)
    stream.on_close(settled.append)
    await anext(stream.events)
    await stream.report_usage(Usage(output_tokens=3))
    await stream.aclose()
    await stream.aclose()
    assert told == [Usage(output_tokens=3)]
    assert settled == [Usage(output_tokens=3)] * 2
    assert provider.open_streams == 0


async def test_what_a_usage_hook_raises_reaches_the_turn():
    def refuse(usage):
        raise KeyError("budget")

    stream = OpenStream(Echo(object(), model="m").stream(None), provider_kind="echo", model="m")
    stream.on_usage(refuse)

    with pytest.raises(KeyError):
        await stream.report_usage(Usage())

    await stream.aclose()
