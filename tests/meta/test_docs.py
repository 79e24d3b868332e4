"""What README and developer guide show is what happens: their Python is executed, and what it prints is compared."""

from __future__ import annotations

import re
import sys
from types import ModuleType

import pytest
from meta.repository import ROOT
from pytest_examples import CodeExample, find_examples

PAGES = ("README.md", "DEVELOPER_GUIDE.md")
SHOWN = re.compile(r"^\s*#> ?(.*)$", re.MULTILINE)


def examples():
    return [
        pytest.param(example, id=f"{example.path.name}:{example.start_line}")
        for example in find_examples(*(ROOT / page for page in PAGES))
        if example.prefix == "python"
    ]


@pytest.mark.timeout(300)  # some of them speak with the embedded model
@pytest.mark.parametrize("example", examples())
def test_a_snippet_runs_and_prints_what_it_shows(example: CodeExample, monkeypatch, capsys):
    snippet = ModuleType("snippet")
    monkeypatch.setitem(sys.modules, "snippet", snippet)  # where annotations of its classes are looked up
    code = compile("\n" * example.start_line + example.source, str(example.path), "exec")
    exec(code, vars(snippet))
    printed = iter([line.rstrip() for line in capsys.readouterr().out.splitlines()])

    for line in SHOWN.findall(example.source):
        assert line in printed, f"{line!r} was not printed, or not in this order"


def test_the_pages_hold_snippets():
    pages = [example.values[0].path.name for example in examples()]
    assert set(pages) == set(PAGES)


def test_the_readme_shows_the_two_commands():
    fences = re.findall(r"```bash\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    shown = "".join(fences)
    assert 'pip install uv && uv run simulacra chat "Say hello"\n' in shown
    assert "pip install uv && uv run pytest\n" in shown
