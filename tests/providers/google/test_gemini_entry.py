"""What the registry makes of `google:model`."""

from __future__ import annotations

import pytest
from google.auth import credentials
from simulacra_google import GoogleProvider, GoogleToolCodeContextTransformer, plugin
from simulacra_google.entry import KEYS
from simulacra_google.rules import RULES

from simulacra import registry
from simulacra.errors import AuthenticationError, ConfigurationError

VARIABLES = (*KEYS, "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def closed(provider):
    provider.client.close()

    return provider


@pytest.mark.parametrize("name", KEYS)
def test_a_word_makes_a_provider_with_the_environments_key(monkeypatch, name):
    monkeypatch.setenv(name, "AIza-key")
    provider = closed(registry.resolve("google:gemini-2.5-pro", max_tokens=7))

    assert type(provider) is GoogleProvider
    assert (provider.kind, provider.model, provider.max_tokens) == ("google", "gemini-2.5-pro", 7)
    assert plugin.rules is RULES
    assert [rule.name for rule in provider.profile.rules.rules] == [rule.name for rule in RULES.rules]
    assert not provider.client.vertexai


def test_without_a_key_the_remedy_is_told():
    with pytest.raises(AuthenticationError, match=r"no key.*aistudio\.google\.com.*GEMINI_API_KEY"):
        registry.resolve("google:gemini-2.5-pro")


def test_vertex_is_asked_where_the_environment_says_so(monkeypatch):
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west4")
    monkeypatch.setattr("google.auth.default", lambda **_: (credentials.AnonymousCredentials(), "p"))

    assert closed(registry.resolve("google:gemini-2.5-pro")).client.vertexai


def test_an_option_that_cannot_be_right_is_refused():
    with pytest.raises(ConfigurationError, match="contents"):
        plugin.create("m", api_key="k", contents=[])


def test_calls_written_as_code_are_read_unless_told_otherwise():
    usual = closed(plugin.create("m", api_key="k"))
    bare = closed(plugin.create("m", api_key="k", context_transformers=[]))

    assert [type(one) for one in usual.context_transformers] == [GoogleToolCodeContextTransformer]
    assert bare.context_transformers == []
