"""``python -m tests.faults.jumping_clock ARGV...``: run cachesim under a clock whose time of day jumps a day back and
forth. The monotonic clock is as always."""

from __future__ import annotations

import sys
import time
from itertools import cycle

DAY = 86_400.0
_jumps = cycle((0.0, DAY, -DAY))
_now = time.time


def jumping() -> float:
    """Return a time of day that jumps."""
    return _now() + next(_jumps)


if __name__ == "__main__":
    time.time = jumping
    from cachesim.cli.main import main

    sys.exit(main(sys.argv[1:]))
