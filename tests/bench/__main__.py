"""``python -m tests.bench [--against COMMIT] [--record ISSUE] [WORD ...]``: rows whose names contain a word, or all.

With ``--against`` every row runs here and there in turn. Without it the table has the figures of this checkout. Exit
code 2 with one line if the comparison cannot be made.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Iterator, Mapping, Sequence

from tests.bench import checkout, inputs, results, table
from tests.bench.measure import Measured, Side, environment, measure
from tests.bench.rows import ROWS, Row
from tests.bench.spellings import NoCounterpart
from tests.shared import ROOT

PAIRS = ((1.0, 5), (3.0, 3), (15.0, 2))
"""Up to so many CPU seconds of a run, on the slower side -> number of pairs; 1 above."""
Places = Mapping[str, str]


def pairs_of(first: Measured, most: int) -> int:
    """Return the number of pairs for a row, by a run of a side."""
    if first.end:
        return 1
    return min(most, next((pairs for seconds, pairs in PAIRS if first.seconds <= seconds), 1))


def compare(row: Row, ours: Side, theirs: Side | None, places: Places, most: int) -> table.Comparison:
    """Measure a row on both sides in turn. A row that does not end on a side is replaced by its smaller one."""
    here, there = [measure(row, ours, places)], list[Measured]()
    pairs = pairs_of(here[0], most)
    number = 0
    while number < pairs:
        if number:
            here.append(measure(row, ours, places))
        if theirs is not None and not here[-1].end:
            try:
                there.append(measure(row, theirs, places))
            except NoCounterpart as reason:
                return table.Comparison(row.name, here, note=f"{table.ABSENT}: {reason}")
            if there[-1].is_refused:
                return table.Comparison(row.name, here, note=f"{table.ABSENT}: {there[-1].end}")
            pairs = min(pairs, pairs_of(there[-1], most))
        if any(side and side[-1].end for side in (here, there)):
            if row.instead is not None:
                return compare(row.instead, ours, theirs, places, most)
            break
        number += 1
    return table.Comparison(row.name, here, there)


def compile_package(side: Side) -> None:
    """Compile the package, so that the first run of a side is like the others. pip compiled the packages that it
    needs."""
    side.folder.mkdir()
    words = [str(side.python), "-m", "compileall", "-q", "cachesim"]
    subprocess.run(words, cwd=side.root, env=environment(), stdout=subprocess.DEVNULL, check=False)


def chosen(words: Sequence[str]) -> list[Row]:
    """Return the rows whose names contain one of the words; all without words."""
    return [row for row in ROWS if not words or any(word in row.name for word in words)]


def names_of(rows: Sequence[Row]) -> list[str]:
    """Return the names of the lines of the table that rows have."""
    names = []
    for row in rows:
        names.append(row.name)
        if row.first_line:
            names.append(f"{row.name}{table.FIRST_LINE}")
    return names


def measure_rows(rows: Sequence[Row], ours: Side, theirs: Side | None, most: int) -> Iterator[table.Comparison]:
    """Yield the comparison of each row, and of its first line if this is a row, too; progress goes to stderr."""
    places = inputs.places(ours.folder)
    for number, row in enumerate(rows, 1):
        print(f"{number} of {len(rows)}: {row.name}", file=sys.stderr, flush=True)
        found = compare(row, ours, theirs, places, most)
        yield found
        if row.first_line:
            yield found.until_first_line()


def bench(args: argparse.Namespace, root: Path = ROOT) -> int:
    """Measure and print. Raise Unusable if the other commit cannot be measured."""
    rows = chosen(args.rows)
    if not rows:
        raise checkout.Unusable(f"no row contains {' or '.join(args.rows)}: {', '.join(row.name for row in ROWS)}")
    if args.record and not args.against:
        raise checkout.Unusable("--record needs --against COMMIT")
    with checkout.signals_raised(), ExitStack() as stack:
        theirs = None
        commit = ""
        if args.against:
            checkout.require_clean(root)
            commit = checkout.find_commit(root, args.against)
            tree, python = stack.enter_context(checkout.other_commit(root, commit))
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="cachesim-bench-")))
        ours = Side("this commit", root, Path(sys.executable), folder / "ours")
        compile_package(ours)
        if args.against:
            theirs = Side(args.against, tree, python, folder / "theirs")
            compile_package(theirs)
        print(table.header(args.against), flush=True)
        done = []
        for row in measure_rows(rows, ours, theirs, args.pairs):
            done.append(row)
            print(table.line(row, bool(args.against)), flush=True)
            if args.record:
                results.record(results.RESULTS, args.record, commit, done, names_of(ROWS))
        print(*table.summary(done, args.against), sep="\n")
    return 0


def main(argv: Sequence[str]) -> int:
    """Run the bench; return the exit code."""
    parser = argparse.ArgumentParser(prog="tests.bench")
    parser.add_argument("rows", nargs="*", metavar="WORD", help="rows whose names contain the word (default: all)")
    parser.add_argument("--against", default="", metavar="COMMIT", help="commit to compare with")
    parser.add_argument("--record", default="", metavar="ISSUE", help="issue whose column results.md gets")
    parser.add_argument("--pairs", type=int, default=5, metavar="N", help="most pairs of a row (default 5)")
    try:
        return bench(parser.parse_args(argv))
    except checkout.Unusable as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
