"""One answer to one text: as Markdown on a terminal, as plain text in a pipe, as events for a program."""

from __future__ import annotations

import sys

from rich.console import Console

from simulacra.blocking import run_sync
from simulacra.cli.failures import note, one_line
from simulacra.cli.json_lines import JsonPrinter
from simulacra.cli.printer import PlainPrinter, Printer
from simulacra.conversation import Conversation
from simulacra.errors import ConfigurationError
from simulacra.events import HistoryChange
from simulacra.messages import Response, ToolResultContent

_ENDINGS = {
    "max_tokens": "(cut off: the answer reached its token limit)",
    "context_window": "(cut off: the context window is full)",
    "refusal": "(the model refused)",
    "content_filter": "(stopped by the service's content filter)",
}


def read_pipe() -> str:
    """Everything from standard input.

    Raises:
        ConfigurationError: There is nothing, or it is not UTF-8.
    """
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"standard input is not UTF-8 (byte {error.start}); convert it first, for example with iconv"
        ) from None

    if not text.strip():
        raise ConfigurationError('nothing to say: simulacra chat "TEXT", or pipe a text in')

    return text


def print_answer(conversation: Conversation, text: str, *, as_json: bool) -> None:
    """Ask, and print what comes while it comes."""
    respond(conversation, text, JsonPrinter() if as_json else suitable_printer(Console()))


def suitable_printer(console: Console) -> Printer:
    if not console.is_terminal:
        return PlainPrinter()

    from simulacra.cli.markdown import MarkdownPrinter  # noqa: PLC0415 -- slow to import, and only a terminal needs it

    return MarkdownPrinter(console)


def respond(conversation: Conversation, text: str, printer: Printer) -> Response:
    """Stream one answer to a printer. Ctrl-C cancels it, what was printed stays in history, and is raised again."""

    async def answer() -> Response:
        async with conversation.stream(text) as stream:
            async for event in stream:
                printer.show(event)

                if type(event) is HistoryChange:
                    _tell_failures(conversation, event)

            return await stream.response()

    with printer:
        response = run_sync(answer())

    ending = _ENDINGS.get(response.stop_reason)

    if ending is not None:
        note(ending)

    return response


def _tell_failures(conversation: Conversation, change: HistoryChange) -> None:
    """Say which tools failed, and why; the model is told as well and decides what to make of it."""
    results = (
        block
        for message in conversation.messages
        if message.id in change.message_ids
        for block in message.content
        if isinstance(block, ToolResultContent) and not block.result.result
    )

    for failed in results:
        note(f"(tool {failed.tool} failed: {one_line(str(getattr(failed.result, 'message', '')))})")
