"""What `import simulacra` loads, seen from a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

VENDOR_SDKS = ("anthropic", "openai", "google", "httpx", "httpx2", "aiohttp")
COMMAND_LINE = ("typer", "rich", "click")
LATE = ("griffe", "griffelib", "tenacity", "trio", "starlette", "uvicorn", "xllamacpp")
PROGRAM = "import json, sys; {}; print(json.dumps(sorted(sys.modules)))"


def modules_after(statement):
    """Every module loaded once `statement` ran in a fresh interpreter."""
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(statement)], capture_output=True, text=True, check=True
    )

    return set(json.loads(finished.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def loaded():
    return modules_after("import simulacra")


@pytest.mark.parametrize("module", [*VENDOR_SDKS, *COMMAND_LINE, *LATE])
def test_importing_the_engine_does_not_load(module, loaded):
    assert module not in loaded


def test_importing_the_engine_loads_no_plugin(loaded):
    assert not [module for module in loaded if module.startswith("simulacra_")]


@pytest.mark.parametrize("plugin", ["simulacra_anthropic", "simulacra_google", "simulacra_openai", "simulacra_local"])
def test_importing_a_plugin_does_not_load_its_sdk(plugin):
    loaded = modules_after(f"import {plugin}")
    assert plugin in loaded
    assert not loaded & {*VENDOR_SDKS, "xllamacpp", "llm", "llama_cpp"}


def test_finding_the_installed_providers_imports_none_of_them():
    loaded = modules_after("import simulacra.registry as registry; assert registry.installed()")
    assert not [module for module in loaded if module.startswith("simulacra_")]
