"""Gemini's emulator, as the official SDK's own surface sees it."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from google.genai import Client, errors
from google.genai.types import HttpOptions
from google.oauth2.credentials import Credentials
from simulacra_google import GoogleProvider
from simulacra_google.http_clients import AsyncClientPerLoop

from simulacra.conversation import Conversation
from simulacra.messages import Usage
from simulacra.testing import EmulatedCall, EmulatedReply, GeminiEmulator, http_error

LONG = "What a long story this is. " * 400
TOOL = {
    "function_declarations": [{"name": "f", "parameters": {"type": "OBJECT", "properties": {"a": {"type": "NUMBER"}}}}]
}
FULL = EmulatedReply(
    thinking=["h", "m"],
    text=["Hel", "lo"],
    calls=[EmulatedCall(tool="f", arguments={"a": 1}), EmulatedCall(tool="f", arguments={"a": 2}, id="")],
    usage=Usage(input_tokens=9, output_tokens=5, reasoning_tokens=2, cache_read_input_tokens=4),
)


@contextmanager
def official(script, **options):
    with GeminiEmulator(script) as emulator:
        given = options or {"api_key": "k"}
        client = Client(http_options=HttpOptions(base_url=emulator.base_url), **given)

        try:
            yield emulator, client
        finally:
            client.close()


def test_the_official_sdk_reads_a_whole_reply():
    with official([FULL]) as (_, client):
        answer = client.models.generate_content(model="m", contents="hi", config={"tools": [TOOL]})

    [candidate] = answer.candidates
    thought, text, first, second = candidate.content.parts
    assert (thought.text, thought.thought, text.text) == ("hm", True, "Hello")
    assert (first.function_call.args, second.function_call.args) == ({"a": 1}, {"a": 2})
    assert first.function_call.id
    assert second.function_call.id is None
    assert first.thought_signature
    assert candidate.finish_reason == "STOP"
    assert answer.usage_metadata.prompt_token_count == 9
    assert answer.usage_metadata.candidates_token_count == 3
    assert answer.usage_metadata.thoughts_token_count == 2
    assert answer.usage_metadata.cached_content_token_count == 4
    assert answer.model_version == "m"


def test_the_official_sdk_reads_a_stream():
    with official([FULL]) as (_, client):
        chunks = list(client.models.generate_content_stream(model="m", contents="hi"))

    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts or ()]
    assert [part.text for part in parts if part.text] == ["h", "m", "Hel", "lo"]
    assert [part.function_call.args for part in parts if part.function_call] == [{"a": 1}, {"a": 2}]
    assert chunks[-1].candidates[0].finish_reason == "STOP"
    assert chunks[-1].usage_metadata.total_token_count == 14


def test_lines_end_as_googles_do():
    with official([EmulatedReply(text="x")]) as (emulator, client):
        path = "models/m:streamGenerateContent?alt=sse"
        body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
        answer = client._api_client._httpx_client.post(f"{emulator.base_url}/v1beta/{path}", json=body)

    assert answer.content.endswith(b"\r\n\r\n")
    assert answer.content.count(b"\n") == answer.content.count(b"\r\n")


def test_vertex_is_served_under_its_own_paths():
    vertex = {"vertexai": True, "project": "p", "location": "l", "credentials": Credentials("a-token")}

    with official([EmulatedReply(text="x"), EmulatedReply(text="y")], **vertex) as (emulator, client):
        whole = client.models.generate_content(model="gemini-test", contents="hi")
        streamed = list(client.models.generate_content_stream(model="gemini-test", contents="hi"))

    model = "/v1beta1/projects/p/locations/l/publishers/google/models/gemini-test"
    assert (whole.text, streamed[1].text) == ("x", "y")
    assert [request.path for request in emulator.requests] == [
        f"{model}:generateContent",
        f"{model}:streamGenerateContent?alt=sse",
    ]
    assert emulator.requests[0].headers["authorization"] == "Bearer a-token"


def test_tokens_are_counted_beside_the_script():
    with official([]) as (emulator, client):
        short = client.models.count_tokens(model="m", contents="hi").total_tokens
        long = client.models.count_tokens(model="m", contents=LONG).total_tokens

    assert 0 < short < long
    assert len(emulator.side_requests) == 2


@pytest.mark.parametrize(
    ("status", "word"),
    [(400, "INVALID_ARGUMENT"), (403, "PERMISSION_DENIED"), (418, "INVALID_ARGUMENT"), (429, "RESOURCE_EXHAUSTED")]
    + [(500, "INTERNAL"), (502, "INTERNAL"), (503, "UNAVAILABLE")],
)
def test_failures_are_the_vendors(status, word):
    with official([http_error(status, "because")]) as (_, client), pytest.raises(errors.APIError) as raised:
        client.models.generate_content(model="m", contents="hi")

    assert (raised.value.code, raised.value.status, raised.value.message) == (status, word, "because")


def test_the_details_of_an_error_are_sent():
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
    reply = EmulatedReply(status=429, error={"message": "slow", "details": [retry]})

    with official([reply]) as (_, client), pytest.raises(errors.ClientError) as raised:
        client.models.generate_content(model="m", contents="hi")

    assert raised.value.details["error"]["details"] == [retry]


async def usages(prompts, **options):
    async with (
        GeminiEmulator([EmulatedReply(text="x")] * len(prompts), **options) as emulator,
        AsyncClientPerLoop() as http,
    ):
        client = Client(api_key="k", http_options=HttpOptions(base_url=emulator.base_url, httpx_async_client=http))
        conversation = Conversation(GoogleProvider(client, model="m"), system="Be kind.")
        counted = [(await conversation.prompt(prompt)).usage for prompt in prompts]
        await http.aclose()
        client.close()

    return counted


@pytest.mark.anyio
async def test_a_prompt_that_begins_like_an_earlier_one_is_read_from_the_cache():
    first, second = await usages([LONG, "and?"], caches_prompts=True)

    assert not first.cache_read_input_tokens
    assert 0 < second.cache_read_input_tokens < second.input_tokens


@pytest.mark.anyio
async def test_usage_is_the_scripts_unless_prompts_are_cached():
    assert [usage.input_tokens for usage in await usages([LONG, LONG])] == [10, 10]
