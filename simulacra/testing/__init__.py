"""Doubles for tests of programs that use the engine: a scripted model and a clock under control."""

from simulacra.testing.clock import FakeClock
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
    "Call",
    "Delay",
    "FakeClock",
    "Fault",
    "Part",
    "ScriptedProvider",
    "Stall",
    "Step",
    "UnexpectedRequestError",
    "UnusedStepsError",
    "calls",
    "delay",
    "fault",
    "fault_after",
    "reply",
    "stall",
]
