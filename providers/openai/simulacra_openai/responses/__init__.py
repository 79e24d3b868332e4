"""OpenAI's Responses API."""

from simulacra_openai.responses.entry import plugin
from simulacra_openai.responses.provider import OpenAIResponsesProvider

__all__ = ["OpenAIResponsesProvider", "plugin"]
