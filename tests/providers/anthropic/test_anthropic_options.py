from __future__ import annotations

import anthropic
import anyio
import httpx2
import pytest
from anthropic import Anthropic, AsyncAnthropic
from messages_wire import FINE, user
from simulacra_anthropic import AnthropicProvider, PromptCaching

from simulacra.errors import (
    AuthenticationError,
    ConfigurationError,
    ProtocolError,
    RateLimitError,
    TimeoutExceededError,
)
from simulacra.provider import RequestOptions
from simulacra.registry import plugin, resolve
from simulacra.testing import AnthropicEmulator, EmulatedReply, Recorder, http_error
from simulacra.testing.driving import failure_of, reply_of, request

pytestmark = pytest.mark.anyio


async def test_rt_07_the_sdks_retries_are_off_on_a_client_that_has_them_on(serve):
    async with serve([http_error(429, retry_after=0)], max_retries=9) as (emulator, provider):
        error, _ = await failure_of(provider)

    assert isinstance(error, RateLimitError)
    assert len(emulator.requests) == 1
    assert emulator.requests[0].headers["x-stainless-retry-count"] == "0"


async def test_the_sdks_own_headers_and_address_are_used(serve):
    async with serve([FINE]) as (emulator, provider):
        await reply_of(provider)

    sent = emulator.requests[0]
    assert sent.path == "/v1/messages"
    assert sent.headers["authorization"] == "Bearer k"
    assert sent.headers["anthropic-version"]


@pytest.mark.parametrize("kind", ["mapping", "sync", "async"])
async def test_ant_4_request_options_are_resolved_before_listeners_see_the_request(serve, kind):
    asked = []
    recorder = Recorder()

    def options():
        asked.append(1)
        return {"extra_headers": {"x-token": str(len(asked))}, "extra_query": {"v": "1"}, "timeout": 3}

    async def later():
        return options()

    source = {"mapping": {"extra_headers": {"x-token": "1"}}, "sync": options, "async": later}[kind]

    async with serve([FINE, FINE], request_options=source, extra_headers={"x-own": "o"}) as (emulator, provider):
        await reply_of(provider, request(observer=recorder))
        await reply_of(provider)

    second = "1" if kind == "mapping" else "2"
    assert recorder.params[0]["extra_headers"] == {"x-own": "o", "x-token": "1"}
    assert [sent.headers["x-token"] for sent in emulator.requests] == ["1", second]
    assert kind == "mapping" or emulator.requests[0].path == "/v1/messages?v=1"


@pytest.mark.parametrize(
    "wrong", [{"stream": False}, {"extra_headers": 3}, lambda: None, lambda: {"extra_body": {}}, 7]
)
async def test_ant_4_request_options_that_cannot_be_right_are_refused(serve, wrong):
    async with serve([]) as (_, provider):
        try:
            broken = AnthropicProvider(provider.client, model="m", request_options=wrong)
        except ConfigurationError as error:
            refused = error
        else:
            refused, _ = await failure_of(broken)

    assert isinstance(refused, ConfigurationError)
    assert "option" in str(refused)


async def test_rx_6_sdk_options_can_be_seen_and_changed(serve):
    recorder = Recorder(
        extra_headers={"x-late": "1"}, extra_query={"beta": "true"}, extra_body={"speed": "fast"}, timeout=3
    )

    async with serve([FINE], extra_headers={"x-early": "1"}) as (emulator, provider):
        await reply_of(provider, request(observer=recorder))

    sent = emulator.requests[0]
    assert recorder.params[0]["extra_headers"] == {"x-early": "1"}
    assert sent.headers["x-late"] == "1"
    assert "x-early" not in sent.headers
    assert sent.path == "/v1/messages?beta=true"
    assert sent.body["speed"] == "fast"
    assert sent.headers["x-stainless-read-timeout"] == "3"
    assert not {"extra_headers", "extra_query", "extra_body", "timeout"} & sent.body.keys()


