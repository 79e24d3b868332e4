"""The Messages emulator as the official client sees it."""

from __future__ import annotations

import anthropic
import pytest
from anthropic import Anthropic

from simulacra.messages import Usage
from simulacra.testing import AnthropicEmulator, EmulatedCall, EmulatedReply, http_error, message_stream

ASKED = {"model": "claude-test", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
RICH = EmulatedReply(
    thinking=["let me", " see"],
    text=["Hel", "lo"],
    calls=[EmulatedCall(tool="add", arguments={"a": 1}, id="t1"), EmulatedCall(tool="add", arguments=())],
    usage=Usage(input_tokens=100, output_tokens=7, cache_read_input_tokens=60, cache_creation_input_tokens=30),
)


def client_of(emulator):
    return Anthropic(base_url=emulator.base_url, api_key="k", max_retries=0, _strict_response_validation=True)


def test_the_official_client_streams_a_reply():
    with (
        AnthropicEmulator([RICH]) as emulator,
        client_of(emulator) as client,
        client.messages.stream(**ASKED) as stream,
    ):
        message = stream.get_final_message()

    thinking, said, first, second = message.content
    assert (thinking.thinking, said.text) == ("let me see", "Hello")
    assert thinking.signature
    assert (first.id, first.name, first.input, second.input) == ("t1", "add", {"a": 1}, {})
    assert message.stop_reason == "tool_use"
    assert (message.id, message.model) == ("msg_1", "claude-test")


def test_the_official_client_reads_the_same_reply_whole():
    with AnthropicEmulator([RICH]) as emulator, client_of(emulator) as client:
        message = client.messages.create(**ASKED)

    assert [one.type for one in message.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert message.content[2].input == {"a": 1}
    assert message.stop_reason == "tool_use"


def test_usage_counts_the_cache_apart():
    with (
        AnthropicEmulator([RICH]) as emulator,
        client_of(emulator) as client,
        client.messages.stream(**ASKED) as stream,
    ):
        usage = stream.get_final_message().usage

    assert (usage.input_tokens, usage.output_tokens) == (10, 7)
    assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (60, 30)


def test_tokens_are_counted_beside_the_script():
    with AnthropicEmulator([EmulatedReply(text="x")]) as emulator, client_of(emulator) as client:
        asked = {"model": "m", "messages": ASKED["messages"]}
        short = client.messages.count_tokens(**asked).input_tokens
        long = client.messages.count_tokens(**asked, system="s" * 400).input_tokens
        client.messages.create(**ASKED)

    assert long - short >= 100
    assert (len(emulator.side_requests), len(emulator.requests)) == (2, 1)


@pytest.mark.parametrize(
    ("status", "kind", "word"),
    [
        (400, anthropic.BadRequestError, "invalid_request_error"),
        (401, anthropic.AuthenticationError, "authentication_error"),
        (403, anthropic.PermissionDeniedError, "permission_error"),
        (404, anthropic.NotFoundError, "not_found_error"),
        (413, anthropic.ContentTooLargeError, "request_too_large"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (500, anthropic.InternalServerError, "api_error"),
        (529, anthropic.OverloadedError, "overloaded_error"),
    ],
)
def test_errors_are_in_the_vendors_words(status, kind, word):
    with (
        AnthropicEmulator([http_error(status, "no", retry_after=3)]) as emulator,
        client_of(emulator) as client,
        pytest.raises(kind) as raised,
    ):
        client.messages.create(**ASKED)

    error = raised.value
    assert (error.type, error.api_message, error.request_id) == (word, "no", "req_1")
    assert error.response.headers["retry-after"] == "3"


def test_an_error_can_name_its_code():
    with (
        AnthropicEmulator([http_error(429, code="enforced_spend_limit_reached")]) as emulator,
        client_of(emulator) as client,
        pytest.raises(anthropic.EnforcedSpendLimitReachedError),
    ):
        client.messages.create(**ASKED)


def test_an_error_can_come_inside_a_stream():
    broken = EmulatedReply(text=["Hel", "lo"], error={"type": "overloaded_error", "message": "busy"}, error_after=2)
    seen = []

    with (
        AnthropicEmulator([broken]) as emulator,
        client_of(emulator) as client,
        pytest.raises(anthropic.APIStatusError, match="busy"),
    ):
        for event in client.messages.create(**ASKED, stream=True):
            seen.append(event.type)

    assert seen == ["message_start", "content_block_start", "content_block_delta"]


def test_events_count_from_the_opening_one_a_delta():
    with AnthropicEmulator([EmulatedReply(text=["a", "b"]), EmulatedReply()]) as emulator:
        said = emulator.render_events(emulator._script[0], _Asked())
        nothing = emulator.render_events(emulator._script[1], _Asked())
        emulator._script = ()

    assert [[line for line in one.split(b"\n") if line.startswith(b"event")] for one in said] == [
        [b"event: message_start", b"event: ping"],
        [b"event: content_block_start", b"event: content_block_delta"],
        [b"event: content_block_delta"],
        [b"event: content_block_stop", b"event: message_delta"],
        [b"event: message_stop"],
    ]
    assert len(nothing) == 3


class _Asked:
    body = {"model": "m"}


def test_a_stream_of_ones_own_is_written_as_the_vendor_writes_it():
    assert message_stream([{"type": "ping"}]) == [b'event: ping\ndata: {"type": "ping"}\n\n']
