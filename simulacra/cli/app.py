"""The command line: what can be asked for, and which exit code comes back."""

from __future__ import annotations

import logging
import sys
from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from simulacra.cli.choosing import choose_model, load_tool
from simulacra.cli.failures import INTERRUPTED, USAGE, complain, note, reported
from simulacra.cli.interactive import Chat
from simulacra.cli.listing import describe_providers
from simulacra.cli.one_answer import print_answer, read_pipe
from simulacra.conversation import Conversation
from simulacra.errors import ConfigurationError

app = typer.Typer(
    name="simulacra",
    help="Talk to language models, in the terminal and in pipes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command and exit; the entry point.

    Exit codes: 0 it worked, 1 it failed, 2 it was asked for wrongly, 130 it was interrupted.
    """
    _speak_utf8()
    logging.getLogger("simulacra").addHandler(logging.NullHandler())  # what fails is told in a line, not by the log

    try:
        code = app(standalone_mode=False)
    except typer.TyperException as error:
        code = getattr(error, "exit_code", USAGE)
        reason = error.format_message()

        if reason:
            complain(f"{reason} (see: simulacra --help)")
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED

    sys.exit(code)


def _speak_utf8() -> None:
    """Terminals and pipes carry UTF-8, whatever the locale says."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")


def _print_version(asked: bool) -> None:  # noqa: FBT001 -- typer's signature of a callback
    if asked:
        typer.echo(f"simulacra {installed_version('simulacra')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[  # noqa: FBT002 -- a flag
        bool, typer.Option("--version", help="Print the version and leave.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """What goes before a command's name."""


@app.command()
def chat(
    text: Annotated[str | None, typer.Argument(help="What to say. Without it: standard input, or a chat.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Who answers, as 'vendor:name'.")] = None,
    system: Annotated[str | None, typer.Option("--system", "-s", help="The system prompt.")] = None,
    tool: Annotated[
        list[str] | None, typer.Option("--tool", "-t", help="A tool to offer, as 'module:Name'; repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer's events as JSON lines.")] = False,  # noqa: FBT002 -- a flag
) -> None:
    """Ask for one answer, or chat."""
    with reported():
        interactive = text is None and sys.stdin.isatty()

        if interactive and as_json:
            raise ConfigurationError("--json needs something to say: give a TEXT, or pipe it in")

        said = read_pipe() if text is None and not interactive else text
        choice = choose_model(model)
        toolkit = [load_tool(name) for name in tool or ()]

        with Conversation(choice.provider, system=system, toolkit=toolkit) as conversation:
            if choice.reason:
                note(choice.reason)

            if said is None:
                Chat(conversation).run()
            else:
                print_answer(conversation, said, as_json=as_json)


@app.command()
def providers() -> None:
    """List the installed providers, and how to get what is missing."""
    with reported():
        for line in describe_providers():
            typer.echo(line)
