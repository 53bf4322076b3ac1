"""Worker process of the playground: reads a case per line from standard input and writes its result as a line."""

from __future__ import annotations

import os
import signal
import sys

if __name__ == "__main__":               # started by its path, see ``simulator``
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))

from cachesim.base import limits
from cachesim.base.parser_process import bound, end_with_parent, from_line, to_line
from cachesim.tools.playground.case import answer

LIMITS = {limits.NEW_TOKENS: 20_000, limits.SAMPLED_TOKENS: 200, limits.PASSES: 5_000, limits.JUDGED_TOKENS: 200_000,
          limits.PROMPT_TOKENS: 200_000, limits.LAYERS: 16, limits.SLOTS: 16}  # fmt: skip
"""Limits of the memory that a case needs; ``simulator`` limits its time."""
MEMORY = 1024                # address space [MiB]
SLOT_FILES = 1 << 24         # size of a saved slot [bytes]


def main(parent: int, seconds: float) -> None:
    """Answer requests until the input ends. ``parent``: id of the process that started this one; ``seconds``: CPU time
    for a request, after which the system ends this process."""
    bound(MEMORY, SLOT_FILES)
    end_with_parent(parent)
    limits.lift({limit.name: most for limit, most in LIMITS.items()})
    while line := sys.stdin.buffer.readline():
        if hasattr(signal, "setitimer"):                     # not on Windows
            signal.setitimer(signal.ITIMER_PROF, seconds)
        sys.stdout.buffer.write(to_line(answer(from_line(line))))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
