"""CPU of `import simulacra` beside that of `import openai`, each in fresh interpreters, median of several.

uv run python tests/bench/import_cost.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys

ROUNDS = 11
PROGRAM = "import time; start = time.process_time(); import {}; print(time.process_time() - start)"


def milliseconds(module: str) -> float:
    command = [sys.executable, "-c", PROGRAM.format(module)]

    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) * 1e3


def main() -> None:
    rounds = [(milliseconds("simulacra"), milliseconds("openai")) for _ in range(ROUNDS)]
    ours, theirs = (statistics.median(column) for column in zip(*rounds, strict=True))
    sys.stdout.write(f"import simulacra {ours:.0f} ms, import openai {theirs:.0f} ms, ratio {ours / theirs:.2f}\n")


if __name__ == "__main__":
    main()
