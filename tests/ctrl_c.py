"""Ctrl-C in the main thread, pressed by a thread that watches what it does."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType

MAIN = threading.main_thread().ident
AGAIN_SECONDS = 0.1


def frame_of_main(function: str) -> FrameType | None:
    """The main thread's innermost frame of a function of that name."""
    frame: FrameType | None = sys._current_frames()[MAIN]

    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back

    return frame


def press_when(ready: threading.Event, *, waiting_in: str) -> threading.Thread:
    """Press once `ready` is set and the main thread waits in a function of that name.

    A signal that comes in the instant before a lock is waited for wakes nobody (CPython looks for signals before it
    begins to wait), so the key is pressed again while the main thread still stands in the same call.
    """
    never = threading.Event()

    def press() -> None:
        ready.wait()

        while (frame := frame_of_main(waiting_in)) is None:
            pass

        while frame_of_main(waiting_in) is frame:
            signal.pthread_kill(MAIN, signal.SIGINT)
            never.wait(AGAIN_SECONDS)

    thread = threading.Thread(target=press)
    thread.start()

    return thread
