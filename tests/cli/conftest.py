"""A scripted model as an installed provider, and a terminal to watch."""

from __future__ import annotations

import codecs
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import anyio.lowlevel
import pytest
from typer.testing import CliRunner

from simulacra import registry
from simulacra.provider import ProviderPlugin
from simulacra.testing import ScriptedProvider

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "SIMULACRA_LOCAL_MODEL")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)


@pytest.fixture
def runner():
    return CliRunner()


@pytest.fixture
def install(monkeypatch):
    """Make plugins the only installed ones: `install(plugin, ...)`; a text stands for a module that fails to load."""

    def replace(*plugins):
        points = []

        for plugin in plugins:
            if isinstance(plugin, str):
                points.append(EntryPoint(plugin, f"no_such_module_{plugin}:plugin", registry.GROUP))
            else:
                module = f"installed_{plugin.kind}"
                monkeypatch.setitem(sys.modules, module, SimpleNamespace(plugin=plugin))
                points.append(EntryPoint(plugin.kind, f"{module}:plugin", registry.GROUP))

        monkeypatch.setattr(registry, "installed", lambda: {point.name: point for point in points})

    return replace


@pytest.fixture
def scripted(install):
    """A scripted provider, installed as `scripted:demo`, the only one: `scripted(step, ...)`."""

    def play(*steps):
        provider = ScriptedProvider(steps, model="demo")
        install(ProviderPlugin(kind="scripted", create=lambda model, **options: provider, default_model="demo"))

        return provider

    return play


@pytest.fixture
def press_ctrl_c():
    """An async function that interrupts the main thread as soon as that waits for the background loop."""
    main = threading.main_thread().ident

    async def press():
        while sys._current_frames()[main].f_code.co_name != "wait":
            await anyio.lowlevel.checkpoint()

        signal.pthread_kill(main, signal.SIGINT)

    return press


class Terminal:
    """A command that runs on a pseudo terminal. What it shows is waited for, never slept for."""

    def __init__(self, *command, env=None, columns=100):
        self._master, slave = pty.openpty()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.shown = ""
        self._seen = 0
        environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "30"} | (env or {})
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
        )
        os.close(slave)

    def wait_for(self, pattern):
        """Block until the text after the last match holds `pattern`; returns the match."""
        while True:
            plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.shown)
            match = re.compile(pattern).search(plain, self._seen)

            if match:
                self._seen = match.end()
                return match

            assert self._read(), f"ended without {pattern!r}: {plain[self._seen :]!r}"

    def type(self, text):
        os.write(self._master, text.encode())

    def wait_for_exit(self):
        while self._read():
            pass

        return self.process.wait(timeout=60)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def _read(self):
        ready, _, _ = select.select([self._master], [], [], 90)
        assert ready, f"nothing new for 90 s after {self.shown[-500:]!r}"

        try:
            piece = os.read(self._master, 65536)
        except OSError:  # Linux says so when the other side is closed
            return False

        self.shown += self._decoder.decode(piece)

        return bool(piece)


@pytest.fixture
def terminal():
    opened = []

    def start(*command, **options):
        opened.append(Terminal(*command, **options))

        return opened[-1]

    yield start

    for one in opened:
        one.close()
