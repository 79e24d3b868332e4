"""What a docstring says about a tool: one paragraph of description and a text per parameter."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import NamedTuple


class Documentation(NamedTuple):
    """What was found; `summary` is empty and `parameters` are missing where nothing was said."""

    summary: str = ""
    parameters: Mapping[str, str] = {}


def read_docstring(text: str | None) -> Documentation:
    """Read a docstring in Google, NumPy or Sphinx style.

    Args:
        text: The docstring as it stands in the source.

    Returns:
        The first paragraph on one line, and the texts of the documented parameters.
    """
    clean = inspect.cleandoc(text or "")

    if "\n" not in clean:
        return Documentation(clean)

    import griffe  # noqa: PLC0415 -- costs more than the rest of the package and one-line docstrings do without

    docstring = griffe.Docstring(text or "")
    style, _ = griffe.infer_docstring_style(docstring)
    summary = ""
    parameters: dict[str, str] = {}

    for section in docstring.parse(style or "google", warnings=False):
        if isinstance(section, griffe.DocstringSectionText) and not summary:
            summary = _one_line(section.value.strip().partition("\n\n")[0])
        elif isinstance(section, griffe.DocstringSectionParameters):
            parameters |= {item.name.lstrip("*"): _one_line(item.description) for item in section.value}

    return Documentation(summary, parameters)


def _one_line(text: str) -> str:
    return " ".join(text.split())