async def test_betas_reach_the_server_as_the_sdk_sends_them(serve):
    async with serve([FINE], betas=["context-management-2025-06-27"]) as (emulator, provider):
        await reply_of(provider)

    assert emulator.requests[0].path == "/v1/messages?beta=true"
    assert emulator.requests[0].headers["anthropic-beta"] == "context-management-2025-06-27"


async def test_rx_11_a_time_limit_of_the_http_client_is_a_typed_error(serve):
    timeout = {"connect": 1, "read": 0.05, "write": 1, "pool": 1}

    async with serve([EmulatedReply(is_silent=True), EmulatedReply(text="x", stall_after=2)], timeout=timeout) as (
        emulator,
        provider,
    ):
        errors = [(await failure_of(provider))[0] for _ in range(2)]
        await emulator.abandoned(2)

    assert [type(error) for error in errors] == [TimeoutExceededError] * 2


async def test_rx_11_the_sdks_default_never_cuts_in_before_the_engines_limits(serve):
    async with serve([]) as (_, provider):

        async def timeout(**options):
            return (await provider.prepare(request(options=RequestOptions(**options)))).get("timeout")

        assert await timeout() is None
        assert (await timeout(first_event_timeout=3600))["read"] == 3600
        assert (await timeout(idle_timeout=None))["read"] is None


async def test_tl_r5_a_number_that_json_cannot_write_is_refused_before_sending(serve):
    async with serve([]) as (_, provider):
        error, _ = await failure_of(provider, request(options=RequestOptions.model_validate({"top": float("nan")})))

    assert isinstance(error, ConfigurationError)


async def test_w_prv_2_tokens_are_counted_by_the_service(serve):
    async with serve([]) as (emulator, provider):
        short = await provider.count_tokens(request(user("a")))
        long = await provider.count_tokens(request(user("a" * 4000), system=("Be brief.",)))

    sent = emulator.side_requests[1]
    assert long - short >= 1000
    assert sent.path == "/v1/messages/count_tokens"
    assert sent.body.keys() == {"model", "messages", "system"}
    assert emulator.requests == []


async def test_w_prv_2_a_count_that_fails_is_a_typed_error():
    answers = [httpx2.Response(401, json={"error": {"type": "authentication_error"}}), httpx2.Response(200, json={})]
    transport = httpx2.MockTransport(lambda asked: answers.pop(0))

    async with httpx2.AsyncClient(transport=transport) as http:
        provider = AnthropicProvider(AsyncAnthropic(api_key="k", http_client=http), model="m")

        with pytest.raises(AuthenticationError):
            await provider.count_tokens(request())

        with pytest.raises(ProtocolError, match="counted no tokens"):
            await provider.count_tokens(request())


async def test_rx_9_a_clone_shares_the_client_and_nothing_else(serve):
    options = {
        "thinking": {"enable": True},
        "server_tools": [{"name": "w"}],
        "request_options": {"extra_headers": {"a": "1"}},
        "metadata": {"k": ["v"]},
        "context_transformers": [object()],
    }

    async with serve([], **options) as (_, provider):
        twin = provider.clone()
        twin.model = "other"
        twin.thinking["enable"] = False
        twin.server_tools[0]["name"] = "x"
        twin.request_options["extra_headers"]["a"] = "2"
        twin.extra["metadata"]["k"].append("w")
        twin.context_transformers.append(object())

    assert twin.client is provider.client
    assert provider.model == "claude-test"
    assert provider.thinking == {"enable": True}
    assert provider.server_tools == [{"name": "w"}]
    assert provider.request_options == {"extra_headers": {"a": "1"}}
    assert provider.extra == {"metadata": {"k": ["v"]}}
    assert len(provider.context_transformers) == 1


