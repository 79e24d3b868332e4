"""Texts of other people inside a prompt: marked, and unable to end the mark themselves."""

from __future__ import annotations

import re


def fence(tag: str, text: str) -> str:
    """The text on lines of its own between `<tag>` and `</tag>`; closing tags inside it are escaped.

    Args:
        tag: Name of the mark.
        text: What is marked.
    """
    closing = re.compile(rf"<(?=\s*/\s*{re.escape(tag)}\b)", re.IGNORECASE)

    return f"<{tag}>\n{closing.sub('&lt;', text)}\n</{tag}>"
