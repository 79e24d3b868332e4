"""The least that a provider, a transformer and a tool can be."""

from __future__ import annotations

from simulacra.provider import ModelProvider
from simulacra.tools import tool
from simulacra.transformers import ContextTransformer


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


class Adding(ContextTransformer):
    def __init__(self, name):
        self.name = name

    async def transform_prompt(self, messages, context):
        context.add_system(f"from {self.name}")

        return messages


class Bare(ModelProvider):
    """As little as a provider can be."""

    kind = "bare"
    model = "m"

    def __init__(self, *events):
        self.events = events
        self.requests = []

    async def stream(self, request):
        self.requests.append(request)

        for event in self.events:
            if isinstance(event, Exception):
                raise event

            yield event
