"""Replays every folder of recorded traces and says how much of each agrees, verdicts included.

Ends with 1 if a file differs or was not replayed, with 5 if there are no recordings. Run: make replay
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path

from cachesim.base import exits
from cachesim.base.console import complain, show
from cachesim.tools.replay.command import find_traces, replay_all
from cachesim.tools.replay.report import grouped_report, totals
from tests.shared import TRACES

WIDTH = 100            # columns, without a terminal: names of folders are long


def main(argv: list[str] | None = None) -> int:
    """The exit code."""
    parser = ArgumentParser(prog="make replay", description="Replay every folder of recorded traces.")
    parser.add_argument("traces", type=Path, nargs="?", default=TRACES, help=f"folder of folders (default {TRACES})")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="processes to use")
    parser.add_argument("--mode", choices=("none", "provenance", "exact"), default="provenance")
    args = parser.parse_args(argv)
    files = find_traces([args.traces]) if args.traces.is_dir() else []
    if not files:
        complain(f"nothing was replayed: there are no recordings at {args.traces}")
        return exits.NOTHING
    big_first = sorted(files, key=lambda file: (-file.stat().st_size, str(file)))     # the rest is even then
    found, ended = replay_all(big_first, args.mode, args.jobs)
    traces = sorted(found, key=lambda trace: str(trace["file"]))
    show(grouped_report(traces, "folder", lambda trace: _folder(Path(trace["file"]), args.traces)), width=WIDTH)
    if ended is not None:
        complain(f"interrupted: {len(traces)} of {len(files)} files replayed")
        return exits.interrupted(ended)
    sums = totals(traces)
    whole = all(trace["scope"] == "in" for trace in traces)
    agree = sums["steps_agree"] == sums["steps"] and sums["verdicts_agree"] == sums["verdicts"]
    return exits.HOLDS if whole and agree else exits.BROKEN


def _folder(file: Path, root: Path) -> str:
    name = file.parent.relative_to(root).as_posix()
    return root.name if name == "." else name


if __name__ == "__main__":
    sys.exit(main())
