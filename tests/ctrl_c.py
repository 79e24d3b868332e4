"""Ctrl-C in the main thread, pressed by a thread that watches what it does."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator

MAIN = threading.main_thread().ident


def functions_of_main() -> Iterator[str]:
    """Names of the functions that the main thread is in, innermost first."""
    frame = sys._current_frames()[MAIN]

    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back


def press_when(ready: threading.Event, *, waiting_in: str) -> threading.Thread:
    """Press once `ready` is set and the main thread waits in a function of that name."""

    def press() -> None:
        ready.wait()

        while waiting_in not in functions_of_main():
            pass

        signal.pthread_kill(MAIN, signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()

    return thread
