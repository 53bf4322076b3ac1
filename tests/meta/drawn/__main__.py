"""Draws faults over the whole package, plants them, and prints which tests find them.

Run: make meta-drawn ARGS="--seed 1". An interrupted run goes on where it stopped: results lie in a file of JSON lines.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from cachesim.base import exits
from cachesim.base.console import complain
from tests.meta.drawn.changes import Source, is_fault
from tests.meta.drawn.copies import LEFT_OUT
from tests.meta.drawn.drawing import DrawnFault, all_faults, drawn
from tests.meta.drawn.results import Results
from tests.meta.drawn.search import STEPS, TOGETHER, Search
from tests.meta.drawn.table import OPEN, SURVIVED, Outcome, lines, outcome
from tests.shared import ROOT

PACKAGE = ROOT / "cachesim"
RESULTS = ROOT / "build" / "drawn-faults.jsonl"


def main(argv: list[str] | None = None) -> int:
    """Run the steps and return the exit code: 1 if a fault survived."""
    args = _arguments(argv)
    if args.all:
        faults = [*possible(args.folder, args.only)]
    else:
        faults = [fault for fault in drawn(PACKAGE, args.faults, args.seed, args.folder) if _has(fault, args.only)]
    if args.list:
        print(*(fault.name for fault in faults), sep="\n")
        return exits.HOLDS
    if not faults:
        complain("nothing planted: no fault has such a name")
        return exits.NOTHING
    with tempfile.TemporaryDirectory(prefix="drawn-") as folder:
        results = Results(args.results, ROOT)
        try:
            if not args.table:
                _run(faults, results, args, Path(folder))
        except KeyboardInterrupt:
            complain(f"interrupted; the same command goes on with the results of {args.results}")
        outcomes = _outcomes(faults, results)
    print(*lines(outcomes), sep="\n")
    kinds = {one.what for one in outcomes.values()}
    return exits.BROKEN if SURVIVED in kinds else exits.UNDECIDED if OPEN in kinds else exits.HOLDS


def possible(folders: Sequence[str], texts: Sequence[str]) -> Iterator[DrawnFault]:
    """Yield every fault of some folders (none = all) whose name contains all the texts, drawn or not."""
    for folder, faults in all_faults(PACKAGE).items():
        if folders and folder not in folders:
            continue
        for fault in faults:
            if _has(fault, texts) and is_fault(Source((PACKAGE / fault.file).read_text("utf-8")), fault.change):
                yield fault


def _has(fault: DrawnFault, texts: Sequence[str]) -> bool:
    return all(text in fault.name for text in texts)


def _arguments(argv: list[str] | None) -> Namespace:
    parser = ArgumentParser(prog="make meta-drawn", description="Plant drawn faults and print which tests find them.")
    parser.add_argument("--seed", type=int, default=1, help="seed of the draw (default 1)")
    parser.add_argument("--faults", type=int, default=240, help="number of faults (default 240)")
    parser.add_argument("--folder", action="append", default=[],
                        help="only faults of this folder, such as judging or tools/run; can be repeated")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT",
                        help="only faults whose name contains this text; can be repeated: all of them")
    parser.add_argument("--all", action="store_true", help="every such fault, drawn or not")
    parser.add_argument("--steps", type=int, default=len(STEPS), metavar="N",
                        help=f"only the first steps of {', '.join(STEPS)} (default all)")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--from", dest="begin", choices=STEPS, default=STEPS[0],
                        help="first step to run (default own); folder repeats the tests of own")
    parser.add_argument("--together", type=int, default=TOGETHER, metavar="N",
                        help=f"faults planted at once after the first step (default {TOGETHER})")
    parser.add_argument("--results", type=Path, default=RESULTS, help=f"file of results (default {RESULTS})")
    parser.add_argument("--list", action="store_true", help="print the faults and plant none")
    parser.add_argument("--table", action="store_true", help="print the results that exist and plant none")
    return parser.parse_args(argv)


def _run(faults: list[DrawnFault], results: Results, args: Namespace, folder: Path) -> None:
    """Run the steps for the faults that have no result, on the tree as it is now: it may change meanwhile."""
    if all(one.what != OPEN for one in _outcomes(faults, results).values()):
        return
    shutil.copytree(ROOT, folder / "tree", ignore=LEFT_OUT)
    now = Results(args.results, folder / "tree")
    search = Search(folder, now, args.jobs, lambda text: print(text, flush=True), args.together)
    for step in STEPS[: args.steps]:
        if step in STEPS[STEPS.index(args.begin) :]:
            search.run(step, [fault for fault, one in _outcomes(faults, now).items() if one.what == OPEN])
    results.read()


def _outcomes(faults: list[DrawnFault], results: Results) -> dict[DrawnFault, Outcome]:
    return {fault: outcome([results.of(fault, step) for step in STEPS]) for fault in faults}


if __name__ == "__main__":
    sys.exit(main())
