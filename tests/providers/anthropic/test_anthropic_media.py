"""Sizes of images, and documents in the results of tools."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from messages_wire import params_of, result, turns_of, user
from simulacra_anthropic.media import MAX_IMAGE, MAX_SIDE
from simulacra_anthropic.rules import RULES

from simulacra.errors import ConfigurationError
from simulacra.messages import AssistantMessage, MediaContent, TextContent, ToolContent

HEAD = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
FULL_PAGE = HEAD + (1440).to_bytes(4, "big") + (MAX_SIDE + 1).to_bytes(4, "big")
JPEG = b"\xff\xd8\xff\xe1\x9c\x40" + b"\0" * 39_998
WIDE_JPEG = JPEG + b"\xff\xc2\x00\x11\x08\x00\x10" + (MAX_SIDE + 1).to_bytes(2, "big") + b"\x03"
HEAVY = HEAD + (100).to_bytes(4, "big") * 2 + b"\0" * (MAX_IMAGE * 3 // 4)


def model(*blocks: Any) -> AssistantMessage:
    return AssistantMessage(blocks)


def used(call_id: str) -> ToolContent:
    return ToolContent(tool_request_id=call_id, tool="shot")


def image(data: bytes, media_type: str = "image/png") -> MediaContent:
    return MediaContent(kind="image", media_type=media_type, data=data)


TOO_LARGE = [
    (image(FULL_PAGE), "1440 x 8001 pixels"),
    (image(WIDE_JPEG, "image/jpeg"), "8001 x 16 pixels"),
    (image(HEAVY), "characters in base64"),
]


@pytest.mark.parametrize(("media", "reason"), TOO_LARGE)
def test_mu_r1_an_image_that_is_too_large_is_refused_in_a_prompt(media: MediaContent, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=f"the prompt's image cannot be sent: .*{reason}"):
        params_of(user("look", media))


@pytest.mark.parametrize(("media", "reason"), TOO_LARGE)
def test_mu_01_an_image_of_history_that_is_too_large_does_not_spoil_every_later_turn(
    media: MediaContent, reason: str
) -> None:
    [asked, _, answered, *_] = turns_of(
        user("look", media),
        model(used("t1")),
        user(result("t1", content=(media,))),
        model(TextContent("ok")),
        user("?"),
    )

    assert reason in asked[1][1]["text"]
    assert reason in answered[1][0]["content"][1]["text"]


@pytest.mark.parametrize(("media", "reason"), TOO_LARGE)
def test_the_rule_finds_and_mends_what_is_too_large_on_the_wire(media: MediaContent, reason: str) -> None:
    assert media.data is not None
    source = {"type": "base64", "media_type": media.media_type, "data": base64.b64encode(media.data).decode()}
    answer = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "image", "source": source}]}
    call = {"type": "tool_use", "id": "t1", "name": "shot", "input": {}}
    wire = {
        "model": "m",
        "max_tokens": 1,
        "tools": [{"name": "shot", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [answer]},
        ],
    }
    [found] = RULES.check(wire)

    assert found.rule == "media-fit"
    assert found.path == "messages[2].content[0].content[0].source"
    assert reason in found.reason
    assert RULES.check(RULES.repair(wire)) == ()


def test_an_image_at_the_limits_is_sent() -> None:
    largest = HEAD + MAX_SIDE.to_bytes(4, "big") * 2
    fitting = image(largest + b"\0" * (MAX_IMAGE // 4 * 3 - len(largest)))
    [(_, blocks)] = turns_of(user(fitting))

    assert len(blocks[0]["source"]["data"]) == MAX_IMAGE


def test_mu_r2_documents_and_files_stand_in_the_result_they_belong_to() -> None:
    pdf = MediaContent(kind="file", media_type="application/pdf", data=b"%PDF", name="a.pdf")
    note = MediaContent(kind="file", media_type="text/plain", data=b"note")
    kept = MediaContent(kind="file", media_type="application/pdf", file_id="file_1")
    answer = result("t1", content=(pdf, note, kept))
    [sent] = turns_of(user("q"), model(used("t1")), user(answer))[2][1]

    assert [part["type"] for part in sent["content"]] == ["text", "document", "document", "document"]
    assert [part["source"]["type"] for part in sent["content"][1:]] == ["base64", "text", "file"]
