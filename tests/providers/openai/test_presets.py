"""Services that are presets: data, a client, and everything else as it is for OpenAI."""

from __future__ import annotations

import json

import openai
import pytest
from chat_wire import chunk, stream_of
from simulacra_openai import (
    CLOUDFLARE,
    FIREWORKS,
    FIREWORKS_BASE_URL,
    OLLAMA,
    OpenAIProvider,
    Preset,
    azure,
    cloudflare,
    create_cloudflare_client,
    create_fireworksai_client,
    fireworks,
    get_cloudflare_gateway_base_url,
    ollama,
    openai_compatible,
)
from simulacra_openai.drafting import Settings
from simulacra_openai.encode import encode_request
from simulacra_openai.services import NO_KEY

from simulacra.errors import AuthenticationError, ConfigurationError, RateLimitError
from simulacra.messages import (
    AssistantMessage,
    RawContent,
    TextContent,
    ThinkingContent,
    ToolContent,
    ToolResultContent,
    ToolSuccessResult,
    UserMessage,
)
from simulacra.provider import ModelRequest
from simulacra.registry import plugin, resolve
from simulacra.schema import ToolDefinition, ToolParameter
from simulacra.testing import EmulatedReply, OpenAIEmulator, Recorder, http_error
from simulacra.testing.driving import failure_of, reply_of, request, user

pytestmark = pytest.mark.anyio

