"""The command line: what can be asked for, and which exit code comes back."""

from __future__ import annotations

import logging
import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated

import typer

from simulacra.cli.choosing import choose_model, load_tool
from simulacra.cli.failures import FAILED, INTERRUPTED, USAGE, complain, note, reported
from simulacra.cli.histories import read_history
from simulacra.cli.interactive import Chat
from simulacra.cli.linting import lint_history, repaired_lines, summary
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
    with_stdin: Annotated[bool, typer.Option("--stdin", help="Send what is piped in behind TEXT.")] = False,  # noqa: FBT002 -- a flag
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer's events as JSON lines.")] = False,  # noqa: FBT002 -- a flag
) -> None:
    """Ask for one answer, or chat."""
    with reported():
        interactive = text is None and sys.stdin.isatty()

        if interactive and as_json:
            raise ConfigurationError("--json needs something to say: give a TEXT, or pipe it in")

        piped = read_pipe() if with_stdin or (text is None and not interactive) else None
        said = text if piped is None else piped if text is None else f"{text}\n\n{piped}"
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
def lint(
    file: Annotated[Path, typer.Argument(help="A saved chat, or messages as JSON; '-' reads standard input.")],
    vendor: Annotated[str, typer.Option("--for", help="Whose rules, such as 'anthropic'.")],
    repaired: Annotated[bool, typer.Option("--repaired", help="Print the request that would go out.")] = False,  # noqa: FBT002 -- a flag
) -> None:
    """Say what a vendor would refuse in a history. Exit code 1 when there is something."""
    with reported():
        messages = read_history(file)
        violations = lint_history(messages, vendor)

        for line in repaired_lines(messages, vendor) if repaired else map(str, violations):
            typer.echo(line)

        note(summary(violations, vendor))

        if violations and not repaired:
            raise typer.Exit(FAILED)


@app.command()
def emulate(
    vendor: Annotated[str, typer.Option("--vendor", help="Whose server, such as 'anthropic'.")],
    port: Annotated[int, typer.Option("--port", help="Where to serve; a free one when 0.")] = 0,
    script: Annotated[
        Path | None, typer.Option("--script", help="Replies as JSON lines, played over and over.")
    ] = None,
) -> None:
    """Serve as a vendor does, without a model, until Ctrl-C. What breaks a rule of the vendor is refused."""
    from simulacra.cli.emulating import emulator_of, serve  # noqa: PLC0415 -- no other command needs a server

    with reported():
        serve(emulator_of(vendor, port=port, script=script), typer.echo)


@app.command()
def providers() -> None:
    """List the installed providers, and how to get what is missing."""
    with reported():
        for line in describe_providers():
            typer.echo(line)
