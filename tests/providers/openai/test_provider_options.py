from __future__ import annotations

import json
import subprocess
import sys

import anyio
import httpx2
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from simulacra_openai import OpenAIProvider, openai_compatible
from simulacra_openai.services import NO_KEY

from simulacra.errors import (
    AuthenticationError,
    ConfigurationError,
    ProtocolError,
    RateLimitError,
    TimeoutExceededError,
)
from simulacra.provider import RequestOptions
from simulacra.registry import plugin, resolve
from simulacra.testing import EmulatedReply, OpenAIEmulator, Recorder, http_error
from simulacra.testing.driving import failure_of, reply_of, request

pytestmark = pytest.mark.anyio


async def test_rt_07_the_sdks_retries_are_off_on_a_client_that_has_them_on(serve):
    async with serve([http_error(429, retry_after=0)], max_retries=9) as (emulator, provider):
        error, _ = await failure_of(provider)

    assert isinstance(error, RateLimitError)
    assert len(emulator.requests) == 1
    assert emulator.requests[0].headers["x-stainless-retry-count"] == "0"


async def test_rx_6_sdk_options_can_be_seen_and_changed(serve):
    recorder = Recorder(
        extra_headers={"x-late": "1"}, extra_query={"api-version": "7"}, extra_body={"seed": 4}, timeout=3
    )

    async with serve([EmulatedReply(text="x")], extra_headers={"x-early": "1"}) as (emulator, provider):
        await reply_of(provider, request(observer=recorder))

    sent = emulator.requests[0]
    assert recorder.params[0]["extra_headers"] == {"x-early": "1"}
    assert sent.headers["x-late"] == "1"
    assert "x-early" not in sent.headers
    assert sent.path == "/v1/chat/completions?api-version=7"
    assert sent.body["seed"] == 4
    assert sent.headers["x-stainless-read-timeout"] == "3"
    assert not {"extra_headers", "extra_query", "extra_body", "timeout"} & sent.body.keys()


async def test_rx_11_a_time_limit_of_the_http_client_is_a_typed_error(serve):
    timeout = {"connect": 1, "read": 0.05, "write": 1, "pool": 1}

    async with serve([EmulatedReply(is_silent=True), EmulatedReply(text="x", stall_after=2)], timeout=timeout) as (
        emulator,
        provider,
    ):
        errors = [(await failure_of(provider))[0] for _ in range(2)]
        await emulator.abandoned(2)

    assert [type(error) for error in errors] == [TimeoutExceededError] * 2


async def test_rx_11_the_sdks_default_never_cuts_in_before_the_engines_limits():
    provider = openai_compatible("http://127.0.0.1:1/v1", model="m")

    async def timeout(**options):
        return (await provider.prepare(request(options=RequestOptions(**options)))).get("timeout")

    assert await timeout() is None
    assert (await timeout(first_event_timeout=3600))["read"] == 3600
    assert (await timeout(idle_timeout=None))["read"] is None
    await provider.client.close()

    strict = OpenAIProvider(AsyncOpenAI(api_key="k", timeout=3), model="m")
    assert "timeout" not in await strict.prepare(request(options=RequestOptions(idle_timeout=None)))
    await strict.client.close()


async def test_tl_r5_a_number_that_json_cannot_write_is_refused_before_sending(serve):
    async with serve([]) as (_, provider):
        error, _ = await failure_of(provider, request(options=RequestOptions.model_validate({"seed": float("nan")})))

    assert isinstance(error, ConfigurationError)


async def test_rx_9_a_clone_shares_the_client_and_nothing_else():
    transformer = object()
    provider = openai_compatible(
        "http://127.0.0.1:1/v1", model="a", metadata={"k": ["v"]}, context_transformers=[transformer], max_tokens=5
    )
    twin = provider.clone()
    twin.model = "b"
    twin.max_tokens = 6
    twin.extra["metadata"]["k"].append("w")
    twin.context_transformers.append(object())

    assert type(twin) is OpenAIProvider
    assert twin.client is provider.client
    assert (provider.model, provider.max_tokens, provider.extra) == ("a", 5, {"metadata": {"k": ["v"]}})
    assert provider.context_transformers == [transformer]
    await provider.client.close()


async def test_w_prv_4_options_given_to_the_constructor_are_values():
    metadata = {"k": "v"}
    provider = openai_compatible("http://127.0.0.1:1/v1", model="m", metadata=metadata)
    metadata["k"] = "changed"

    assert (await provider.prepare(request()))["metadata"] == {"k": "v"}
    await provider.client.close()


