"""Whatever a vendor puts into its own parts comes back to it byte for byte: streamed, stored, saved, loaded and sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from simulacra import Conversation, dump_message_json, load_message_json, resolve, run_sync
from simulacra.testing import EmulatedReply, emulators_by_vendor
from simulacra.wire import strict_json

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.text("abcdefghij_", min_size=1, max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words
    | st.sampled_from(["\x00", "\u2028", "</x>", '"', "\\ud83d", "🙂", "é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
fields = st.dictionaries(names, values, max_size=4)
ids = st.integers(0, 10**9).map(lambda number: f"{number:x}")


def server_calls(number: str, query: dict[str, Any], found: Any) -> list[dict[str, Any]]:
    """A search that Anthropic made, and what it found."""
    used = {"type": "server_tool_use", "id": f"srvtoolu_{number}", "name": "web_search", "input": query}
    content = [{"type": "web_search_result", "title": "t", "url": "https://x", "encrypted_content": found}]

    return [used, {"type": "web_search_tool_result", "tool_use_id": used["id"], "content": content}]


def responses_items(number: str, action: dict[str, Any], sealed: str) -> list[dict[str, Any]]:
    """Sealed reasoning and a search of the Responses API."""
    reasoning = {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": f"x{sealed}"}

    return [reasoning, {"type": "web_search_call", "id": f"ws_{number}", "status": "completed", "action": action}]


def gemini_parts(code: str, outcome: str, signature: str) -> list[dict[str, Any]]:
    """Code that Gemini ran, and how it ended."""
    ran = {"executableCode": {"language": "PYTHON", "code": code}, "thoughtSignature": signature}

    return [ran, {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": outcome}}]


PARTS = {
    "anthropic": st.builds(server_calls, ids, fields, words),
    "openai_responses": st.builds(responses_items, ids, fields, words),
    "google": st.builds(gemini_parts, words, words, ids),
}


async def sent_back(vendor: str, parts: list[dict[str, Any]]) -> bytes:
    """The body of the request that goes on after a reply with these parts was saved and loaded."""
    with emulators_by_vendor[vendor]([EmulatedReply(blocks=parts, text="so"), EmulatedReply(text="ok")]) as emulator:
        provider = resolve(f"{vendor}:m", api_key="k", base_url=emulator.base_url)

        async with Conversation(provider) as first:
            await first.prompt("look")
            saved = [dump_message_json(message) for message in first.messages]

        async with Conversation(provider) as second:
            second.load([load_message_json(text) for text in saved])
            await second.prompt("and now?")

    assert emulator.refused == []

    return emulator.requests[1].content


@pytest.mark.parametrize("vendor", PARTS)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_vendor_parts_come_back_byte_for_byte(vendor: str, data: st.DataObject):
    parts = data.draw(PARTS[vendor])
    event(f"{len(json.dumps(parts)) // 100 * 100} characters")
    body = run_sync(sent_back(vendor, parts))

    for part in parts:
        assert strict_json(part) in body
