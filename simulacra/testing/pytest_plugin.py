"""Vendor emulators as a pytest fixture.

Example:
    pytest_plugins = ["simulacra.testing.pytest_plugin"]  # in conftest.py

    def test_my_agent(vendor_emulator):
        emulator = vendor_emulator("anthropic", [EmulatedReply(text="Hello")])
        client = AsyncAnthropic(base_url=emulator.base_url, api_key="any")
        ...
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Literal, Protocol

import pytest

from simulacra.rules import RuleTable
from simulacra.testing.emulators import VendorEmulator, emulators_by_vendor
from simulacra.testing.emulators.server import Script

__all__ = ["StartEmulator", "vendor_emulator"]


class StartEmulator(Protocol):
    """What the fixture gives: `vendor_emulator(vendor, script)` starts a vendor's server on loopback.

    Args:
        vendor: The vendor's word, such as `"anthropic"`.
        script: The replies in order, or a function from a request to its reply.
        rules: What is refused; the vendor's own rules when not given, `None` for nothing.
    """

    def __call__(
        self, vendor: str, script: Script, *, rules: RuleTable | Literal["vendor"] | None = "vendor"
    ) -> VendorEmulator: ...


@pytest.fixture
def vendor_emulator() -> Iterator[StartEmulator]:
    """Starts emulators. At the test's end they stop, and it fails if a script was not followed to its end."""
    with ExitStack() as running:

        def start(
            vendor: str, script: Script, *, rules: RuleTable | Literal["vendor"] | None = "vendor"
        ) -> VendorEmulator:
            return running.enter_context(emulators_by_vendor[vendor](script, rules=rules))

        yield start
