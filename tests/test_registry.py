"""Finding providers by name, with entry points that stand only in these tests."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from simulacra import registry
from simulacra.errors import ConfigurationError
from simulacra.provider import ProviderPlugin
from simulacra.testing import ScriptedProvider

PLUGIN = ProviderPlugin(
    kind="scripted", create=lambda model, **options: ScriptedProvider(model=model, **options), default_model="usual"
)
BARE = ProviderPlugin(kind="bare", create=PLUGIN.create)
NOT_A_PLUGIN = object()


@pytest.fixture(autouse=True)
def entry_points(monkeypatch):
    here = __name__
    points = [
        EntryPoint("scripted", f"{here}:PLUGIN", registry.GROUP),
        EntryPoint("bare", f"{here}:BARE", registry.GROUP),
        EntryPoint("odd", f"{here}:NOT_A_PLUGIN", registry.GROUP),
        EntryPoint("broken", "no_such_module_anywhere:PLUGIN", registry.GROUP),
        EntryPoint("hollow", f"{here}:MISSING", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda *, group: points if group == registry.GROUP else [])
    monkeypatch.setattr(EntryPoint, "load", load_from_here)


def load_from_here(point):
    """Test modules have no importable name; everything else loads as usual."""
    module, _, attribute = point.value.partition(":")

    if module != __name__:
        __import__(module)

    try:
        return globals()[attribute]
    except KeyError as error:
        raise AttributeError(attribute) from error


def test_installed_providers_are_listed_by_name_without_loading_them():
    assert list(registry.installed()) == ["bare", "broken", "hollow", "odd", "scripted"]


def test_a_name_resolves_to_a_provider_of_that_model():
    provider = registry.resolve("scripted:model:with:colons")
    assert (type(provider), provider.model) == (ScriptedProvider, "model:with:colons")


def test_options_reach_the_provider():
    assert registry.resolve("scripted:m", otherwise="x", steps=["a"]).requests == []


def test_a_bare_word_means_the_default_model():
    assert registry.resolve("scripted").model == "usual"


@pytest.mark.parametrize("name", ["bare", "bare:"])
def test_a_missing_model_is_asked_for(name):
    with pytest.raises(ConfigurationError, match="vendor:model"):
        registry.resolve(name)


@pytest.mark.parametrize("name", ["nobody:m", "", ":m", "Scripted:m"])
def test_an_unknown_provider_is_refused_with_the_known_ones_and_the_remedy(name):
    with pytest.raises(ConfigurationError, match=r"unknown provider .*bare, .*scripted.*pip install"):
        registry.resolve(name)


def test_what_is_no_plugin_is_refused():
    with pytest.raises(ConfigurationError, match="no ProviderPlugin but object"):
        registry.plugin("odd")


@pytest.mark.parametrize("name", ["broken", "hollow"])
def test_a_plugin_that_cannot_be_loaded_is_named_with_its_cause(name):
    with pytest.raises(ConfigurationError, match=name) as raised:
        registry.plugin(name)

    assert isinstance(raised.value.__cause__, ImportError | AttributeError)
