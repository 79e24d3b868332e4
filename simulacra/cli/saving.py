"""A conversation as a file of its own: JSON, UTF-8."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from simulacra.conversation import Conversation
from simulacra.serialization import dump_message

SCHEMA_VERSION = 1


def save(conversation: Conversation, path: Path) -> None:
    """Write the conversation whole or not at all.

    Args:
        conversation: What to write.
        path: Where; what is there is replaced.

    Raises:
        OSError: The file cannot be written.
    """
    saved = {
        "schema_version": SCHEMA_VERSION,
        "id": conversation.id,
        "model": f"{conversation.provider.kind}:{conversation.provider.model}",
        "system": conversation.system,
        "messages": [dump_message(message) for message in conversation.messages],
    }
    text = json.dumps(saved, ensure_ascii=False, indent=2) + "\n"

    try:
        _write_whole(text, path)
    except OSError as error:
        raise OSError(f"{str(path)!r} cannot be written: {error.strerror}") from error


def _write_whole(text: str, path: Path) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")

    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)

        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
