"""`simulacra emulate`: a vendor's server on this machine, for trying programs without a key."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from simulacra.cli.failures import note
from simulacra.errors import ConfigurationError
from simulacra.faults import faults_of
from simulacra.rules import Violation
from simulacra.testing import EmulatedReply, EmulatedRequest, VendorEmulator, emulators_by_vendor

GREETING = "This is an emulator: your request keeps every rule, and nobody has thought about it."


def emulator_of(vendor: str, *, port: int, script: Path | None) -> VendorEmulator:
    """An emulator that answers for ever.

    Args:
        vendor: The vendor's word.
        port: Where to serve; a free one when 0.
        script: A file of JSON lines, each the fields of an `EmulatedReply`, played over and over.

    Raises:
        ConfigurationError: No such vendor, or the script cannot be read.
    """
    if vendor not in emulators_by_vendor:
        raise ConfigurationError(
            f"there is no emulator of {vendor!r}; there are: {', '.join(sorted(emulators_by_vendor))}"
        )

    replies = itertools.cycle(_replies(script) if script else [EmulatedReply(text=GREETING)])

    def answer(request: EmulatedRequest) -> EmulatedReply:
        del request

        return next(replies)

    return emulators_by_vendor[vendor](answer, port=port, on_request=_tell)


def serve(emulator: VendorEmulator, announce: Callable[[str], object]) -> None:
    """Serve until Ctrl-C.

    Args:
        emulator: What serves.
        announce: Told the base URL, once.
    """
    with emulator:
        announce(emulator.base_url)
        threading.Event().wait()


def _tell(request: EmulatedRequest, violations: Sequence[Violation]) -> None:
    note(f"{request.method} {request.path}" + "".join(f"\n  refused: {violation}" for violation in violations))


def _replies(script: Path) -> list[EmulatedReply]:
    try:
        replies = list(_read(script))
    except OSError as error:
        raise ConfigurationError(f"{script} cannot be read: {error}") from error

    if not replies:
        raise ConfigurationError(f'{script} holds no reply: write one JSON object a line, such as {{"text": "hi"}}')

    return replies


def _read(script: Path) -> Iterator[EmulatedReply]:
    adapter = TypeAdapter(EmulatedReply)

    for number, line in enumerate(script.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue

        try:
            yield adapter.validate_python(json.loads(line))
        except ValueError as error:
            reason = faults_of(error) if isinstance(error, ValidationError) else error
            raise ConfigurationError(f"{script}, line {number} is no reply: {reason}") from error
