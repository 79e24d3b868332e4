"""The place below the SDK's surface: what it needs of google-genai 3.6, and what it does with it."""

from __future__ import annotations

import inspect
from importlib.metadata import version

import anyio
import httpx2
import pytest
from google.genai import Client, _transformers
from google.genai import _api_client as sdk
from google.genai.types import HttpOptions
from google.oauth2.credentials import Credentials
from simulacra_google import GoogleProvider
from simulacra_google.http_clients import AsyncClientPerLoop

from simulacra.errors import ConfigurationError
from simulacra.provider import RequestOptions
from simulacra.testing import EmulatedReply, GeminiEmulator
from simulacra.testing.driving import reply_of, request, user

pytestmark = pytest.mark.anyio

FINE = EmulatedReply(text="fine")


def test_the_sdk_has_what_is_used_of_it():
    """Written against google-genai 3.6; when this fails, `transport.py` has to be looked at."""
    api = Client(api_key="k")._api_client
    sends = inspect.signature(sdk.BaseApiClient._async_request_once).parameters
    builds = inspect.signature(sdk.BaseApiClient._build_request).parameters
    built = api._build_request("post", "models/m:f?alt=sse", {"a": 1}, HttpOptions(headers={"x-a": "b"}, timeout=2_000))

    assert version("google-genai").startswith("3.")
    assert list(sends)[1:3] == ["http_request", "stream"]
    assert list(builds)[1:] == ["http_method", "path", "request_dict", "http_options"]
    assert built.url.startswith("https://generativelanguage.googleapis.com/v1")
    assert built.url.endswith("/models/m:f?alt=sse")
    assert built.headers["x-goog-api-key"] == "k"
    assert built.headers["x-a"] == "b"
    assert (built.data, built.timeout) == ({"a": 1}, 2)
    assert isinstance(api._async_httpx_client, httpx2.AsyncClient)
    assert api._http_options.httpx_async_client is None


@pytest.mark.parametrize("is_vertex", [False, True])
@pytest.mark.parametrize(
    "model", ["gemini-1", "models/gemini-1", "tunedModels/x", "publishers/a/models/m", "a/m", "projects/p/endpoints/1"]
)
def test_a_model_stands_where_the_sdk_puts_it(model, is_vertex):
    from simulacra_google.transport import _path

    api = type("Api", (), {"vertexai": is_vertex})

    assert _path(model, is_vertex=is_vertex) == _transformers.t_model(api, model)


async def test_the_developer_api_is_asked_with_the_key(serve):
    async with serve([FINE], model="gemini-test") as (emulator, provider):
        await reply_of(provider)

    [sent] = emulator.requests
    assert sent.path.endswith("/models/gemini-test:streamGenerateContent?alt=sse")
    assert sent.headers["x-goog-api-key"] == "k"
    assert sent.headers["content-type"] == "application/json"
    assert sent.headers["user-agent"].startswith("google-genai-sdk/")


async def test_vertex_is_asked_with_a_token(connect):
    vertex = {"vertexai": True, "project": "p", "location": "l", "credentials": Credentials("a-token")}

    async with GeminiEmulator([FINE]) as emulator, connect(emulator.base_url, api_key=None, **vertex) as client:
        provider = GoogleProvider(client, model="gemini-test")
        message = await reply_of(provider)
        counted = await provider.count_tokens(request(user("hi"), system=["s"]))

    [sent], [count] = emulator.requests, emulator.side_requests
    model = "/v1beta1/projects/p/locations/l/publishers/google/models/gemini-test"
    assert message.text == "fine"
    assert sent.path == f"{model}:streamGenerateContent?alt=sse"
    assert sent.headers["authorization"] == "Bearer a-token"
    assert count.path == f"{model}:countTokens"
    assert count.body.keys() == {"contents", "systemInstruction"}
    assert counted > 0


async def test_tokens_are_counted_exactly_by_the_service(serve):
    async with serve([], max_tokens=5) as (emulator, provider):
        short = await provider.count_tokens(request(user("hi")))
        long = await provider.count_tokens(request(user("hi " * 100), system=["s"]))

    [_, sent] = emulator.side_requests
    whole = sent.body["generateContentRequest"]
    assert 0 < short < long
    assert sent.path.endswith(":countTokens")
    assert whole["model"] == "models/gemini-test"
    assert whole.keys() == {"model", "contents", "systemInstruction", "generationConfig"}


async def test_rx_6_headers_query_body_and_time_of_the_users_own_are_sent(serve):
    extra = {"extra_headers": {"x-a": "b"}, "extra_query": {"q": "1"}, "extra_body": {"labels": {"c": "d"}}}

    async with serve([FINE], timeout=9, **extra) as (emulator, provider):
        await reply_of(provider)

    [sent] = emulator.requests
    assert sent.headers["x-a"] == "b"
    assert sent.headers["x-server-timeout"] == "9"
    assert sent.path.endswith("?alt=sse&q=1")
    assert sent.body["labels"] == {"c": "d"}
    assert "timeout" not in sent.body


