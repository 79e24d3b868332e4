"""Vendors' servers on loopback, for tests that go over the wire."""

from collections.abc import Mapping

from simulacra.testing.emulators.anthropic_messages import AnthropicEmulator, message_stream
from simulacra.testing.emulators.gemini import GeminiEmulator, gemini_stream
from simulacra.testing.emulators.openai_chat import OpenAIEmulator, event_stream
from simulacra.testing.emulators.openai_responses import OpenAIResponsesEmulator, response_stream
from simulacra.testing.emulators.replies import EmulatedCall, EmulatedReply, EmulatedRequest, http_error
from simulacra.testing.emulators.server import VendorEmulator

emulators_by_vendor: Mapping[str, type[VendorEmulator]] = {
    emulator.vendor: emulator
    for emulator in (AnthropicEmulator, GeminiEmulator, OpenAIEmulator, OpenAIResponsesEmulator)
}
"""The emulators by their vendor's word."""

__all__ = [
    "AnthropicEmulator",
    "EmulatedCall",
    "EmulatedReply",
    "EmulatedRequest",
    "GeminiEmulator",
    "OpenAIEmulator",
    "OpenAIResponsesEmulator",
    "VendorEmulator",
    "emulators_by_vendor",
    "event_stream",
    "gemini_stream",
    "http_error",
    "message_stream",
    "response_stream",
]
