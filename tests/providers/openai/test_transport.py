"""How a request is handed to the SDK's client: ready made to OpenAI's own, as its methods do it to those that derive."""

from __future__ import annotations

import pytest
from openai import AsyncOpenAI
from simulacra_openai import OpenAIProvider

from simulacra.conversation import Conversation
from simulacra.errors import ConfigurationError
from simulacra.events import BeforeRequest
from simulacra.provider import RequestOptions
from simulacra.testing import EmulatedReply, OpenAIEmulator
from simulacra.testing.driving import reply_of, request, user

pytestmark = pytest.mark.anyio


class Rerouting(AsyncOpenAI):
    """A client that changes the address by what the request says, as Azure's does."""

    def _build_request(self, options, *, retries_taken=0):
        options.url = f"{options.url}?model={options.json_data['model']}"

        return super()._build_request(options, retries_taken=retries_taken)


async def test_a_client_that_derives_from_the_sdks_gets_path_and_body_as_its_methods_give_them() -> None:
    with OpenAIEmulator([EmulatedReply(text="hi")]) as emulator:
        async with Rerouting(base_url=emulator.base_url, api_key="k") as client:
            await reply_of(OpenAIProvider(client, model="routed"), request(user("hello")))

    assert emulator.requests[0].path == "/v1/chat/completions?model=routed"


async def test_both_ways_send_the_same_request(serve) -> None:
    asked = request(user('NaN is no number, "∞" neither 🙂'))

    async with serve([EmulatedReply(text="hi")]) as (emulator, provider):
        await reply_of(provider, asked)

    with OpenAIEmulator([EmulatedReply(text="hi")]) as other:
        async with Rerouting(base_url=other.base_url, api_key="k") as client:
            await reply_of(OpenAIProvider(client, model="gpt-test"), asked)

    assert emulator.requests[0].body == other.requests[0].body
    assert emulator.requests[0].headers["content-type"] == other.requests[0].headers["content-type"]
    assert emulator.requests[0].headers["authorization"] == other.requests[0].headers["authorization"]


async def test_the_base_url_is_read_for_each_request(serve) -> None:
    async with serve([EmulatedReply(text="one")]) as (first, provider):
        await reply_of(provider, request(user("hello")))

        with OpenAIEmulator([EmulatedReply(text="two")]) as second:
            provider.client.base_url = second.base_url
            await reply_of(provider, request(user("hello")))

    assert [len(first.requests), len(second.requests)] == [1, 1]


async def test_tl_r5_a_number_that_json_does_not_know_is_refused_before_sending(serve) -> None:
    async with serve([]) as (emulator, provider):
        with pytest.raises(ConfigurationError, match="cannot be written"):
            await reply_of(provider, request(user("hello"), options=RequestOptions(seed=float("nan"))))

    assert emulator.requests == []


async def test_rx_6_what_a_listener_changes_in_one_request_is_not_in_the_next(serve) -> None:
    async with serve([EmulatedReply(text="one"), EmulatedReply(text="two")]) as (emulator, provider):
        conversation = Conversation(provider)

        def change(event: BeforeRequest) -> None:
            if not emulator.requests:
                event.params["messages"][0]["content"] = "changed"

        conversation.on(BeforeRequest, change)
        await conversation.prompt("as it was")
        await conversation.prompt("next")

    assert [request.body["messages"][0]["content"] for request in emulator.requests] == ["changed", "as it was"]