@pytest.mark.parametrize(
    "extra",
    [
        {"contents": []},
        {"system_instruction": "s"},
        {"toolConfig": {}},
        {"extra_body": {"tools": []}},
        {"extra_headers": 3},
        {"generation_config": 3},
    ],
)
async def test_rx_10_options_that_cannot_be_right_are_refused(connect, extra):
    async with connect("http://127.0.0.1:9") as client:
        with pytest.raises(ConfigurationError, match="option"):
            GoogleProvider(client, model="m", **extra)

        with pytest.raises(ConfigurationError, match="option"):
            await GoogleProvider(client, model="m").prepare(request(options=RequestOptions(**extra)))


@pytest.mark.parametrize(
    ("options", "named"),
    [({"model": ""}, "model"), ({"max_tokens": 0}, "max_tokens"), ({"thinking": "high"}, "thinking")],
)
async def test_an_argument_that_cannot_be_right_is_refused(connect, options, named):
    async with connect("http://127.0.0.1:9") as client:
        with pytest.raises(ConfigurationError, match=named):
            GoogleProvider(client, **{"model": "m", **options})


def test_only_the_sdks_client_is_taken():
    with pytest.raises(ConfigurationError, match=r"google\.genai\.Client, not str"):
        GoogleProvider("client", model="m")


@pytest.mark.parametrize("model", ["../m", "m?x", "m&x"])
async def test_a_model_that_would_change_the_address_is_refused(connect, model):
    async with connect("http://127.0.0.1:9") as client:
        with pytest.raises(ConfigurationError, match="no name of a model"):
            await reply_of(GoogleProvider(client, model=model))


async def test_the_sdks_own_http_client_runs_on_asyncio_and_says_so_on_trio(anyio_backend_name):
    async with GeminiEmulator([FINE] if anyio_backend_name == "asyncio" else []) as emulator:
        client = Client(api_key="k", http_options=HttpOptions(base_url=emulator.base_url))
        provider = GoogleProvider(client, model="m")

        if anyio_backend_name == "asyncio":
            assert (await reply_of(provider)).text == "fine"
        else:
            with pytest.raises(ConfigurationError, match=r"asyncio only.*httpx_async_client"):
                await reply_of(provider)

        await client.aio.aclose()
        client.close()


def test_a_client_with_an_http_client_of_its_own_belongs_to_one_loop():
    with GeminiEmulator([FINE]) as emulator:
        http = httpx2.AsyncClient()
        options = HttpOptions(base_url=emulator.base_url, httpx_async_client=http)
        provider = GoogleProvider(Client(api_key="k", http_options=options), model="m")

        async def ask(*, closes=False):
            message = await reply_of(provider)

            if closes:
                await http.aclose()

            return message.text

        assert anyio.run(lambda: ask(closes=True)) == "fine"

        with pytest.raises(ConfigurationError, match="event loop it was first used on"):
            anyio.run(ask)

        provider.client.close()


@pytest.mark.parametrize("backends", [("asyncio", "asyncio"), ("trio", "asyncio")])
def test_a_provider_of_the_registry_serves_every_loop(monkeypatch, backends):
    from simulacra_google import plugin

    with GeminiEmulator([FINE] * 2) as emulator:
        provider = plugin.create("gemini-test", api_key="k", base_url=emulator.base_url)

        async def ask():
            text = (await reply_of(provider)).text
            await provider.client._api_client._async_httpx_client.aclose()

            return text

        assert [anyio.run(ask, backend=backend) for backend in backends] == ["fine", "fine"]
        provider.client.close()


async def test_connections_of_one_loop_are_kept():
    async with GeminiEmulator([FINE] * 2) as emulator:
        http = AsyncClientPerLoop()
        client = Client(api_key="k", http_options=HttpOptions(base_url=emulator.base_url, httpx_async_client=http))
        provider = GoogleProvider(client, model="m")
        await reply_of(provider)
        await reply_of(provider)
        assert emulator.open_connections == 1
        await http.aclose()
        client.close()


async def test_w_goo_8_leaving_a_stream_closes_it(serve):
    stalls = EmulatedReply(text=["a", "b"], stall_after=2)

    async with serve([stalls]) as (emulator, provider):
        with anyio.fail_after(5):
            stream = provider.stream(request())
            await anext(stream)
            await stream.aclose()
            await emulator.abandoned()


async def test_aiohttp_is_never_used(serve, monkeypatch):
    """The SDK prefers aiohttp where it is installed: no bytes to iterate over, and retries nobody asked for."""
    async with serve([FINE]) as (_, provider):
        monkeypatch.setattr(sdk, "has_aiohttp", True)
        monkeypatch.setattr(sdk.BaseApiClient, "_use_aiohttp", lambda self: True)

        assert (await reply_of(provider)).text == "fine"