ADD = ToolDefinition(
    name="add",
    description="Adds.",
    parameters=(ToolParameter(name="a", type="integer", required=True), ToolParameter(name="b", type="integer")),
)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("FIREWORKS_API_KEY", "CLOUDFLARE_API_KEY", "CLOUDFLARE_GATEWAY_TOKEN", "CLOUDFLARE_ACCOUNT_ID"):
        monkeypatch.delenv(name, raising=False)

    for name in ("CLOUDFLARE_GATEWAY_NAME", "OLLAMA_HOST", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


def params(preset, *messages, **fields):
    asked = ModelRequest(messages=messages or (UserMessage((TextContent("hello"),)),), tools=(ADD,), system=("s",))

    return encode_request(asked, Settings(**{"model": "o1", "preset": preset, "raw_kinds": preset.raw_kinds, **fields}))


async def test_fw_1_the_client_knows_address_and_key(monkeypatch):
    monkeypatch.setenv("FIREWORKS_API_KEY", "fw-1")

    async with create_fireworksai_client() as own, create_fireworksai_client("fw-2") as given:
        assert str(own.base_url).rstrip("/") == FIREWORKS_BASE_URL == "https://api.fireworks.ai/inference/v1"
        assert (own.api_key, given.api_key, own.max_retries) == ("fw-1", "fw-2", 0)
        assert type(own) is openai.AsyncOpenAI


async def test_fw_1_the_name_resolves(monkeypatch):
    monkeypatch.setenv("FIREWORKS_API_KEY", "fw-1")
    provider = resolve("fireworks:accounts/fireworks/models/kimi", max_tokens=7)

    assert (type(provider), provider.kind, provider.max_tokens) == (OpenAIProvider, "fireworksai", 7)
    assert provider.model == "accounts/fireworks/models/kimi"
    assert provider.client.api_key == "fw-1"
    await provider.client.close()


def test_fw_1_a_missing_key_says_how_to_get_one():
    with pytest.raises(AuthenticationError, match="export FIREWORKS_API_KEY"):
        resolve("fireworks:m")


@pytest.mark.parametrize("preset", [FIREWORKS, CLOUDFLARE])
def test_fw_2_cf_2_the_request_differs_as_the_service_does(preset):
    sent = params(preset, max_tokens=9)
    function = sent["tools"][0]["function"]

    assert sent["messages"][0] == {"role": "system", "content": "s"}
    assert sent["max_tokens"] == 9
    assert "max_completion_tokens" not in sent
    assert "strict" not in function
    assert function["parameters"]["properties"]["b"] == {"type": ["integer", "null"]}
    assert function["parameters"]["required"] == ["a", "b"]


@pytest.mark.parametrize("preset", [FIREWORKS, CLOUDFLARE, OLLAMA])
def test_fw_2_cf_2_raw_parts_of_the_service_and_of_openai_go_back(preset):
    mine, openais, others = (
        RawContent(model_kind=kind, data=json.dumps({"type": f"x_{kind}"}))
        for kind in (preset.kind, "openai", "google")
    )
    sent = params(preset, UserMessage((TextContent("a"), mine, openais, others)))["messages"][1]["content"]

    assert [part["type"] for part in sent] == ["text", f"x_{preset.kind}", "x_openai"]


@pytest.mark.parametrize("preset", [FIREWORKS, CLOUDFLARE])
def test_fw_2_cf_2_calls_without_text_have_no_content(preset):
    call = ToolContent(tool_request_id="a", tool="add", params={"a": 1})
    answer = ToolResultContent(tool_request_id="a", tool="add", result=ToolSuccessResult.model_validate({"n": 1}))
    sent = params(preset, UserMessage((TextContent("a"),)), AssistantMessage((call,)), UserMessage((answer,)))[
        "messages"
    ]

    assert sent[2]["content"] is None
    assert sent[3]["tool_call_id"] == "a"


async def test_w_fw_1_every_piece_of_reasoning_is_kept_in_one_block():
    deltas = [chunk({"reasoning_content": piece}) for piece in ("a", "b", "c")]

    async with OpenAIEmulator([stream_of(*deltas, chunk({"content": "x"}), chunk(finish="stop"))]) as emulator:
        provider = openai_compatible(emulator.base_url, model="m", api_key="k", preset=FIREWORKS)
        message = await reply_of(provider)
        await provider.client.close()

    assert [block.thought for block in message.content if isinstance(block, ThinkingContent)] == ["abc"]


async def test_w_fw_2_a_service_is_added_with_data_alone(monkeypatch):
    async with OpenAIEmulator([EmulatedReply(text="x", refusal="")]) as emulator:
        acme = Preset(
            kind="acme",
            base_url=emulator.base_url,
            key="ACME_KEY",
            remedy="export ACME_KEY=...",
            limit_field="max_output",
            strict_flag=False,
            system_role="user",
            thinking_fields=("thoughts",),
        )

        with pytest.raises(AuthenticationError, match="export ACME_KEY"):
            openai_compatible(model="m", preset=acme)

        monkeypatch.setenv("ACME_KEY", "secret")
        provider = openai_compatible(model="m", preset=acme, max_tokens=3)
        await reply_of(provider, request(user("hello"), system=("s",)))
        await provider.client.close()

    (sent,) = emulator.requests
    assert sent.headers["authorization"] == "Bearer secret"
    assert sent.body["max_output"] == 3
    assert provider.kind == provider.profile.rules.vendor == "acme"


def test_a_service_without_an_address_says_what_is_missing():
    with pytest.raises(ConfigurationError, match="base_url"):
        openai_compatible(model="m")


@pytest.mark.parametrize(
    ("parts", "address"),
    [
        (("acc", "gate", "openai"), "acc/gate/openai"),
        (("a/b", "my gate", "workers-ai/v1"), "a%2Fb/my%20gate/workers-ai/v1"),
        (("acc", "ü", "google-ai-studio/v1beta/openai"), "acc/%C3%BC/google-ai-studio/v1beta/openai"),
    ],
)
def test_cf_1_every_part_of_the_address_is_encoded(parts, address):
    account, gateway, provider = parts
    built = get_cloudflare_gateway_base_url(account_id=account, gateway_name=gateway, provider=provider)

    assert built == f"https://gateway.ai.cloudflare.com/v1/{address}"


async def test_cf_1_the_name_resolves(monkeypatch):
    monkeypatch.setenv("CLOUDFLARE_API_KEY", "sk-1")
    monkeypatch.setenv("CLOUDFLARE_ACCOUNT_ID", "acc")
    monkeypatch.setenv("CLOUDFLARE_GATEWAY_NAME", "gate")
    provider = resolve("cloudflare:gpt-5")

    assert (provider.kind, provider.client.api_key, provider.client.max_retries) == ("cloudflare", "sk-1", 0)
    assert str(provider.client.base_url).endswith("/acc/gate/openai/")
    await provider.client.close()


async def gateway(emulator, **options):
    """A client as for Cloudflare's gateway, but to the emulator."""
    client = create_cloudflare_client(account_id="a", gateway_name="g", **{"api_key": "sk-1", **options})
    client.base_url = emulator.base_url

    return client


async def test_w_cf_1_headers_are_options():
    async with OpenAIEmulator([EmulatedReply(text="x")]) as emulator:
        client = await gateway(
            emulator,
            gateway_token="t",
            cache_ttl=60,
            skip_cache=True,
            cache_key="k",
            metadata={"team": "ä"},
            collect_log=False,
            request_timeout_ms=500,
            max_attempts=2,
        )
        await reply_of(cloudflare(client, model="m"))
        await client.close()

    headers = emulator.requests[0].headers
    assert {name: value for name, value in headers.items() if name.startswith("cf-aig")} == {
        "cf-aig-authorization": "Bearer t",
        "cf-aig-cache-ttl": "60",
        "cf-aig-skip-cache": "true",
        "cf-aig-cache-key": "k",
        "cf-aig-metadata": '{"team": "\\u00e4"}',
        "cf-aig-collect-log": "false",
        "cf-aig-request-timeout": "500",
        "cf-aig-max-attempts": "2",
    }
    assert headers["authorization"] == "Bearer sk-1"


async def test_w_cf_1_a_gateway_that_keeps_the_key_is_sent_none():
    async with OpenAIEmulator([EmulatedReply(text="x")]) as emulator:
        client = await gateway(emulator, api_key=None, gateway_token="t")
        await reply_of(cloudflare(client, model="m"))
        await client.close()

    assert "authorization" not in emulator.requests[0].headers


def test_w_cf_1_what_is_missing_is_named(monkeypatch):
    with pytest.raises(AuthenticationError, match="export CLOUDFLARE_API_KEY"):
        cloudflare(model="m")

    monkeypatch.setenv("CLOUDFLARE_GATEWAY_TOKEN", "t")

    with pytest.raises(ConfigurationError, match="export CLOUDFLARE_ACCOUNT_ID"):
        cloudflare(model="m")


async def test_cf_2_what_the_gateway_says_is_in_the_raw_response():
    told = {"cf-aig-cache-status": "HIT", "cf-aig-log-id": "log-1", "x-other": "1"}
    recorder = Recorder()

    async with OpenAIEmulator([EmulatedReply(text="x", headers=told)]) as emulator:
        client = await gateway(emulator)
        await reply_of(cloudflare(client, model="m"), request(observer=recorder))
        await client.close()

    assert recorder.responses[0]["headers"] == {"cf-aig-cache-status": "HIT", "cf-aig-log-id": "log-1"}


async def test_cf_1_the_sdks_retries_are_off():
    async with OpenAIEmulator([http_error(429)]) as emulator:
        client = await gateway(emulator)
        error, _ = await failure_of(cloudflare(client, model="m"))
        await client.close()

    assert isinstance(error, RateLimitError)
    assert len(emulator.requests) == 1


@pytest.mark.parametrize(
    ("host", "address"),
    [
        (None, "http://127.0.0.1:11434/v1/"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1/"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080/v1/"),
        ("box.local:1234", "http://box.local:1234/v1/"),
        ("https://ollama.example.com/", "https://ollama.example.com/v1/"),
        (":8000", "http://127.0.0.1:8000/v1/"),
    ],
)
async def test_ollama_is_found_where_its_own_variable_says(monkeypatch, host, address):
    if host is not None:
        monkeypatch.setenv("OLLAMA_HOST", host)

    provider = resolve("ollama:qwen3:4b")
    assert (str(provider.client.base_url), provider.model) == (address, "qwen3:4b")
    assert (provider.kind, provider.client.api_key) == ("ollama", NO_KEY)
    await provider.client.close()


async def test_ollama_talks_to_an_address():
    async with OpenAIEmulator([EmulatedReply(text="x")]) as emulator:
        provider = ollama(emulator.base_url, model="m", max_tokens=5)
        await reply_of(provider)
        await provider.client.close()

    assert emulator.requests[0].body["max_tokens"] == 5


async def test_azure_is_built_of_endpoint_and_key_or_of_a_client(monkeypatch):
    async with OpenAIEmulator([EmulatedReply(text="x"), EmulatedReply(text="y")]) as emulator:
        endpoint = emulator.base_url.removesuffix("/v1")
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", endpoint)
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "az-1")
        own = resolve("azure:my-model")
        client = openai.AsyncAzureOpenAI(api_key="az-2", api_version="2030-01-01", azure_endpoint=endpoint)
        given = azure(client, model="other")

        for provider in (own, given):
            await reply_of(provider)
            await provider.client.close()

    first, second = emulator.requests
    assert first.path == "/openai/deployments/my-model/chat/completions?api-version=2024-10-21"
    assert second.path == "/openai/deployments/other/chat/completions?api-version=2030-01-01"
    assert [sent.headers["api-key"] for sent in emulator.requests] == ["az-1", "az-2"]
    assert own.kind == "azure"
    assert emulator.refused == []


def test_azure_says_what_is_missing(monkeypatch):
    with pytest.raises(ConfigurationError, match="export AZURE_OPENAI_ENDPOINT"):
        azure(model="m")

    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://x.openai.azure.com")

    with pytest.raises(AuthenticationError, match="export AZURE_OPENAI_API_KEY"):
        azure(model="m")


@pytest.mark.parametrize("name", ["fireworks", "cloudflare", "ollama", "azure"])
def test_every_service_tells_its_key_and_remedy(name):
    found = plugin(name)

    assert found.kind == name
    assert bool(found.keys) is (name != "ollama")
    assert bool(found.remedy) is (name != "ollama")


async def test_fireworks_takes_a_client():
    async with OpenAIEmulator([EmulatedReply(text="x")]) as emulator:
        client = openai.AsyncOpenAI(base_url=emulator.base_url, api_key="k")
        provider = fireworks(client, model="m")
        assert (await reply_of(provider)).text == "x"
        await client.close()


def test_cf_1_an_option_the_gateway_does_not_have_is_told():
    with pytest.raises(ConfigurationError, match=r"has no option cache_tll; it has cache_ttl, skip_cache"):
        create_cloudflare_client("sk-1", account_id="a", gateway_name="g", cache_tll=3)
