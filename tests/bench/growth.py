"""CPU per delta of one streamed turn, from 500 to 8000 deltas: the same number at every length means linear growth.

PYTHONPATH=$HARNESS:$PROJECT/tests/bench $PROJECT/.venv/bin/python growth.py [http://127.0.0.1:8099]
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time

from ours import Chat

LENGTHS = (500, 1000, 2000, 4000, 8000)
ROUNDS = 5


async def measure(url: str) -> None:
    adapter = Chat(url)
    await adapter.run_text("text-500", 5)

    for length in LENGTHS:
        gc.collect()
        started = time.process_time()
        deltas, _ = await adapter.run_text(f"text-{length}", ROUNDS)
        spent = time.process_time() - started
        sys.stdout.write(
            f"{length:6d} deltas  {spent / ROUNDS * 1e3:8.2f} ms/turn  {spent / deltas * 1e6:6.2f} us/delta\n"
        )

    await adapter.close()


if __name__ == "__main__":
    asyncio.run(measure(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8099"))
