"""Every silenced check names its code and its reason on the same line, and every module starts the same way."""

from __future__ import annotations

import io
import re
import tokenize

import pytest
from meta.repository import EVERYTHING, place, python_files

SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore|pragma)\b", re.IGNORECASE)
WITH_REASON = re.compile(r"#\s*(noqa:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*|type:\s*ignore\[[a-z, -]+\])\s*(--|#)\s*\S.*")


def comments(path):
    with path.open("rb") as file:
        for token in tokenize.tokenize(io.BytesIO(file.read()).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


@pytest.mark.parametrize("path", python_files(*EVERYTHING), ids=place)
def test_a_silenced_check_has_a_code_and_a_reason(path):
    bare = [
        place(path, line)
        for line, comment in comments(path)
        if SUPPRESSION.match(comment) and not WITH_REASON.fullmatch(comment)
    ]
    assert not bare


@pytest.mark.parametrize("path", python_files(*EVERYTHING), ids=place)
def test_annotations_are_never_evaluated_early(path):
    source = path.read_text("utf-8")
    defines_something = re.search(r"^\s*(async def|def|class) ", source, re.MULTILINE)
    assert not defines_something or "from __future__ import annotations\n" in source


@pytest.mark.parametrize("path", python_files("simulacra", "providers"), ids=place)
def test_nothing_is_left_for_later(path):
    source = path.read_text("utf-8")
    assert not re.search(r"\b(TODO|FIXME|XXX|NotImplementedError)\b", source)
