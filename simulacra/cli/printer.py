"""What shows an answer while it comes."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from simulacra.emitter import Event
from simulacra.events import ContentUpdate


class Printer(ABC):
    """Shows the events of one answer. Leaving `with` finishes what is on the screen, also after a failure."""

    @abstractmethod
    def show(self, event: Event) -> None:
        """Show one event."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def finish(self) -> None:  # noqa: B027 -- most printers have nothing left to do
        """The answer is over, one way or another."""


class PlainPrinter(Printer):
    """The text, as it comes, and a line end."""

    def __init__(self) -> None:
        self._last = "\n"

    def show(self, event: Event) -> None:
        if type(event) is ContentUpdate and event.content.type == "text":
            sys.stdout.write(event.delta)
            sys.stdout.flush()
            self._last = event.delta[-1:] or self._last

    def finish(self) -> None:
        if self._last != "\n":
            sys.stdout.write("\n")
            sys.stdout.flush()
