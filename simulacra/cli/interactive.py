"""The chat on a terminal: a prompt, streamed answers, and commands that begin with a slash."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.text import Text

from simulacra.blocking import run_sync
from simulacra.cli.failures import complain, explain, one_line
from simulacra.cli.one_answer import respond, suitable_printer
from simulacra.cli.saving import save
from simulacra.conversation import Conversation
from simulacra.registry import resolve

PROMPT = "> "
_COMMAND = re.compile(r"/([a-z]+)(?:\s+(.*))?$")


class Chat:
    """A conversation held at a terminal.

    Args:
        conversation: What is held.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._console = Console()
        self._saved_to: set[Path] = set()
        self._is_over = False
        self._commands: dict[str, tuple[Callable[[str], None], str]] = {
            "help": (self._help, "these lines"),
            "clear": (self._clear, "forget the conversation so far"),
            "checkpoint": (self._checkpoint, "let the model summarise what was said; later requests send the summary"),
            "tools": (self._tools, "the tools the model may call"),
            "model": (self._model, "who answers; with 'vendor:name', another one from now on"),
            "save": (self._save, "write the conversation to a FILE, as JSON"),
            "quit": (self._quit, "leave (so does Ctrl-D)"),
        }

    def run(self) -> None:
        """Read and answer until the user leaves."""
        with suppress(ImportError):
            import readline  # noqa: F401, PLC0415 -- importing it gives input() editing and a history

        self._say(f"{self._answering()}   /help for commands, Ctrl-C stops an answer, Ctrl-D leaves")

        while not self._is_over:
            try:
                self._take(input(PROMPT))
            except KeyboardInterrupt:
                self._console.print()
                self._say("Ctrl-D or /quit leaves.")
            except EOFError:
                self._console.print()
                return

    def _take(self, line: str) -> None:
        command = _COMMAND.match(line.rstrip())

        if command is not None and command[1] in self._commands:
            self._attempt(lambda: self._commands[command[1]][0]((command[2] or "").strip()))
        elif command is not None and not command[2]:
            complain(f"no command /{command[1]}; /help lists them (a space before it sends it to the model)")
        elif line.strip():
            self._attempt(lambda: self._answer(line))

    def _attempt(self, action: Callable[[], None]) -> None:
        """Whatever fails is told, and the chat goes on: no failure is worth the conversation."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 -- see above
            complain(explain(error))

    def _answer(self, text: str) -> None:
        try:
            respond(self._conversation, text, suitable_printer(self._console))
        except KeyboardInterrupt:
            self._say("(interrupted)")

    def _help(self, _: str) -> None:
        width = max(map(len, self._commands))

        for name, (_action, meaning) in self._commands.items():
            self._say(f"/{name:<{width}}  {meaning}")

    def _clear(self, _: str) -> None:
        self._conversation.clear()
        self._say("The conversation is empty.")

    def _checkpoint(self, _: str) -> None:
        with self._console.status("summarising", spinner="dots"):
            state = run_sync(self._conversation.checkpoint())

        self._say(f"Summary of the conversation so far: {one_line(state.summary)}")

    def _tools(self, _: str) -> None:
        if not self._conversation.toolkit:
            self._say("No tools; start with --tool module:Name to offer some.")

        for tool in self._conversation.toolkit:
            definition = tool.get_definition()
            self._say(f"{definition.name}: {one_line(definition.description)}")

    def _model(self, name: str) -> None:
        if name:
            self._conversation.provider = resolve(name)

        self._say(f"{self._answering()}")

    def _save(self, name: str) -> None:
        if not name:
            complain("/save needs a file's name: /save conversation.json")
            return

        path = Path(name).expanduser().absolute()

        if path.exists() and path not in self._saved_to:
            complain(f"{str(path)!r} is there already and is not overwritten; choose another name")
            return

        save(self._conversation, path)
        self._saved_to.add(path)
        self._say(f"Saved {len(self._conversation.messages)} messages to {str(path)!r}.")

    def _quit(self, _: str) -> None:
        self._is_over = True

    def _answering(self) -> str:
        return f"{self._conversation.provider.kind}:{self._conversation.provider.model}"

    def _say(self, text: str) -> None:
        self._console.print(Text(text, style="dim"))
