"""What goes wrong between a user and Gemini: told with vendor, place and remedy, and the conversation goes on."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from simulacra.conversation import Conversation
from simulacra.errors import (
    AuthenticationError,
    ConfigurationError,
    ContentFilteredError,
    ContextWindowError,
    NotFoundError,
    QuotaExceededError,
)
from simulacra.messages import MediaContent, TextContent
from simulacra.policies import NoopPolicy
from simulacra.testing import EmulatedReply, http_error
from simulacra.tools import tool

pytestmark = pytest.mark.anyio


class Node(BaseModel):
    name: str
    children: list[Node] = []


@tool
def walk(root: Node) -> str:
    """Walk a tree."""
    return root.name


ZIP = MediaContent(kind="file", media_type="application/zip", data=b"PK")
TOO_LONG = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
BLOCKED = EmulatedReply(body={"promptFeedback": {"blockReason": "SAFETY"}})
SERVICE = {
    "wrong key": (http_error(400, "API key not valid."), AuthenticationError, "Is the key right"),
    "unknown model": (http_error(404, "models/x is not found"), NotFoundError, "Is the model's name right"),
    "overflow": (http_error(400, TOO_LONG), ContextWindowError, "Make a checkpoint, or send less"),
    "day's quota": (http_error(429, "no", code="insufficient_quota"), QuotaExceededError, "Repeating will not help"),
    "blocked": (BLOCKED, ContentFilteredError, "SAFETY"),
}


@pytest.mark.parametrize("case", SERVICE)
async def test_w_prv_1_what_the_service_refuses_names_vendor_and_model_and_the_remedy(serve, case):
    reply, kind, remedy = SERVICE[case]

    async with serve([reply, EmulatedReply(text="fine")]) as (emulator, provider):
        conversation = Conversation(provider, policy=NoopPolicy())

        with pytest.raises(kind) as raised:
            await conversation.prompt("hi")

        assert (await conversation.prompt("again")).text == "fine"

    assert str(raised.value).startswith("google/gemini-test: ")
    assert remedy in str(raised.value)
    assert not raised.value.retryable
    assert len(emulator.requests) == 2


@pytest.mark.parametrize(
    ("prompt", "toolkit", "told"),
    [
        ([TextContent("see"), ZIP], (), ["prompt's file", "google", "application/zip", "takes images"]),
        ("hi", [walk], ["google", "tool 'walk'", "$.root.children[]", "#/$defs/Node", "Limit its depth"]),
    ],
)
async def test_mu_r1_what_cannot_be_sent_is_refused_before_sending(serve, prompt, toolkit, told):
    async with serve([EmulatedReply(text="fine")]) as (emulator, provider):
        conversation = Conversation(provider, toolkit=toolkit)

        with pytest.raises(ConfigurationError) as raised:
            await conversation.prompt(prompt)

        conversation.toolkit = ()
        assert (await conversation.prompt("again")).text == "fine"

    assert all(word in str(raised.value) for word in told)
    assert len(emulator.requests) == 1
