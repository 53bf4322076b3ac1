"""``python -m tests.faults [WORD...]``: inject the faults and print the results and processes left over. Exit code 1 if
any result differs from the expected result.

``python -m tests.faults --matrix [COMMAND...]``: inject the faults that every command must survive, and print a
Markdown table of exit codes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.faults import matrix
from tests.faults.commands import TABLE
from tests.faults.table import FAULTS, happen, possible


def main(words: list[str]) -> int:
    """Inject the faults whose names contain any of the words, or all faults without words."""
    if why := possible():
        print(why)
        return 2
    if words[:1] == ["--matrix"]:
        lines = []
        faults = [fault for fault in matrix.FAULTS if not matrix.possible(fault)]
        for line in matrix.markdown(words[1:] or list(TABLE), faults):
            print(line, flush=True)
            lines.append(line)
        return 1 if any("WRONG" in line for line in lines) else 0
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
