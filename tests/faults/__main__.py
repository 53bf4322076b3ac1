"""``python -m tests.faults [WORD...]``: inject the faults and print the results and processes left over. Exit code 1 if
any result differs from the expected result.

``python -m tests.faults --matrix [COMMAND...]``: inject the faults that every command must survive, and print a
Markdown table of exit codes.

``python -m tests.faults --signals [COMMAND...]``: send each signal that ends a command, once and twice, and print a
Markdown table of the seconds until the command has ended.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Iterable

from tests.faults import matrix, signals
from tests.faults.commands import TABLE
from tests.faults.surroundings import missing
from tests.faults.table import FAULTS, happen, possible


def main(words: list[str]) -> int:
    """Inject the faults whose names contain any of the words, or all faults without words."""
    if why := possible():
        print(why)
        return 2
    if words[:1] == ["--matrix"]:
        faults = [fault for fault in matrix.FAULTS if not matrix.possible(fault)]
        return printed(matrix.markdown(words[1:] or list(TABLE), faults))
    if words[:1] == ["--signals"]:
        return printed(signals.table(words[1:]))
    bad = 0
    print(f"{'fault':36} {'exit':>12} {'left':>4} {'s':>6}  what survived")
    for name in FAULTS:
        if words and not any(word in name for word in words):
            continue
        if why := possible(name) or missing(name):
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


def printed(lines: Iterable[str]) -> int:
    """Print the lines of a table as they are known. Return 1 if a cell is wrong."""
    is_wrong = False
    for line in lines:
        print(line, flush=True)
        is_wrong |= "WRONG" in line
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
