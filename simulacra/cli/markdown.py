"""Streamed Markdown on a terminal: finished blocks scroll away for good, only the last one is redrawn."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment
from rich.spinner import Spinner
from rich.text import Text

from simulacra.cli.failures import one_line, printable
from simulacra.cli.printer import Printer
from simulacra.emitter import Event
from simulacra.events import ContentComplete, ContentUpdate, MessageComplete
from simulacra.messages import ToolContent

FRAMES_PER_SECOND = 12


class MarkdownPrinter(Printer):
    """Shows an answer as Markdown.

    Args:
        console: The terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pending = ""
        self._has_printed = False
        self._spinner = Spinner("dots", style="dim")
        self._live = Live(
            self, console=console, refresh_per_second=FRAMES_PER_SECOND, transient=True, vertical_overflow="crop"
        )
        self._live.start()

    def show(self, event: Event) -> None:
        if type(event) is ContentUpdate and event.content.type == "text":
            self._pending += printable(event.delta)

            if "\n" in event.delta:
                self._print_finished()
        elif type(event) is ContentComplete and isinstance(event.content, ToolContent):
            self._print_all()
            self._print_call(event.content)
        elif type(event) is MessageComplete:
            self._print_all()

    def finish(self) -> None:
        self._live.stop()
        self._print_all()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The last block, its end when it is taller than the screen; a spinner while there is none."""
        pending = self._pending

        if not pending.strip():
            yield self._spinner
            return

        lines = console.render_lines(Markdown(pending), options, pad=False)

        for line in lines[-max(1, console.height - 1) :]:
            yield from line
            yield Segment.line()

    def _print_finished(self) -> None:
        """Print every block but the last: what follows a block's end cannot change it any more."""
        starts = [
            token.map[0] for token in Markdown(self._pending).parsed if token.level == 0 and token.map is not None
        ]

        if len(starts) > 1:
            lines = self._pending.splitlines(keepends=True)
            finished, self._pending = "".join(lines[: starts[-1]]), "".join(lines[starts[-1] :])
            self._print(finished)

    def _print_all(self) -> None:
        rest, self._pending = self._pending, ""

        if rest.strip():
            self._print(rest)

    def _print(self, markdown: str) -> None:
        if self._has_printed:
            self._console.print()

        self._console.print(Markdown(markdown))
        self._has_printed = True

    def _print_call(self, call: ToolContent) -> None:
        arguments = ", ".join(f"{name}={value!r}" for name, value in call.params.items())
        shown = one_line(printable(f"{call.tool}({arguments})"))
        self._console.print(Text(f"-> {shown}", style="dim"), overflow="ellipsis", no_wrap=True)
