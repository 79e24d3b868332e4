"""Histories in files: what `/save` wrote, a JSON list of messages, or one message a line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from simulacra.errors import ConfigurationError
from simulacra.faults import faults_of
from simulacra.messages import Message
from simulacra.serialization import load_message


def read_history(path: Path) -> tuple[Message, ...]:
    """The messages of a file.

    Args:
        path: The file; `-` is the standard input.

    Raises:
        ConfigurationError: It cannot be read, or holds no messages; the text names the place.
    """
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error

    return tuple(_message(path, number, item) for number, item in enumerate(_items(path, text)))


def _items(path: Path, text: str) -> list[Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return _lines(path, text)

    if isinstance(value, dict) and "messages" in value:
        value = value["messages"]
    elif isinstance(value, dict):
        value = [value]

    if not isinstance(value, list):
        raise ConfigurationError(f"{path} holds no messages: give a saved chat, a list of messages, or one a line")

    return value


def _lines(path: Path, text: str) -> list[Any]:
    items = []

    for number, line in enumerate(text.splitlines(), 1):
        try:
            items += [json.loads(line)] if line.strip() else []
        except ValueError as error:
            raise ConfigurationError(
                f"{path}, line {number} is no JSON: {error}. Give a saved chat, a list of messages, or one a line"
            ) from error

    return items


def _message(path: Path, number: int, item: Any) -> Message:
    try:
        return load_message(item)
    except (ValueError, TypeError) as error:
        reason = faults_of(error) if isinstance(error, ValidationError) else error
        raise ConfigurationError(f"{path}, message {number} cannot be read: {reason}") from error
