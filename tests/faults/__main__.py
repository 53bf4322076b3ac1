"""``python -m tests.faults [WORD...]``: inject the faults and print the results and processes left over. Exit code 1 if
any result differs from the expected result."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.faults.table import FAULTS, happen, possible


def main(words: list[str]) -> int:
    """Inject the faults whose names contain any of the words, or all faults without words."""
    if why := possible():
        print(why)
        return 2
    bad = 0
    print(f"{'fault':36} {'exit':>12} {'left':>4} {'s':>6}  what survived")
    for name in FAULTS:
        if words and not any(word in name for word in words):
            continue
        if why := possible(name):
            print(f"{name:36} not tried: {why}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            row = happen(name, Path(folder))
        codes = ",".join(map(str, row.codes))
        print(f"{name:36} {codes:>12} {row.left:>4} {row.seconds:>6.1f}  {row.survived}", flush=True)
        for wrong in row.wrong:
            print(f"    WRONG {wrong}")
        bad += bool(row.wrong)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