async def test_w_prv_4_options_given_to_the_constructor_are_values(serve):
    metadata, thinking = {"k": "v"}, {"enable": True}

    async with serve([], metadata=metadata, thinking=thinking) as (_, provider):
        metadata["k"] = "changed"
        thinking["enable"] = False
        params = await provider.prepare(request())

    assert params["metadata"] == {"k": "v"}
    assert params["thinking"] == {"type": "adaptive"}


@pytest.mark.parametrize(
    "options",
    [
        {"model": ""},
        {"model": None},
        {"max_tokens": 0},
        {"max_tokens": True},
        {"max_tokens": None},
        {"thinking": "deep"},
        {"thinking": {"budget": 3}},
        {"prompt_caching": {"ttl": "9m"}},
        {"request_options": 3},
        {"betas": "x"},
        {"messages": []},
        {"extra_headers": 3},
    ],
)
async def test_rx_10_constructor_options_are_validated(options):
    async with AsyncAnthropic(api_key="k") as client:
        with pytest.raises(ConfigurationError):
            AnthropicProvider(client, **{"model": "m", **options})


async def test_a_client_of_another_kind_is_refused():
    with pytest.raises(ConfigurationError, match=r"anthropic\.AsyncAnthropic"):
        AnthropicProvider(Anthropic(api_key="k"), model="m")


async def test_the_port_is_whole(serve):
    async with serve([], prompt_caching={"ttl": "1h"}) as (_, provider):
        assert provider.kind == "anthropic"
        assert provider.profile.raw_kinds == {"anthropic"}
        assert "application/pdf" in provider.profile.media_types
        assert provider.prompt_caching == PromptCaching(ttl="1h")


def test_each_event_loop_has_connections_of_its_own():
    with AnthropicEmulator([EmulatedReply(text=str(number)) for number in range(5)]) as emulator:
        client = AsyncAnthropic(base_url=emulator.base_url, api_key="k", default_headers={"x-kept": "1"})
        provider = AnthropicProvider(client, model="m")

        async def ask_twice():
            return [(await reply_of(provider)).text for _ in range(2)]

        async def ask_and_close():
            text = (await reply_of(provider)).text
            await client.close()
            return text

        assert anyio.run(ask_and_close) == "0"
        assert anyio.run(ask_twice) == ["1", "2"]
        assert anyio.run(ask_twice, backend="trio") == ["3", "4"]

    assert all(sent.headers["x-kept"] == "1" for sent in emulator.requests)
    assert emulator.open_connections == 0


def test_a_client_with_its_own_transport_says_what_to_inject_on_a_second_loop():
    def answer(asked):
        del asked
        return httpx2.Response(200, text="", headers={"content-type": "text/event-stream"})

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    provider = AnthropicProvider(AsyncAnthropic(api_key="k", http_client=http), model="m")

    assert isinstance(anyio.run(failure_of, provider)[0], ProtocolError)
    error, _ = anyio.run(failure_of, provider)
    assert isinstance(error, ConfigurationError)
    assert "http_client" in str(error)


async def test_a_middleware_of_the_client_sees_every_request():
    seen = []

    async def watch(asked, call_next):
        seen.append(asked)
        return await call_next(asked)

    async with (
        AnthropicEmulator([FINE]) as emulator,
        anthropic.AsyncAnthropic(base_url=emulator.base_url, api_key="k", middleware=[watch]) as client,
    ):
        assert (await reply_of(AnthropicProvider(client, model="m"))).text == "fine"

    assert len(seen) == 1


def test_the_plugin_builds_a_provider_from_the_environment(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    provider = resolve("anthropic:claude-x", max_tokens=7, base_url="http://127.0.0.1:1")

    assert (type(provider), provider.model, provider.max_tokens) == (AnthropicProvider, "claude-x", 7)
    assert provider.client.api_key == "sk-1"
    assert plugin("anthropic").keys == ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


def test_a_missing_key_says_how_to_get_one(monkeypatch):
    for name in plugin("anthropic").keys:
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(AuthenticationError, match="export ANTHROPIC_API_KEY"):
        resolve("anthropic:claude-x")
