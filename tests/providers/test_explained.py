"""What a vendor's rules change of a history is explained: with its reason, to whoever looks."""

from __future__ import annotations

import logging

import pytest

from simulacra import AssistantMessage, Conversation, RawContent, TextContent, ThinkingContent, UserMessage, resolve
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
