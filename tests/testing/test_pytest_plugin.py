"""The fixture that starts vendor emulators, in a test run of its own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

CONFTEST = 'pytest_plugins = ["simulacra.testing.pytest_plugin"]'
OPTIONS = ("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:timeout")
FOLLOWED = """
import urllib.request

from simulacra.testing import EmulatedReply

def test_a_reply(vendor_emulator):
    emulator = vendor_emulator("openai", [EmulatedReply(text="hi", body={"said": "hi"})], rules=None)
    request = urllib.request.Request(f"{emulator.base_url}/chat/completions", data=b"{}")
    assert b"said" in urllib.request.urlopen(request).read()
"""
LEFT_OVER = """
from simulacra.testing import EmulatedReply

def test_nothing(vendor_emulator):
    vendor_emulator("anthropic", [EmulatedReply(text="never asked for")])
"""


def test_the_fixture_starts_an_emulator(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(FOLLOWED)

    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=1)


def test_replies_that_nobody_asked_for_fail_the_test(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(LEFT_OVER)

    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=1, errors=1)
