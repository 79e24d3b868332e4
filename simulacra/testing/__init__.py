"""Doubles for tests of programs that use the engine: a scripted model, vendors on loopback, a clock under control."""

from simulacra.testing.clock import FakeClock
from simulacra.testing.conformance import ProviderConformance
from simulacra.testing.driving import Recorder
from simulacra.testing.emulators import (
    AnthropicEmulator,
    EmulatedCall,
    EmulatedReply,
    EmulatedRequest,
    OpenAIEmulator,
    VendorEmulator,
    event_stream,
    http_error,
    message_stream,
)
from simulacra.testing.scripted import (
    Call,
    Delay,
    Fault,
    Part,
    ScriptedProvider,
    Stall,
    Step,
    UnexpectedRequestError,
    UnusedStepsError,
    calls,
    delay,
    fault,
    fault_after,
    reply,
    stall,
)

__all__ = [
    "AnthropicEmulator",
    "Call",
    "Delay",
    "EmulatedCall",
    "EmulatedReply",
    "EmulatedRequest",
    "FakeClock",
    "Fault",
    "OpenAIEmulator",
    "Part",
    "ProviderConformance",
    "Recorder",
    "ScriptedProvider",
    "Stall",
    "Step",
    "UnexpectedRequestError",
    "UnusedStepsError",
    "VendorEmulator",
    "calls",
    "delay",
    "event_stream",
    "fault",
    "fault_after",
    "http_error",
    "message_stream",
    "reply",
    "stall",
]
