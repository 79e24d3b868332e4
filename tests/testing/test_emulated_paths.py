"""What an emulator does not serve is answered in the vendor's own words, beside the script."""

from __future__ import annotations

import httpx2
import pytest

from simulacra.conversation import Conversation
from simulacra.errors import ConfigurationError, NotFoundError
from simulacra.registry import resolve
from simulacra.testing import (
    AnthropicEmulator,
    EmulatedReply,
    GeminiEmulator,
    OpenAIEmulator,
    OpenAIResponsesEmulator,
    emulators_by_vendor,
)

ENDPOINTS = {
    AnthropicEmulator: "/v1/messages",
    GeminiEmulator: "/v1beta/models/m:generateContent",
    OpenAIEmulator: "/v1/chat/completions",
    OpenAIResponsesEmulator: "/v1/responses",
}


def test_every_emulator_is_here():
    assert set(emulators_by_vendor.values()) == set(ENDPOINTS)


@pytest.mark.parametrize("emulator_class", ENDPOINTS)
@pytest.mark.parametrize(("method", "path", "status"), [("POST", "/v1/nothing", 404), ("GET", None, 405)])
def test_what_is_not_served_is_told_with_its_status(emulator_class, method, path, status):
    with emulator_class([]) as emulator:
        root = emulator.base_url.removesuffix(emulator.prefix)
        answer = httpx2.request(method, root + (path or ENDPOINTS[emulator_class]))

        assert answer.status_code == status
        assert (path or "takes POST") in answer.json()["error"]["message"]
        assert [request.method for request in emulator.side_requests] == [method]


@pytest.mark.anyio
async def test_a_wrong_base_url_is_told_by_the_client_as_not_found():
    async with OpenAIEmulator([]) as emulator:
        provider = resolve("anthropic:m", api_key="k", base_url=emulator.base_url)

        with pytest.raises(NotFoundError, match="/v1/v1/messages"):
            await Conversation(provider).prompt("hi")


BLOCKS = EmulatedReply(blocks=[{"type": "x"}])


def test_chat_completions_have_no_blocks():
    with pytest.raises(ConfigurationError, match="no blocks"):
        OpenAIEmulator([BLOCKS])

    with pytest.raises(ConfigurationError, match="no blocks"), OpenAIEmulator(lambda request: BLOCKS) as emulator:
        httpx2.post(
            f"{emulator.base_url}/chat/completions", json={"model": "m", "messages": [{"role": "user", "content": "x"}]}
        )
