"""Yardstick of recorded logs with slow prompts: what `import` states about them and about excerpts of them.

Run: python -m tests.logs.slow_logs --logs FOLDER [--cuts 4] [-j 2] [--show 20] [--report]. Ends with 1 if a statement
is false or a share is below its limit; with --report only if there are no logs.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Sequence

from cachesim.base.errors import BadInput
from tests.logs.slow_logs.compare import Result, compare
from tests.logs.slow_logs.determined import determine
from tests.logs.slow_logs.people_cuts import people_cuts
from tests.logs.slow_logs.recorded_log import RecordedLog, read_recorded
from tests.logs.slow_logs.report_claims import report_on
from tests.logs.slow_logs.table import Tally, report

WHOLE = "whole"


def judge_lines(log: RecordedLog, lines: Sequence[str], folder: Path) -> Result:
    """Return the result for lines of a log. An importer that refuses them states nothing."""
    file = folder / f"{log.name}.log"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    found = determine(lines)
    try:
        stated = report_on(file)
    except BadInput as refused:
        return Result(outcome="refused", missed=[str(refused)])
    return compare(log, lines, stated, found)


def tally_of(file: Path, cuts: int) -> Tally:
    """Return the counts of a log and of its excerpts."""
    log, tally = read_recorded(file), Tally()
    with TemporaryDirectory() as folder:
        for name, lines in [(WHOLE, list(log.lines)), *people_cuts(log, cuts)]:
            tally.add(log.name, name, judge_lines(log, lines, Path(folder)))
    return tally


def main(argv: list[str] | None = None) -> int:
    """Compare all logs of a folder; return the exit code."""
    parser = ArgumentParser(prog="python -m tests.logs.slow_logs", description="Compare reports with the truth.")
    parser.add_argument("--logs", type=Path, required=True, help="folder of NAME.log and NAME.json")
    parser.add_argument("--cuts", type=int, default=4, help="excerpts of each log (default 4)")
    parser.add_argument("--only", default="", help="names of logs that contain this text")
    parser.add_argument("--show", type=int, default=20, help="false statements and misses to show")
    parser.add_argument("--report", action="store_true", help="only print: limits that are not met are no failure")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="processes")
    args = parser.parse_args(argv)
    files = [file for file in sorted(args.logs.glob("*.json")) if args.only in file.stem]
    total = Tally()
    work = partial(tally_of, cuts=args.cuts)
    with ProcessPoolExecutor(args.jobs) as pool:
        for tally in map(work, files) if args.jobs == 1 else pool.map(work, files):
            total.merge(tally)
    print(report(total, args.show))
    return 0 if files and (args.report or not total.failures()) else 1


if __name__ == "__main__":
    sys.exit(main())
