"""The complete table: cells of all sessions, then the page and its pictures. Cells that exist are not run again.

    python -m tests.workloads SESSIONS [--out LINES] [--jobs N] [--agree SESSIONS]

Sessions with sub-agents (``--agree``) run scaled and unscaled, and under the settings of shared servers.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Sequence

from cachesim.tools.workload.run_cell import BILLED, COUNTED, JUDGED
from tests.workloads import agree, page
from tests.workloads.cells import arguments, play_left
from tests.workloads.grid import TOGETHER, WITHOUT

LINES = "workloads/lines.jsonl"
FIRST = ("default", WITHOUT)
UNSCALED = ("trace_0012", "trace_0462", "trace_0576", "trace_0646", "trace_0650")
"""Sessions that also run unscaled."""
PASSES: Sequence[Sequence[str]] = (
    ("--how", JUDGED, *(word for one in FIRST for word in ("--settings", one))),
    ("--how", BILLED, "--settings", "default", "--kinds", "hybrid"),
    ("--how", JUDGED, "--shared", "--together", str(TOGETHER)),
    ("--how", COUNTED, "--settings", "default", "--kinds", "hybrid", "--scale", "1",
     *(word for name in UNSCALED for word in ("--only", name))),
    ("--how", COUNTED, "--settings", "default", "--kinds", "hybrid", "--scale", "8", "--rules", "latest", "--rules",
     "ik main", "--rules", "mlx 0.32.2"),
    ("--how", COUNTED),
)
"""Steps in order of priority: an interrupted table has all rule sets first, then all settings. Answers are judged
with the default settings, and where sessions share a server."""


def main(argv: Sequence[str]) -> None:
    """Run the cells, then write the page."""
    parser = argparse.ArgumentParser(prog="tests.workloads")
    parser.add_argument("sessions")
    parser.add_argument("--out", default=LINES)
    parser.add_argument("--jobs", default="1")
    parser.add_argument("--agree", default="", help="folder of sessions with sub-agents, run too")
    args = parser.parse_args(argv)
    out = Path(args.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    both, agents = out.with_name("agree.jsonl"), out.with_name("agents.jsonl")

    def play(sessions: str, lines: Path, words: Sequence[str]) -> None:
        play_left(arguments("tests.workloads").parse_args([sessions, "--out", str(lines), "--jobs", args.jobs, *words]))

    for one in PASSES:
        play(args.sessions, out, one)
    if args.agree:
        agree.main([args.agree, "--out", str(both)])
        play(args.agree, agents, ("--how", JUDGED, "--shared"))
    blocks = out.with_name("blocks.jsonl")
    play(args.sessions, blocks, ("--how", COUNTED, "--blocks", "--scale", "16"))
    page.main([args.out, "--blocks", str(blocks), "--agree", str(both), "--agents", str(agents)])


if __name__ == "__main__":
    main(sys.argv[1:])
