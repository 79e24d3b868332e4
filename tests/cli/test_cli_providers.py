"""`simulacra providers`: what is there, what is ready, how to get the rest."""

from __future__ import annotations

import pytest

from simulacra.cli import app, listing
from simulacra.errors import ConfigurationError
from simulacra.provider import ProviderPlugin
from simulacra.testing import ScriptedProvider


def create(model):
    return ScriptedProvider(model=model)


def incomplete(model):
    raise ConfigurationError("no runtime. Install it with: pip install runtime")


@pytest.fixture
def lines(runner):
    def listed():
        result = runner.invoke(app, ["providers"])
        assert result.exit_code == 0

        return {line.split()[0]: line for line in result.stdout.splitlines()}

    return listed


def test_each_installed_provider_is_a_line(lines, install):
    install(ProviderPlugin(kind="free", create=create, default_model="tiny"))

    assert lines()["free"].split() == ["free", "free:tiny", "ready:", "needs", "no", "key"]


def test_a_key_is_named_and_never_shown(lines, install, monkeypatch):
    monkeypatch.setenv("PAID_KEY", "secret")
    install(ProviderPlugin(kind="paid", create=create, keys=("PAID_KEY",)))

    assert lines()["paid"].endswith("ready: PAID_KEY is set")
    assert "secret" not in lines()["paid"]


def test_a_missing_or_empty_key_comes_with_its_remedy(lines, install, monkeypatch):
    monkeypatch.setenv("PAID_KEY", "")
    install(ProviderPlugin(kind="paid", create=create, keys=("PAID_KEY", "OTHER"), remedy="Get one at example.org."))

    assert "key missing: PAID_KEY or OTHER is not set. Get one at example.org." in lines()["paid"]


def test_a_keyless_provider_that_lacks_something_says_what(lines, install):
    install(ProviderPlugin(kind="free", create=incomplete, default_model="tiny"))

    assert "incomplete: no runtime. Install it with: pip install runtime" in lines()["free"]


def test_a_plugin_that_cannot_be_loaded_breaks_nothing(lines, install):
    install("broken", ProviderPlugin(kind="free", create=create, default_model="tiny"))

    assert "broken: provider 'broken' is installed but cannot be loaded" in lines()["broken"]
    assert "ready" in lines()["free"]


def test_providers_on_offer_that_are_not_installed_are_listed_with_their_command(lines, install, monkeypatch):
    offered = [
        "pydantic>=2",
        'simulacra-paid; extra == "paid"',
        'simulacra-free; extra == "free"',
        'simulacra[paid,free]; extra == "all"',
        'starlette; extra == "testing"',
    ]
    monkeypatch.setattr(listing, "requires", lambda name: offered)
    install(ProviderPlugin(kind="free", create=create, default_model="tiny"))

    assert sorted(lines()) == ["free", "paid"]
    assert lines()["paid"].endswith("not installed: pip install 'simulacra[paid]'")


def test_the_real_ones_are_found(lines):
    assert "ready: needs no key" in lines()["local"]
    assert "OPENAI_API_KEY" in lines()["openai"]
