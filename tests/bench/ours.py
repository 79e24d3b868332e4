"""The engine's adapter for the performance harness, which stands beside the project and compares it with raw SDKs.

Run by hand, from the harness's folder (`HARNESS`), with this project's environment and the server on another core:

    taskset -c 1 $RAW/v-raw/bin/python fake_vendors.py &
    PYTHONPATH=$PROJECT/tests/bench python run.py run --venvs $RAW --out results.jsonl --only '^(raw-chat|ours)' \\
        --bench text tools long idle --repeats 3 --add ours-chat=$PROJECT/.venv/bin/python:ours
    # and --add ours-responses=..., ours-anthropic=..., ours-gemini=..., with --only '^(raw-[a-z]+$|ours)'
    python run.py show --out results.jsonl

`growth.py` shows that the cost of a turn is linear in its deltas, `import_cost.py` compares the imports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.base import Adapter, add

if TYPE_CHECKING:
    from simulacra import Conversation


class Chat(Adapter):
    """`Conversation.stream`, text taken delta by delta, with the client that `"openai:<model>"` has."""

    vendor = "openai"
    path = "/v1"

    def __init__(self, url: str) -> None:
        super().__init__(url)
        from simulacra import AssistantMessage, Conversation, TextContent, UserMessage, tool

        self.conversation = Conversation
        self.text = TextContent
        self.messages = {"user": UserMessage, "assistant": AssistantMessage}
        self.add = tool(add)
        self.connect(url + self.path)

    def connect(self, base_url: str) -> None:
        from simulacra import resolve

        made = resolve(f"{self.vendor}:any", api_key="k", base_url=base_url)
        self.provider, self.client = type(made), made.client

    async def open(self, model: str, hist=(), tools: bool = False) -> Conversation:
        toolkit = [self.add] if tools else []
        conversation = self.conversation(self.provider(self.client, model=model), toolkit=toolkit)

        if hist:
            conversation.load([self.messages[role]((self.text(text),)) for role, text in hist])

        return conversation

    async def turn(self, conversation: Conversation, prompt: str) -> tuple[int, int]:
        deltas = characters = 0

        async with conversation.stream(prompt) as stream:
            async for delta in stream.text_deltas():
                deltas += 1
                characters += len(delta)

        return deltas, characters

    async def close(self) -> None:
        await self.client.close()


class Responses(Chat):
    vendor = "openai_responses"


class Anthropic(Chat):
    vendor = "anthropic"
    path = ""


class Gemini(Chat):
    vendor = "google"
    path = ""

    async def close(self) -> None:
        await self.client.aio.aclose()


class OwnChat(Chat):
    """With a client of the user's, as the SDK makes it."""

    def connect(self, base_url: str) -> None:
        import openai
        from simulacra_openai import OpenAIProvider

        self.provider = OpenAIProvider
        self.client = openai.AsyncOpenAI(base_url=base_url, api_key="k")


class OwnAnthropic(Anthropic):
    """With a client of the user's, as the SDK makes it."""

    def connect(self, base_url: str) -> None:
        import anthropic
        from simulacra_anthropic import AnthropicProvider

        self.provider = AnthropicProvider
        self.client = anthropic.AsyncAnthropic(base_url=base_url, api_key="k")


ADAPTERS = {
    "ours-chat": Chat,
    "ours-chat-own": OwnChat,
    "ours-responses": Responses,
    "ours-anthropic": Anthropic,
    "ours-anthropic-own": OwnAnthropic,
    "ours-gemini": Gemini,
}
