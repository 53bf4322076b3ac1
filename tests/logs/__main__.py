"""Campaign of the yardstick: excerpts of full logs, the importer's statements about them, and the share that is true.

Run: python -m tests.logs --excerpts 10000 [--only CUT] [--source N] [--show N] [-j 2] [--share 0/4]. Ends with 1 if a
statement is false or a share is below its limit.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, Iterator

from tests.logs.compare import compare
from tests.logs.cuts import CUTS, Excerpt
from tests.logs.excerpts import EACH, excerpts, source_of
from tests.logs.importer import statements
from tests.logs.judged import Result
from tests.logs.tally import Tally, report

CHUNK = 16  # sources of a unit of work


def judge(number: int, shared: bool, only: str) -> Iterator[tuple[Excerpt, Result]]:
    """Yield the excerpts of a source with their results. An importer that raises counts as a false statement."""
    for excerpt in excerpts(number, shared, only):
        yield excerpt, compare(excerpt, statements(excerpt.lines))


def tally_of(numbers: range, only: str = "", shared: bool = True) -> Tally:
    """Return the counts of these sources."""
    tally = Tally()
    for number in numbers:
        for excerpt, result in judge(number, shared, only):
            tally.add(number, excerpt, result)
    return tally


def main(argv: list[str] | None = None) -> int:
    """Run the campaign; return the exit code."""
    parser = ArgumentParser(
        prog="python -m tests.logs", description="Compare statements about excerpts with the truth."
    )
    parser.add_argument("--excerpts", type=int, default=600, help="excerpts, about (default 600)")
    parser.add_argument("--only", choices=sorted(CUTS), default="", help="kind of cut")
    parser.add_argument("--source", type=int, default=-1, help="number of a single source")
    parser.add_argument("--cut", default="", help="with --source: show the excerpt of this cut with all statements")
    parser.add_argument("--show", type=int, default=5, help="false statements and misses to show")
    parser.add_argument("--share", default="0/1", help="part I of N: I/N")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="processes")
    args = parser.parse_args(argv)
    if args.source >= 0:
        return show_source(args.source, args.only, args.cut)
    part, parts = map(int, args.share.split("/"))
    starts = range(0, -(-args.excerpts // EACH), CHUNK)
    chunks = [range(at, at + CHUNK) for number, at in enumerate(starts) if number % parts == part]
    total = Tally()
    work = partial(tally_of, only=args.only)
    with ProcessPoolExecutor(args.jobs) as pool:
        for done in map(work, chunks) if args.jobs == 1 else pool.map(work, chunks):
            total.merge(done)
    print(report(total, args.show))
    return 0 if total.holds else 1


def show_source(number: int, only: str, cut: str) -> int:
    """Print the results of a source, and the excerpts of one cut with the statements."""
    print(source_of(number))
    for excerpt, result in judge(number, True, only):
        print(
            f"{excerpt.cut:<14} {excerpt.logs[0].profile} {len(excerpt.lines)} lines, {len(result.false)} false, "
            f"{result.covered} of {result.cache_lines} covered, due {result.due}"
        )
        if cut and cut in excerpt.cut:
            show_excerpt(excerpt, result)
    return 0


def show_excerpt(excerpt: Excerpt, result: Result) -> None:
    """Print an excerpt with its truth and the statements about it."""
    for number, line in enumerate(excerpt.lines, 1):
        print(f"{number:>4} {line[:200]}")
    tasks = {line.task for origins in excerpt.origins for line in map(excerpt.source, origins)}
    for log in excerpt.logs:
        for task, truth in log.tasks.items():
            if task in tasks:
                numbers: dict[str, Any] = {name: sorted(found) for name, found in truth.numbers.items()}
                print(f"truth of task {task}: {numbers} causes {truth.causes} elsewhere {truth.elsewhere}"[:600])
    for said in statements(excerpt.lines):
        if said["kind"] == "follows":
            print("  said", {name: said[name] for name in ("what", "lines", "slot", "task", "numbers")})
    for wrong in result.false:
        print("  FALSE", wrong.why, {name: wrong.said[name] for name in ("kind", "what", "lines", "task", "numbers")})


if __name__ == "__main__":
    sys.exit(main())
