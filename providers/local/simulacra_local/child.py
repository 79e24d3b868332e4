"""The process that holds the model: a script of its own, so that a native crash ends it and nobody else.

It says one JSON line on its standard output (`url`, `api_key`, `context_window`; or `error` and whether the runtime is
`missing`), serves on loopback, and leaves when its parent does. It is run by path and imports nothing of the engine.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import threading
import urllib.request
from typing import Any

PARENT_POLL = 0.5
PROMPT_CACHE_MIB = 512
ERRORS_ONLY = 1


def leave_at_end_of_input() -> None:
    """The parent holds the other end of standard input for as long as it lives."""
    while os.read(0, 1024):
        pass

    os._exit(0)


def leave_with_parent(parent: int) -> None:
    """A forked sibling may hold the pipe open, so the parent's id is watched too; Windows never changes it.

    A parent-death signal would fire when the *thread* that started this process ends, so there is none. The native
    loader keeps the interpreter's lock: a parent that dies meanwhile is noticed once the model is loaded.
    """
    pause = threading.Event()

    while os.name != "posix" or os.getppid() == parent:
        pause.wait(PARENT_POLL)

    os._exit(0)


def serve(settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Load the model and serve it; returns the server, which runs while it is referred to, and what to tell."""
    import xllamacpp  # type: ignore[import-untyped]  # noqa: PLC0415 -- no types; whether it is there is an answer

    key = secrets.token_urlsafe(32)
    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.model_alias = {settings["alias"]}
    params.n_ctx = settings["context_window"] * settings["parallel"]
    params.n_parallel = settings["parallel"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.api_keys = [key]
    params.port = 0
    params.ui = False
    params.use_jinja = True
    params.verbosity = ERRORS_ONLY
    server = xllamacpp.Server(params)
    url = server.listening_address

    return server, {"url": url, "api_key": key, "context_window": context_window(url, key)}


def context_window(url: str, key: str) -> int:
    """Tokens of one slot: what was asked for, or the most the model was trained on."""
    request = urllib.request.Request(f"{url}/props", headers={"Authorization": f"Bearer {key}"})  # noqa: S310 -- loopback
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    with opener.open(request) as response:
        return int(json.load(response)["default_generation_settings"]["n_ctx"])


def main() -> int:
    settings = json.loads(sys.argv[1])
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    threading.Thread(target=leave_at_end_of_input, daemon=True).start()
    server = None

    try:
        server, told = serve(settings)
    except ImportError as error:
        told = {"error": str(error), "missing": True}
    except Exception as error:  # noqa: BLE001 -- whatever it is, the parent is to tell it
        told = {"error": str(error), "missing": False}

    with answer:
        json.dump(told, answer)

    if server is not None:
        leave_with_parent(settings["parent"])

    return 1


if __name__ == "__main__":
    sys.exit(main())
