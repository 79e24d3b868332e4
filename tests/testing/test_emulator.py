from __future__ import annotations

import contextlib
import json

import anyio
import anyio.lowlevel
import httpx2
import openai
import pytest
from openai import OpenAI

from simulacra.messages import Usage
from simulacra.testing import (
    EmulatedCall,
    EmulatedReply,
    OpenAIEmulator,
    UnexpectedRequestError,
    UnusedStepsError,
    http_error,
)

MESSAGES = [{"role": "user", "content": "hello"}]


@contextlib.contextmanager
def official(script, **options):
    """The emulator and the official SDK's own client, which validates what it is sent."""
    with (
        OpenAIEmulator(script) as emulator,
        OpenAI(base_url=emulator.base_url, api_key="k", max_retries=0, _strict_response_validation=True) as client,
    ):
        yield emulator, client.with_options(**options)


def create(client, **fields):
    return client.chat.completions.create(model="m", messages=MESSAGES, **fields)


def test_the_official_sdk_reads_a_whole_reply():
    call = EmulatedCall(tool="f", arguments={"a": 1}, id="c1")

    with official([EmulatedReply(text=["Hel", "lo"], calls=[call])]) as (_, client):
        completion = create(client)

    choice = completion.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("Hello", "tool_calls")
    assert [(one.id, one.function.name, one.function.arguments) for one in choice.message.tool_calls] == [
        ("c1", "f", '{"a": 1}')
    ]
    assert completion.usage.prompt_tokens == 10


def test_the_official_sdk_reads_a_stream():
    reply = EmulatedReply(
        thinking="hm", text=["Hel", "lo"], calls=[EmulatedCall(tool="f")], usage=Usage(input_tokens=7, output_tokens=2)
    )

    with official([reply]) as (_, client):
        chunks = list(create(client, stream=True, stream_options={"include_usage": True}))

    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    assert [delta.content for delta in deltas if delta.content] == ["Hel", "lo"]
    assert "".join(c.function.arguments for delta in deltas for c in delta.tool_calls or ()) == "{}"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "tool_calls"
    assert chunks[-1].usage.total_tokens == 9


def test_usage_is_sent_only_when_it_is_asked_for():
    with official([EmulatedReply(text="x")]) as (_, client):
        assert all(chunk.usage is None for chunk in create(client, stream=True))


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (404, openai.NotFoundError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (529, openai.InternalServerError),
    ],
)
def test_failures_are_the_vendors(status, error):
    with official([http_error(status, "why", retry_after=3)]) as (_, client), pytest.raises(error) as raised:
        create(client)

    assert raised.value.response.headers["retry-after"] == "3"
    assert raised.value.message.endswith("why")
    assert raised.value.request_id == "req_1"


@pytest.mark.parametrize(
    "fault",
    [
        {"cut_after": 2},
        {"garbage_after": 2},
        {"error": {"message": "m", "code": 503}, "error_after": 2},
        {"error": {"message": "m"}},
    ],
)
def test_faults_come_after_what_was_to_come_before(fault):
    seen = []

    with official([EmulatedReply(text=["a", "b"], **fault)]) as (_, client), pytest.raises(Exception) as raised:
        for chunk in create(client, stream=True):
            seen += [chunk.choices[0].delta.content] if chunk.choices else []

    assert isinstance(raised.value, openai.APIError | httpx2.TransportError | json.JSONDecodeError)
    assert "a" in seen


def test_a_hang_up_is_no_answer():
    with official([EmulatedReply(hangs_up=True)]) as (_, client), pytest.raises(openai.APIConnectionError):
        create(client)


@pytest.mark.parametrize("fault", [{"is_silent": True}, {"text": "a", "stall_after": 2}])
def test_a_stall_lasts_until_the_client_leaves(fault):
    with official([EmulatedReply(**fault)], timeout=0.05) as (emulator, client):
        with pytest.raises((openai.APITimeoutError, httpx2.ReadTimeout)):
            list(create(client, stream=True))

        anyio.run(emulator.abandoned)
        assert emulator.requests[0].is_abandoned


def test_a_reply_may_come_byte_by_byte():
    with official([EmulatedReply(text="Grüße", write_size=1)]) as (_, client):
        text = "".join(chunk.choices[0].delta.content or "" for chunk in create(client, stream=True))

    assert text == "Grüße"


@pytest.mark.parametrize("size", [None, 1, 3])
def test_raw_bytes_are_sent_as_they_are(size):
    body = [b"data: \xff\r", b"\n: odd"]
    reply = EmulatedReply(
        body=body, content_type="text/event-stream", status=207, headers={"x-odd": "1"}, write_size=size
    )

    with OpenAIEmulator([reply], rules=None) as emulator:
        answer = httpx2.post(f"{emulator.base_url}/chat/completions", json={"stream": True}, trust_env=False)

    assert answer.content == b"".join(body)
    assert (answer.status_code, answer.headers["x-odd"]) == (207, "1")


def test_a_function_may_answer():
    def echo(request):
        return EmulatedReply(text=request.body["messages"][0]["content"])

    with official(echo) as (emulator, client):
        assert create(client).choices[0].message.content == "hello"
        assert create(client).choices[0].message.content == "hello"

    assert [(sent.method, sent.path) for sent in emulator.requests] == [("POST", "/v1/chat/completions")] * 2
    assert emulator.requests[0].headers["authorization"] == "Bearer k"
    assert emulator.requests[0].body == {"messages": MESSAGES, "model": "m"}


def test_connections_are_kept_and_counted():
    with official([EmulatedReply(text="x")] * 2) as (emulator, client):
        create(client)
        create(client)
        assert emulator.open_connections == 1

    assert emulator.open_connections == 0


def test_a_request_that_the_script_does_not_know_fails_loudly():
    with pytest.raises(UnexpectedRequestError, match="request 2"), official([EmulatedReply(text="x")]) as (_, client):
        create(client)

        with pytest.raises(openai.BadRequestError):
            create(client)


def test_replies_left_over_fail_loudly():
    with pytest.raises(UnusedStepsError, match="1 replies"), OpenAIEmulator([EmulatedReply()]):
        pass


def test_a_failing_test_is_not_covered_up():
    with pytest.raises(ZeroDivisionError), OpenAIEmulator([EmulatedReply()]):
        1 / 0


@pytest.mark.parametrize("body", [b'{"a": NaN}', b"{", b"\xff"])
def test_tl_r5_a_body_that_is_no_strict_json_is_refused(body):
    with pytest.raises(ValueError), OpenAIEmulator([EmulatedReply()]) as emulator:
        answer = httpx2.post(f"{emulator.base_url}/chat/completions", content=body, trust_env=False)
        assert answer.status_code == 400


@pytest.mark.anyio
async def test_waiting_for_what_does_not_come_is_a_failure():
    async with OpenAIEmulator([]) as emulator:
        with pytest.raises(AssertionError, match="1 requests"):
            await emulator.received(timeout=0.01)

        with pytest.raises(AssertionError, match="1 leave"):
            await emulator.abandoned(timeout=0.01)


@pytest.mark.anyio
async def test_waiting_can_be_cancelled():
    async with OpenAIEmulator([]) as emulator, anyio.create_task_group() as tasks:
        tasks.start_soon(emulator.received)
        await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
