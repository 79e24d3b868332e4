"""What a vendor must do for whole conversations, as tests that a plugin's test class inherits.

They ask for no wording, so the same tests run against an emulator, which is told what to answer, and against the vendor's
own service, which is not.

Example:
    pytestmark = pytest.mark.anyio

    class TestMyVendor(VendorConformance):
        @asynccontextmanager
        async def connected(self, script, **options):
            with MyEmulator(script) as emulator:
                yield MyProvider(MySDK(base_url=emulator.base_url), model="m", **options)
"""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from simulacra.conversation import Conversation
from simulacra.errors import AuthenticationError, NotFoundError, ProviderError
from simulacra.messages import (
    AssistantMessage,
    MediaContent,
    Message,
    RawContent,
    TextContent,
    ThinkingContent,
    ToolContent,
    ToolResultContent,
    ToolSuccessResult,
    UserMessage,
)
from simulacra.policies import NoopPolicy
from simulacra.provider import ModelProvider, OutputRequest, RequestOptions
from simulacra.testing.driving import reply_of, request, user
from simulacra.testing.emulators import EmulatedCall, EmulatedReply, http_error
from simulacra.tools import tool

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""A PNG of one pixel."""
ROUNDS = 5
TURNS = 50
_CITY = {
    "title": "city",
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
    "additionalProperties": False,
}


@tool
async def population(city: str) -> int:
    """How many people live in a city."""
    return 1_000 * len(city)


@tool
async def photograph(city: str) -> tuple[str, list[MediaContent]]:
    """A picture of a city."""
    return f"a picture of {city}", [MediaContent(kind="image", media_type="image/png", data=PIXEL)]


class VendorConformance(ABC):
    """The rules that hold from a prompt to its answer. Subclass it, connect a provider, and run it with anyio."""

    supports_images = True
    supports_output = True
    thinking: dict[str, Any] | None = None
    """The option that lets the model think, for vendors that have one."""

    @abstractmethod
    def connected(self, script: Sequence[EmulatedReply], **options: Any) -> AbstractAsyncContextManager[ModelProvider]:
        """A provider whose vendor answers so, if it can be told; `model` and `api_key` may be among the options."""

    async def test_a_prompt_is_answered_and_counted(self) -> None:
        async with self.connected([EmulatedReply(text=["Hel", "lo"])]) as provider:
            response = await Conversation(provider, system="Be brief.").prompt("Say hello.")

        assert response.text.strip()
        assert response.stop_reason == "end_turn"
        assert response.usage.input_tokens
        assert response.usage.output_tokens

    async def test_thinking_goes_back_with_the_next_prompt(self) -> None:
        if self.thinking is None:
            return

        script = [EmulatedReply(thinking="Let me see.", text="42"), EmulatedReply(text="Yes.")]

        async with self.connected(script) as provider:
            conversation = Conversation(provider, options=RequestOptions(thinking=self.thinking, max_tokens=4096))
            await conversation.prompt("What is 6 times 7?")
            response = await conversation.prompt("Are you sure?")

        assert response.text.strip()

    async def test_five_rounds_of_parallel_tools_end_in_an_answer(self) -> None:
        rounds = [
            EmulatedReply(
                thinking=f"round {number}" if self.thinking else (),
                calls=[EmulatedCall(tool="population", arguments={"city": city}) for city in ("Ulm", "Bonn")],
            )
            for number in range(ROUNDS)
        ]

        async with self.connected([*rounds, EmulatedReply(text="Bonn is larger.")]) as provider:
            conversation = Conversation(provider, toolkit=[population])
            response = await conversation.prompt(
                "Look up Ulm and Bonn with the tool, both at once. Which one is larger?"
            )

        assert response.stop_reason == "end_turn"
        assert response.text.strip()
        assert _calls(conversation.messages) == _results(conversation.messages) > 0

    async def test_pictures_are_seen_in_prompts_and_in_results(self) -> None:
        if not self.supports_images:
            return

        script = [
            EmulatedReply(calls=[EmulatedCall(tool="photograph", arguments={"city": "Ulm"})]),
            EmulatedReply(text="Both show a dot."),
        ]
        picture = MediaContent(kind="image", media_type="image/png", data=PIXEL)

        async with self.connected(script) as provider:
            conversation = Conversation(provider, toolkit=[photograph])
            response = await conversation.prompt([TextContent("Photograph Ulm, then compare it with this."), picture])

        assert response.text.strip()

    async def test_an_output_is_what_its_schema_says(self) -> None:
        if not self.supports_output:
            return

        asked = request(user("Bonn has 330000 people."), output=OutputRequest(schema=_CITY))

        async with self.connected([EmulatedReply(text='{"name": "Bonn", "people": 330000}')]) as provider:
            message = await reply_of(provider, asked)

        assert json.loads(message.text) == {"name": "Bonn", "people": 330_000}

    async def test_a_cancelled_answer_is_kept_and_the_next_prompt_is_answered(self) -> None:
        script = [EmulatedReply(text=["One", " two"], stall_after=2), EmulatedReply(text="Fine.")]

        async with self.connected(script) as provider:
            conversation = Conversation(provider)

            async with conversation.stream("Count to one thousand, in words.") as stream:
                async for _ in stream.text_deltas():
                    break

            response = await conversation.prompt("Stop. Say fine.")

        first = conversation.messages[1]
        assert isinstance(first, AssistantMessage)
        assert first.status == "interrupted"
        assert first.text
        assert response.text.strip()

    async def test_fifty_turns_of_history_are_read(self) -> None:
        async with self.connected([EmulatedReply(text="Fifty.")]) as provider:
            conversation = Conversation(provider)
            conversation.load([message for number in range(TURNS) for message in _turn(number)])
            response = await conversation.prompt("How often did I ask?")

        assert response.text.strip()
        assert len(conversation.messages) == 2 * TURNS + 2

    async def test_a_tool_loop_of_other_vendors_is_continued(self) -> None:
        async with self.connected([EmulatedReply(text="Bonn is larger.")]) as provider:
            conversation = Conversation(provider, toolkit=[population])
            conversation.load(_foreign_loop())
            response = await conversation.prompt("So which one?")

        assert response.text.strip()

    async def test_an_unknown_model_is_named(self) -> None:
        error = await self._failure([http_error(404, "no such model")], model="no-such-model-1")

        assert isinstance(error, NotFoundError)
        assert error.model == "no-such-model-1"

    async def test_a_wrong_key_is_told(self) -> None:
        error = await self._failure([http_error(401, "invalid key")], api_key="wrong-key-0123456789")

        assert isinstance(error, AuthenticationError)
        assert "wrong-key-0123456789" not in str(error)

    async def _failure(self, script: Sequence[EmulatedReply], **options: Any) -> ProviderError:
        async with self.connected(script, **options) as provider:
            conversation = Conversation(provider, policy=NoopPolicy())

            try:
                await conversation.prompt("Say hello.")
            except ProviderError as error:
                assert conversation.state == "idle"
                assert conversation.messages == ()
                return error

        raise AssertionError("the request did not fail")


def _calls(messages: Sequence[Message]) -> int:
    return sum(isinstance(block, ToolContent) for message in messages for block in message.content)


def _results(messages: Sequence[Message]) -> int:
    return sum(isinstance(block, ToolResultContent) for message in messages for block in message.content)


def _turn(number: int) -> tuple[Message, Message]:
    return UserMessage((TextContent(f"Question {number}?"),)), AssistantMessage((TextContent(f"Answer {number}."),))


def _foreign_loop() -> list[Message]:
    """Two rounds of a loop that two other vendors made, each with its own words, thoughts and ids."""
    made: list[Message] = [UserMessage((TextContent("Which one is larger, Ulm or Bonn?"),))]

    for number, (kind, call_id, city) in enumerate((("vendor_a", "call|fc.1", "Ulm"), ("vendor_b", "t" * 80, "Bonn"))):
        thought = ThinkingContent(f"thought {number}", extended={"signature": f"signed by {kind}"})
        own = RawContent(model_kind=kind, data=json.dumps({"type": "own", "number": number}))
        call = ToolContent(tool_request_id=call_id, tool="population", params={"city": city})
        result = ToolSuccessResult.model_validate({"result": True, "output": 1000 * len(city)})
        answer = ToolResultContent(tool_request_id=call_id, tool="population", result=result)
        made += [AssistantMessage((thought, own, call)), UserMessage((answer,))]

    return made
