"""The process that holds the model: started once, loopback only, never longer there than its parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
from simulacra_local import server as local_server
from simulacra_local.model import ModelFile, find_model
from simulacra_local.server import ServerSettings, require_runtime, start_server, started, stop_servers

from simulacra.errors import ConfigurationError, ServerError

PROGRAM = """
import os, sys
from simulacra_local.model import find_model
from simulacra_local.server import ServerSettings, start_server

model = find_model()
settings = ServerSettings(path=str(model.path), alias=model.alias, context_window=512, parallel=1)
server = start_server(settings, model).result()
print(server.pid, flush=True)
{then}
"""


def settings_for(model, **changes):
    return ServerSettings(
        **{"path": str(model.path), "alias": model.alias, "context_window": 512, "parallel": 1} | changes
    )


@pytest.fixture(scope="module")
def model():
    return find_model()


@pytest.fixture
def server(model):
    return start_server(settings_for(model), model).result()


def get(url, key=None):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})

    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as response:
        return json.load(response)


def test_it_serves_on_loopback_on_a_free_port(server):
    assert server.url.startswith("http://127.0.0.1:")
    assert get(f"{server.url}/v1/models", server.api_key)["data"][0]["id"] == "smollm2"


def test_a_stranger_on_this_machine_is_refused(server):
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(f"{server.url}/v1/models")

    refused.value.close()
    assert refused.value.code == 401


def test_threads_that_ask_at_once_share_one_start(model):
    stop_servers()

    with ThreadPoolExecutor(8) as pool:
        starts = list(pool.map(lambda _: start_server(settings_for(model), model), range(8)))

    assert len({start.result().pid for start in starts}) == 1


def test_other_settings_get_a_process_of_their_own(model, server):
    other = start_server(settings_for(model, context_window=640), model).result()

    assert other.pid != server.pid
    assert server.context_window < 640 <= other.context_window


def test_a_context_window_beyond_the_model_is_told_as_what_it_is(model):
    assert start_server(settings_for(model, context_window=9000), model).result().context_window == 8192


def test_a_killed_process_is_noticed_and_replaced(model, server):
    os.kill(server.pid, signal.SIGKILL)

    assert server.wait_for_end(60)
    assert not server.is_running
    assert "exit code -9" in server.obituary()

    successor = start_server(settings_for(model), model).result()

    assert successor.pid != server.pid
    assert successor.is_running


def test_stop_ends_the_process(server, wait_until_gone):
    stop_servers()

    wait_until_gone(server.pid)
    assert not server.is_running


@pytest.mark.parametrize("then", ["sys.stdin.read()", "os.kill(os.getpid(), 9)", "pass", "raise SystemExit(3)"])
def test_it_leaves_when_its_parent_does(then, wait_until_gone):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(then=then)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        pid = int(parent.stdout.readline())

        if "stdin" in then:
            parent.kill()

    wait_until_gone(pid)


def test_it_leaves_though_a_forked_sibling_holds_its_pipe(wait_until_gone):
    program = PROGRAM.replace(
        "server = start_server",
        """import subprocess
original, pipes = subprocess.Popen, []
def spy(*args, **kwargs):
    process = original(*args, **kwargs)
    pipes.append(os.dup(process.stdin.fileno()))
    return process
subprocess.Popen = spy
server = start_server""",
    )
    # A C library's fork: no hook of Python's runs, so the copy of the pipe stays open in the sibling.
    then = """
import ctypes
if ctypes.PyDLL(None).fork() == 0:
    sys.stdin.read()
    os._exit(0)
os.kill(os.getpid(), 9)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program.format(then=then)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        wait_until_gone(int(parent.stdout.readline()))
        parent.stdin.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_starts_its_own():
    then = """
if os.fork() == 0:
    own = start_server(settings, model).result()
    print(own.pid, flush=True)
    os._exit(0)
os.wait()
print(server.is_running, flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM.format(then=then)], check=False, capture_output=True, text=True
    )
    mine, forked, still_running = done.stdout.split()

    assert (done.returncode, done.stderr) == (0, "")
    assert mine != forked
    assert still_running == "True"


def test_nothing_of_the_runtime_reaches_the_users_output():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM.format(then="")], check=False, capture_output=True, text=True
    )

    assert done.stdout.strip().isdecimal()
    assert done.stderr == ""


def test_a_broken_model_file_is_told_in_the_runtimes_own_words(tmp_path, model):
    path = tmp_path / "cut.gguf"

    with model.path.open("rb") as whole:
        path.write_bytes(whole.read(3_000_000))

    broken = find_model(str(path))

    with pytest.raises(ConfigurationError, match=r"cannot load .*cut.gguf.*corrupted or incomplete"):
        start_server(settings_for(broken), broken).result()


def test_a_failed_start_is_tried_again(tmp_path, model):
    path = tmp_path / "later.gguf"
    path.write_bytes(b"GGUF")
    later = ModelFile(path=path)

    with pytest.raises(ConfigurationError):
        start_server(settings_for(later), later).result()

    path.unlink()
    path.symlink_to(model.path)

    assert start_server(settings_for(later), later).result().is_running


def test_a_process_that_dies_while_loading_is_told(model, tmp_path, monkeypatch):
    stop_servers()
    crash = tmp_path / "crash.py"
    crash.write_text("import os, sys; print('out of luck', file=sys.stderr, flush=True); os.abort()", encoding="utf-8")
    monkeypatch.setattr(local_server, "_CHILD", crash)

    with pytest.raises(ServerError, match=r"could not start: .*exit code -6 \(out of luck\)") as raised:
        start_server(settings_for(model, context_window=1024), model).result()

    assert not raised.value.retryable


def test_a_missing_runtime_names_the_command(monkeypatch):
    monkeypatch.setattr(local_server, "find_spec", lambda name: None)

    with pytest.raises(ConfigurationError, match="pip install xllamacpp"):
        require_runtime()


def test_a_runtime_that_cannot_be_imported_names_the_command(model, tmp_path, monkeypatch):
    stop_servers()
    (tmp_path / "xllamacpp.py").write_text("import no_such_library_here", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(ConfigurationError, match=r"no_such_library_here.*pip install xllamacpp"):
        start_server(settings_for(model, context_window=1024), model).result()


def test_files_in_the_users_folder_do_not_stand_in_for_modules(model, tmp_path, monkeypatch):
    stop_servers()
    (tmp_path / "secrets.py").write_text("raise RuntimeError('shadowed')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    assert start_server(settings_for(model, context_window=768), model).result().is_running


@pytest.mark.anyio
async def test_waiting_for_a_start_leaves_the_loop_free(model):
    stop_servers()
    turns = 0

    async def count():
        nonlocal turns

        while turns < 100:
            turns += 1
            await anyio.lowlevel.checkpoint()

    start = start_server(settings_for(model), model)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        await started(start)
        assert turns == 100


@pytest.mark.anyio
async def test_a_cancelled_wait_settles_while_the_start_goes_on(model):
    stop_servers()
    start = start_server(settings_for(model), model)

    with anyio.CancelScope() as scope:
        scope.cancel()
        await started(start)

    assert scope.cancelled_caught
    assert (await started(start)).is_running
