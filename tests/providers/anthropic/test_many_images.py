"""Of many images in a request each has to be small: screenshots of an agent end no conversation."""

from __future__ import annotations

import pytest
from anthropic import AsyncAnthropic
from simulacra_anthropic import AnthropicProvider
from simulacra_anthropic.drafting import Settings
from simulacra_anthropic.encode import encode_request
from simulacra_anthropic.rules import RULES

from simulacra import Conversation, tool
from simulacra.errors import ConfigurationError
from simulacra.messages import AssistantMessage, MediaContent, TextContent, UserMessage
from simulacra.provider import ModelRequest
from simulacra.testing import AnthropicEmulator, EmulatedCall, EmulatedReply
from simulacra.testing.driving import user

HEAD = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


def image(side: int) -> MediaContent:
    data = HEAD + (10).to_bytes(4, "big") + side.to_bytes(4, "big")

    return MediaContent(kind="image", media_type="image/png", data=data)


def sent(*sides_by_message: list[int]) -> list[list[str]]:
    """What becomes of images of these sizes, in messages of the user: per message `I` for each that stays, else `-`."""
    messages = []

    for sides in sides_by_message:
        messages += [UserMessage((*map(image, sides), TextContent("look"))), AssistantMessage((TextContent("Seen."),))]

    params = encode_request(ModelRequest(messages=tuple(messages[:-1])), Settings(model="m"))
    assert RULES.check(params) == ()
    turns = [turn["content"] for turn in params["messages"] if turn["role"] == "user"]

    return ["".join("I" if block["type"] == "image" else "-" for block in turn[:-1]) for turn in turns]


@pytest.mark.parametrize(
    ("sides", "shown"),
    [
        ([[2001] * 10, [2001] * 10], ["I" * 10, "I" * 10]),  # few of any size
        ([[2000] * 30, [2000] * 30], ["I" * 30, "I" * 30]),  # many small ones
        ([[2001] * 15, [2001] * 10], ["-" * 5 + "I" * 10, "I" * 10]),  # the oldest go until there are few
        ([[9, 2001] * 3 + [9] * 20, [9]], ["I-" * 3 + "I" * 20, "I"]),  # large ones go, then the rest is small
        ([[9] * 19, [2001] * 5], ["-" * 4 + "I" * 15, "I" * 5]),  # the prompt's stay, old ones make room
        ([[9, 2001] * 9, [2001] * 5], ["I-I-I-" + "I" * 12, "I" * 5]),
    ],
)
def test_as_few_images_as_will_do_are_left_out_and_none_of_the_prompt(sides, shown):
    assert sent(*sides) == shown


def test_a_text_stands_in_place_of_what_is_left_out():
    history = (UserMessage((*map(image, [2001] * 21), TextContent("look"))), AssistantMessage((TextContent("Seen."),)))
    params = encode_request(ModelRequest(messages=(*history, user("and?"))), Settings(model="m"))

    assert params["messages"][0]["content"][0]["type"] == "text"
    assert "2,000 pixels" in params["messages"][0]["content"][0]["text"]


def test_a_prompt_that_has_too_many_in_itself_is_refused_before_it_is_sent():
    prompt = UserMessage((*map(image, [9] * 20 + [2001]), TextContent("look")))

    with pytest.raises(ConfigurationError, match="21 of them, one with 2001 pixels a side.*Send fewer"):
        encode_request(ModelRequest(messages=(prompt,)), Settings(model="m"))


@pytest.mark.anyio
async def test_a_tool_that_makes_large_screenshots_runs_as_often_as_the_model_wants():
    @tool
    def screenshot() -> MediaContent:
        """Show the screen."""
        return image(4000)

    script = [EmulatedReply(calls=[EmulatedCall(tool="screenshot", arguments={})]) for _ in range(25)]

    async with (
        AnthropicEmulator([*script, EmulatedReply(text="Done.")]) as emulator,
        AsyncAnthropic(base_url=emulator.base_url, api_key="k") as client,
        Conversation(AnthropicProvider(client, model="m"), toolkit=[screenshot]) as conversation,
    ):
        assert (await conversation.prompt("Watch.")).text == "Done."

    assert emulator.refused == []
    last = str(emulator.requests[-1].body)
    assert last.count("'type': 'image'") == 20
