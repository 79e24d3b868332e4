"""What a vendor's rules change of a history is explained: with its reason, to whoever looks."""

from __future__ import annotations

import logging

import pytest

from simulacra import (
    AssistantMessage,
    Conversation,
    MediaContent,
    ProviderProfile,
    RawContent,
    TextContent,
    ThinkingContent,
    UserMessage,
    resolve,
)
from simulacra.registry import plugin
from simulacra.rules import repair
from simulacra.testing import emulators_by_vendor
from simulacra.testing.emulators import EmulatedReply

pytestmark = pytest.mark.anyio

FOREIGN = (
    UserMessage((TextContent("2 + 2?"),)),
    AssistantMessage(
        (
            ThinkingContent("Easy.", extended={"elsewhere": "signed"}),
            RawContent(model_kind="elsewhere", data='{"type": "search"}'),
            TextContent("Four."),
        )
    ),
)


@pytest.mark.parametrize("vendor", sorted(emulators_by_vendor))
async def test_w_prv_3_what_stays_behind_of_another_vendors_parts_is_explained(vendor, caplog):
    caplog.set_level(logging.DEBUG, logger="simulacra.conversation")

    async with emulators_by_vendor[vendor]([EmulatedReply(text="ok")]) as emulator:
        async with Conversation(resolve(f"{vendor}:m", api_key="k", base_url=emulator.base_url)) as conversation:
            conversation.load(FOREIGN)
            await conversation.prompt("Sure?")

        sent = str(emulator.requests[0].body)

    assert "Four." in sent
    assert "search" not in sent
    assert "Easy." not in sent
    told = [record.getMessage() for record in caplog.records if "action=<repaired>" in record.getMessage()]
    assert any("elsewhere" in line for line in told), told


SCAN = MediaContent(kind="image", media_type="image/tiff", data=b"II*")
LEFT_OUT = {
    "a thought": AssistantMessage((ThinkingContent("Easy."), TextContent("Four."))),
    "a sealed thought": AssistantMessage(
        (ThinkingContent("", redacted=True, extended={"x": "y"}), TextContent("Four."))
    ),
    "nothing but a thought": AssistantMessage((ThinkingContent("Easy."),)),
    "a part of a reply": AssistantMessage(
        (RawContent(model_kind="elsewhere", data='{"type": "a"}'), TextContent("Four."))
    ),
    "a part of a prompt": UserMessage((RawContent(model_kind="elsewhere", data='{"type": "a"}'), TextContent("More?"))),
    "nothing but a part": AssistantMessage((RawContent(model_kind="elsewhere", data='{"type": "a"}'),)),
    "a medium": UserMessage((SCAN, TextContent("More?"))),
}
"""Messages with something that no vendor takes, or takes from others."""


@pytest.mark.parametrize("vendor", sorted(emulators_by_vendor))
@pytest.mark.parametrize("what", LEFT_OUT)
def test_w_prv_3_nothing_that_stays_behind_does_so_unsaid(vendor, what):
    history = [UserMessage((TextContent("2 + 2?"),)), LEFT_OUT[what], UserMessage((TextContent("And?"),))]
    receipt = repair(history, ProviderProfile(rules=plugin(vendor).rules)).receipt

    assert [change for change in receipt if "[1]" in change.path and ("left out" in change.fix or "text" in change.fix)]


@pytest.mark.parametrize("vendor", sorted(emulators_by_vendor))
@pytest.mark.parametrize("data", ["no JSON at all", "[]", "3"])
def test_an_own_part_that_cannot_be_read_is_explained_too(vendor, data):
    history = [
        UserMessage((TextContent("2 + 2?"),)),
        AssistantMessage((RawContent(model_kind=plugin(vendor).kind, data=data), TextContent("Four."))),
        UserMessage((TextContent("And?"),)),
    ]
    receipt = repair(history, ProviderProfile(rules=plugin(vendor).rules)).receipt

    assert [change for change in receipt if "left out" in change.fix]
