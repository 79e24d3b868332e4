"""What the user is told when something goes wrong: one line on standard error, and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.text import Text

from simulacra.errors import AuthenticationError, ConfigurationError, NotFoundError, ProviderError

FAILED = 1
USAGE = 2
INTERRUPTED = 130


def complain(text: str) -> None:
    """Say what went wrong, on one line."""
    _say(f"simulacra: {text}", style="red")


def note(text: str) -> None:
    """Say something beside the answer."""
    _say(text, style="dim")


def explain(error: BaseException) -> str:
    """What an error means to the user, on one line; to what a service said of key or model, a way on is added."""
    said = one_line(str(error)) or type(error).__name__
    is_foreign = isinstance(error, ProviderError) and error.status is not None

    if is_foreign and isinstance(error, AuthenticationError):
        return f"{said} (which keys are set: simulacra providers)"

    if is_foreign and isinstance(error, NotFoundError):
        return f"{said} (another model: --model vendor:name)"

    return said


def one_line(text: str) -> str:
    return " ".join(text.split())


@contextmanager
def reported() -> Iterator[None]:
    """Turn whatever ends the block into one line and an exit code.

    In Python's development mode (`python -X dev`, or `PYTHONDEVMODE=1`) the traceback is shown instead.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        _leave_pipe()
        raise typer.Exit(FAILED) from None
    except typer.Exit:
        raise
    except Exception as error:
        if sys.flags.dev_mode:
            raise

        complain(explain(error))
        raise typer.Exit(USAGE if isinstance(error, ConfigurationError) else FAILED) from None


def _say(text: str, *, style: str) -> None:
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text(printable(text), style=style))


def printable(text: str) -> str:
    """Text without the characters that command a terminal; line ends and tabs stay."""
    return text.translate(_COMMANDS)


_COMMANDS = {code: None for code in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if chr(code) not in "\n\t"}


def _leave_pipe() -> None:
    """Nobody reads any more; the interpreter would complain when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
