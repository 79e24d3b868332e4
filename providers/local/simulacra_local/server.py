"""The processes that hold models: one per user process and settings, started on first use, gone with their parent.

Starting happens in a thread of its own, so that no event loop waits; whoever asks meanwhile gets the same start.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import IO, cast

from anyio import to_thread

from simulacra.errors import ConfigurationError, ServerError
from simulacra_local.model import ModelFile, verify

RUNTIME = "xllamacpp"
INSTALL_RUNTIME = f"pip install {RUNTIME}"
_CHILD = Path(__file__).with_name("child.py")
_LOG_BYTES = 8192
_STOP_SECONDS = 5.0


def half_the_cores() -> int:
    """How many threads compute unless told otherwise.

    The runtime's threads wait for each other by spinning, so one thread without a core stalls them all: on two busy
    cores two threads wrote 1 to 3 tokens a second, one thread 45 to 60.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    return max(1, cores // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """What makes two servers the same one.

    Args:
        path: The model file.
        alias: The model's name on the wire.
        context_window: Tokens that one request and its reply may have together.
        parallel: Requests served at the same time; more wait in line.
        threads: Threads that compute.
    """

    path: str
    alias: str
    context_window: int
    parallel: int
    threads: int = field(default_factory=half_the_cores)


class LocalServer:
    """A child process and what it said about itself. Making one starts the process; `connect` waits for it."""

    def __init__(self, settings: ServerSettings) -> None:
        self.url = ""
        self.api_key = ""
        self.context_window = settings.context_window
        self._path = settings.path
        self._log = b""
        self._ended = threading.Event()
        told = json.dumps({**asdict(settings), "parent": os.getpid()})
        # -P: nothing in the user's folder may stand in for a module. A session of its own: Ctrl-C is not for the child.
        # Unbuffered pipes have no locks, which a fork could copy while they are held.
        self._process = subprocess.Popen(  # noqa: S603 -- our own script
            [sys.executable, "-P", str(_CHILD), told],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        threading.Thread(target=self._follow, name="simulacra-local-log", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return not self._ended.is_set() and self._process.poll() is None

    def connect(self) -> None:
        """Block until the model is loaded.

        Raises:
            ConfigurationError: The runtime is missing, or it cannot read this file.
            ServerError: The process ended before it said anything.
        """
        with cast("IO[bytes]", self._process.stdout) as pipe:
            said = pipe.read()

        if not said:
            self._ended.wait()
            raise ServerError(f"the local model could not start: {self.obituary()}", retryable=False)

        answer = json.loads(said)

        if "error" in answer:
            self._ended.wait()
            raise self._refused(answer["error"], missing=answer["missing"])

        self.url = answer["url"]
        self.api_key = answer["api_key"]
        self.context_window = answer["context_window"]

    def wait_for_end(self, seconds: float) -> bool:
        """Block for at most `seconds` until the process has ended; whether it has."""
        return self._ended.wait(seconds)

    def obituary(self) -> str:
        """How the process ended, and what it complained of."""
        complaint = self._complaint()

        return f"its process ended with exit code {self._process.returncode}" + (f" ({complaint})" if complaint else "")

    def stop(self) -> None:
        """End the process; it keeps nothing that could be lost. The wait is bounded: the user's process is to end."""
        self._process.kill()
        self._ended.wait(_STOP_SECONDS)

    def disown(self) -> None:
        """After a fork the process is the parent's child: let go of it and never wait for it."""
        self._process.returncode = 0
        self._let_go()

    def _let_go(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _follow(self) -> None:
        """Keep the end of standard error, which must be read or the child would stall."""
        with cast("IO[bytes]", self._process.stderr) as pipe:
            while piece := pipe.read(_LOG_BYTES):
                self._log = (self._log + piece)[-_LOG_BYTES:]

        self._process.wait()
        self._let_go()
        self._ended.set()

    def _refused(self, reason: str, *, missing: bool) -> ConfigurationError:
        if missing:
            return ConfigurationError(
                f"the runtime of the local model cannot be loaded ({reason}). Install it with: {INSTALL_RUNTIME}"
            )

        return ConfigurationError(
            f"the runtime cannot load {self._path!r}: {self._complaint() or reason}. Take another GGUF file, or bring "
            f"the runtime up to date with: {INSTALL_RUNTIME} --upgrade"
        )

    def _complaint(self) -> str:
        """The first error among the last lines, without the runtime's time stamp; else the last line."""
        lines = [line.strip() for line in self._log.decode("utf-8", "replace").splitlines() if line.strip()]
        errors = [line.partition(" E ")[2].strip() for line in lines if " E " in line]

        return next(iter(errors or lines[-1:]), "")


class _Registry:
    """The servers of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starts: dict[ServerSettings, Future[LocalServer]] = {}
        self._servers: list[LocalServer] = []

    def start(self, settings: ServerSettings, model: ModelFile) -> Future[LocalServer]:
        """The server for these settings, running or on its way; one that failed or died is started anew."""
        with self._lock:
            known = self._starts.get(settings)

            if known is not None and (not known.done() or _is_running(known)):
                return known

            future = self._starts[settings] = Future()
            threading.Thread(
                target=self._run, args=(settings, model, future), name="simulacra-local-start", daemon=True
            ).start()

            return future

    def stop(self) -> None:
        """End every server."""
        with self._lock:
            self._starts.clear()
            servers, self._servers = self._servers, []

        for server in servers:
            server.stop()

    def forget(self) -> None:
        """After a fork: what runs belongs to the parent, and its lock may be held by a thread that is not here."""
        self._lock = threading.Lock()
        self._starts.clear()

        while self._servers:
            self._servers.pop().disown()

    def _run(self, settings: ServerSettings, model: ModelFile, future: Future[LocalServer]) -> None:
        server = None

        try:
            server = LocalServer(settings)

            with self._lock:
                self._servers = [other for other in self._servers if other.is_running] + [server]

            verify(model)  # the process loads meanwhile
            server.connect()
        except BaseException as error:  # noqa: BLE001 -- whoever waits is to get it
            if server is not None:
                server.stop()

            future.set_exception(error)
        else:
            future.set_result(server)


def _is_running(start: Future[LocalServer]) -> bool:
    return start.exception() is None and start.result().is_running


_registry = _Registry()
atexit.register(_registry.stop)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_registry.forget)


def require_runtime() -> None:
    """Look for the runtime without importing it.

    Raises:
        ConfigurationError: It is not installed.
    """
    if find_spec(RUNTIME) is None:
        raise ConfigurationError(
            f"the runtime of the local model, {RUNTIME}, is not installed. Install it with: {INSTALL_RUNTIME}"
        )


def start_server(settings: ServerSettings, model: ModelFile) -> Future[LocalServer]:
    """Start the server unless it runs; returns at once.

    Args:
        settings: Which server.
        model: The file it serves.
    """
    return _registry.start(settings, model)


def stop_servers() -> None:
    """End every server of this process; the next request starts a new one."""
    _registry.stop()


async def started(start: Future[LocalServer]) -> LocalServer:
    """Wait for a start; being cancelled leaves the start going on.

    Raises:
        ConfigurationError: The runtime or the model file is not what it has to be.
        ServerError: The process ended before it could serve.
    """
    if not start.done():
        released = threading.Event()
        start.add_done_callback(lambda _: released.set())

        try:
            await to_thread.run_sync(released.wait, abandon_on_cancel=True)
        finally:
            released.set()

    return start.result()
