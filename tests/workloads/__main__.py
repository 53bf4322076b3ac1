"""The whole table: cells of all sessions, then the page and its pictures. What was played before is not played again.

    python -m tests.workloads SESSIONS [--out LINES] [--jobs N] [--agree SESSIONS]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Sequence

from cachesim.workloads.play import BILLED, COUNTED, JUDGED
from tests.workloads import agree, page
from tests.workloads.cells import arguments, play_left
from tests.workloads.grid import TOGETHER, WITHOUT

LINES = "workloads/lines.jsonl"
FIRST = ("default", WITHOUT)
UNSCALED = ("trace_0012", "trace_0462", "trace_0576", "trace_0646", "trace_0650")
"""Sessions that are played unscaled, too."""
PASSES: Sequence[Sequence[str]] = (
    ("--how", JUDGED, *(word for one in FIRST for word in ("--settings", one))),
    ("--how", BILLED, "--settings", "default", "--kinds", "hybrid"),
    ("--how", JUDGED, "--together", str(TOGETHER)),
    ("--how", COUNTED, "--settings", "default", "--kinds", "hybrid", "--scale", "1",
     *(word for name in UNSCALED for word in ("--only", name))),
    ("--how", COUNTED, "--settings", "default", "--kinds", "hybrid", "--scale", "8", "--rules", "latest", "--rules",
     "ik main", "--rules", "mlx 0.32.2"),
    ("--how", JUDGED),
)
"""What is played, the first first: a table that is interrupted has all rule sets, then all settings."""


def main(argv: Sequence[str]) -> None:
    """Play, then write."""
    parser = argparse.ArgumentParser(prog="tests.workloads")
    parser.add_argument("sessions")
    parser.add_argument("--out", default=LINES)
    parser.add_argument("--jobs", default="1")
    parser.add_argument("--agree", default="", help="folder of sessions with sub-agents, played scaled and unscaled")
    args = parser.parse_args(argv)
    out = Path(args.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    for one in PASSES:
        words = [args.sessions, "--out", args.out, "--jobs", args.jobs, *one]
        play_left(arguments("tests.workloads").parse_args(words))
    both = out.with_name("agree.jsonl")
    if args.agree:
        agree.main([args.agree, "--out", str(both)])
    page.main([args.out, "--agree", str(both)])


if __name__ == "__main__":
    main(sys.argv[1:])
