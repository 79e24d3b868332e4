"""Wrong names, wrong keys, servers that are not there or not what they should be, and odd texts: over the official SDK."""

from __future__ import annotations

import socket
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from chat_wire import FINE, sent_messages
from simulacra_openai import openai_compatible

from simulacra.clock import use_clock
from simulacra.conversation import Conversation
from simulacra.errors import (
    AuthenticationError,
    ConfigurationError,
    ConnectionFailedError,
    NotFoundError,
    ProtocolError,
    ProviderError,
    TimeoutExceededError,
)
from simulacra.testing import EmulatedCall, EmulatedReply, FakeClock, http_error
from simulacra.tools import tool

pytestmark = pytest.mark.anyio
ODD_TEXTS = {
    "half a character": ("a\udc9d", "a\ufffd"),
    "two halves": ("\ud83d\ude00", "\U0001f600"),
    "a NUL byte": ("nul\x00byte", "nul\x00byte"),
    "control characters": ("\x1b[31m\r\n\t\x7f\x85", "\x1b[31m\r\n\t\x7f\x85"),
    "line separators": ("a\u2028b\u2029c", "a\u2028b\u2029c"),
    "what is no character": ("\uffff\ufeff\U0010ffff", "\uffff\ufeff\U0010ffff"),
    "data of an event": ("data: [DONE]\n\ndata: {", "data: [DONE]\n\ndata: {"),
}


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


@pytest.fixture
def jumping():
    """A clock that jumps over every back-off."""
    with use_clock(FakeClock(autojump=True)) as clock:
        yield clock


async def test_an_unknown_provider_is_refused_with_what_is_there_and_how_to_get_more():
    with pytest.raises(ConfigurationError, match=r"unknown provider 'opnai'.*openai.*pip install"):
        Conversation("opnai:gpt")


async def test_a_provider_without_a_key_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(AuthenticationError, match="export OPENAI_API_KEY="):
        Conversation("openai:gpt-test")


async def test_a_wrong_key_is_one_request_and_leaves_a_conversation_to_use(serve: Any):
    async with serve([http_error(401, "Incorrect API key provided"), FINE]) as (emulator, provider):
        conversation = Conversation(provider)

        with pytest.raises(AuthenticationError, match="Incorrect API key") as caught:
            await conversation.prompt("begin")

        error = caught.value
        assert (error.provider, error.model, error.status, error.retryable) == ("openai", "gpt-test", 401, False)
        assert error.__cause__ is not None
        assert len(emulator.requests) == 1
        assert await texts_after_a_failure(conversation) == ["again"]


async def test_a_server_that_is_not_there_is_tried_again_then_named(
    jumping: FakeClock, serve: Any, monkeypatch: pytest.MonkeyPatch
):
    for name in ("http_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]  # bound, but nobody listens

        with pytest.raises(ConnectionFailedError) as caught:
            conversation = Conversation(openai_compatible(f"http://127.0.0.1:{port}/v1", model="any"))
            await conversation.prompt("begin")

    assert caught.value.retryable
    assert caught.value.provider == "openai"
    assert len(jumping.sleeps) == 2

    async with serve([FINE]) as (_, provider):
        conversation.provider = provider
        assert await texts_after_a_failure(conversation) == ["again"]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (http_error(404, "The model `gpt-test` does not exist"), NotFoundError),
        (EmulatedReply(status=404, body="<html>Not Found</html>", content_type="text/html"), NotFoundError),
        (EmulatedReply(body="<html>Log in</html>", content_type="text/html"), ProviderError),
        (EmulatedReply(body=b"\xff\xfe\x00", content_type="application/octet-stream"), ProviderError),
        (EmulatedReply(body=[], content_type="text/event-stream"), ProtocolError),
    ],
    ids=["no such model", "a page instead", "a login page with 200", "bytes", "nothing"],
)
async def test_a_server_that_is_something_else_gives_a_typed_error(
    jumping: FakeClock, serve: Any, reply: EmulatedReply, kind: type[ProviderError]
):
    failed = Failed(reply)

    async with serve(failed.answer) as (_, provider):
        conversation = Conversation(provider)

        with pytest.raises(kind) as caught:
            await conversation.prompt("begin")

        assert caught.value.provider == "openai"
        failed.is_over = True
        assert await texts_after_a_failure(conversation) == ["again"]


async def test_rx_11_a_server_that_falls_silent_is_given_up_and_its_connection_closed(
    serve: Any, fake_clock: FakeClock
):
    async with serve([EmulatedReply(text=["Hel", "lo"], stall_after=3), FINE]) as (emulator, provider):
        conversation = Conversation(provider)
        errors = []

        async def ask() -> None:
            try:
                await conversation.prompt("begin", idle_timeout=30)
            except TimeoutExceededError as error:
                errors.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)

            while conversation.state != "streaming_response":
                await anyio.lowlevel.checkpoint()

            await fake_clock.advance(61)

        assert errors[0].partial.text in ("Hel", "Hello")
        await emulator.abandoned()
        assert await texts_after_a_failure(conversation) == ["again"]


@pytest.mark.filterwarnings("ignore:Sending a large body")  # aiohttp says so, and sends it
async def test_a_megabyte_goes_out_byte_for_byte(serve: Any):
    text = "0123456789 \u00e4\u20ac\U0001f600\n" * 60_000

    async with serve([FINE]) as (emulator, provider):
        await Conversation(provider).prompt(text)

    assert len(text.encode()) > 1_000_000
    assert sent_messages(emulator) == [[{"role": "user", "content": text}]]


@pytest.mark.parametrize("odd", ODD_TEXTS)
async def test_un_01_odd_texts_are_stored_sent_and_come_back_alike(serve: Any, odd: str):
    text, mended = ODD_TEXTS[odd]
    arguments = EmulatedCall(tool="echo", arguments={"text": text})

    async with serve([EmulatedReply(text=[mended], calls=[arguments]), EmulatedReply(text=[mended])]) as (
        emulator,
        provider,
    ):
        conversation = Conversation(provider, system=text, toolkit=[echo])
        response = await conversation.prompt(text)

    asked, said, told, answered = conversation.messages
    system, *sent = sent_messages(emulator)[-1]
    assert response.text == answered.content[0].text == said.text == asked.content[0].text == mended
    assert said.tool_calls[0].params == {"text": mended}
    assert told.content[0].result.output == mended
    assert system["content"] == sent[0]["content"] == sent[1]["content"] == mended


class Failed:
    """A server that gives one answer until it is over, then a good one."""

    def __init__(self, reply: EmulatedReply) -> None:
        self.is_over = False
        self._reply = reply

    def answer(self, _: object) -> EmulatedReply:
        return FINE if self.is_over else self._reply


async def texts_after_a_failure(conversation: Conversation) -> list[str]:
    """What the user said that is in history after another prompt; the failed one is in the journal alone (D-2)."""
    assert conversation.state == "idle"
    assert conversation.messages == ()
    assert [attempt.inputs[0].content[0].text for attempt in conversation.journal.attempts()] == ["begin"]
    assert (await conversation.prompt("again")).text == "fine"

    return [block.text for message in conversation.messages if message.role == "user" for block in message.content]