@pytest.mark.parametrize(
    "options",
    [
        {"model": ""},
        {"model": None},
        {"max_tokens": 0},
        {"max_tokens": True},
        {"max_tokens": "9"},
        {"strict": "yes"},
        {"system_role": "assistant"},
        {"messages": []},
        {"n": 2},
        {"extra_headers": 3},
    ],
)
async def test_rx_10_constructor_options_are_validated(options):
    async with AsyncOpenAI(api_key="k") as client:
        with pytest.raises(ConfigurationError):
            OpenAIProvider(client, **{"model": "m", **options})


async def test_a_client_of_another_kind_is_refused():
    with pytest.raises(ConfigurationError, match="AsyncOpenAI"):
        OpenAIProvider(OpenAI(api_key="k"), model="m")

    class OldTransport:
        """What `httpx` was."""

    client = AsyncOpenAI(api_key="k")
    transport, client._client = client._client, OldTransport()

    with pytest.raises(ConfigurationError, match="httpx2"):
        OpenAIProvider(client, model="m")

    await transport.aclose()


async def test_a_compatible_service_is_never_given_the_environments_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")

    async with OpenAIEmulator([EmulatedReply(text="x")] * 2) as emulator:
        for key in (None, "own"):
            provider = openai_compatible(emulator.base_url, model="m", api_key=key)
            await reply_of(provider)
            await provider.client.close()

    assert [sent.headers["authorization"] for sent in emulator.requests] == [f"Bearer {NO_KEY}", "Bearer own"]


async def test_azure_clients_find_their_deployment():
    async with OpenAIEmulator([EmulatedReply(text="x")]) as emulator:
        client = openai.AsyncAzureOpenAI(
            api_key="k", api_version="1", azure_endpoint=emulator.base_url.removesuffix("/v1")
        )
        await reply_of(OpenAIProvider(client, model="my-model"))
        await client.close()

    assert emulator.requests[0].path.startswith("/openai/deployments/my-model/chat/completions")


async def test_w_prv_2_the_port_is_whole():
    provider = openai_compatible("http://127.0.0.1:1/v1", model="m")

    assert await provider.count_tokens(request()) is None
    assert provider.profile.raw_kinds == {"openai"}
    assert provider.kind == "openai"
    await provider.client.close()


def test_each_event_loop_has_connections_of_its_own():
    """A client belongs to the loop it was first used on; further loops get a copy that leaves nothing open."""
    with OpenAIEmulator([EmulatedReply(text=str(number)) for number in range(5)]) as emulator:
        client = AsyncOpenAI(base_url=emulator.base_url, api_key="k", default_headers={"x-kept": "1"})
        provider = OpenAIProvider(client, model="m")

        async def ask_twice():
            return [(await reply_of(provider)).text for _ in range(2)]

        async def ask_and_close():
            text = (await reply_of(provider)).text
            await client.close()
            return text

        async def both():
            return [*await ask_twice()]

        assert anyio.run(ask_and_close) == "0"
        assert anyio.run(ask_twice) == ["1", "2"]
        assert anyio.run(both, backend="trio") == ["3", "4"]

    assert all(sent.headers["x-kept"] == "1" for sent in emulator.requests)
    assert emulator.open_connections == 0


def test_a_client_with_its_own_transport_says_what_to_inject_on_a_second_loop():
    def answer(asked):
        del asked
        return httpx2.Response(200, text="data: [DONE]\n\n", headers={"content-type": "text/event-stream"})

    transport = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    provider = OpenAIProvider(AsyncOpenAI(api_key="k", http_client=transport), model="m")

    assert isinstance(anyio.run(failure_of, provider)[0], ProtocolError)
    error, _ = anyio.run(failure_of, provider)
    assert isinstance(error, ConfigurationError)
    assert "http_client" in str(error)


def test_importing_the_plugin_imports_no_sdk():
    code = "import sys, simulacra_openai; print([name for name in ('openai', 'httpx2') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert json.loads(done.stdout) == []


def test_the_plugin_builds_a_provider_from_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    provider = resolve("openai:gpt-5", max_tokens=7, base_url="http://127.0.0.1:1/v1")

    assert (type(provider), provider.model, provider.max_tokens) == (OpenAIProvider, "gpt-5", 7)
    assert provider.client.api_key == "sk-1"
    assert plugin("openai").keys == ("OPENAI_API_KEY",)


def test_a_missing_key_says_how_to_get_one(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(AuthenticationError, match="export OPENAI_API_KEY"):
        resolve("openai:gpt-5")
