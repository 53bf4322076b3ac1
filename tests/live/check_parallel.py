"""``python -m tests.live.check_parallel``: test of section "parallel" of ``cachesim check`` on real servers.

Each row is a server with its flags and the properties that must fail on b11549. The same flags on b11549 with all
repairs (``repairs.toml``) must raise no alarm. Exit code 1 if a row is not as expected. ``--only-repaired`` with
``--rounds N`` is the campaign for false alarms.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import NamedTuple

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.http_check.dialect import identify_server
from cachesim.tools.conformance.http_check.http_client import Http
from cachesim.tools.conformance.http_check.suite import CheckOptions, check
from cachesim.tools.live.llama_server.gguf_models import find_model
from tests.live import build
from tests.live.__main__ import CACHE
from tests.live.check_server import started
from tests.live.worlds import write_models

BUILDS = ("b11549", "b11549-repaired")
SHARED = Path("../shared/models")


class Row(NamedTuple):
    """A server. ``fails``: properties of which at least one must fail on b11549, () = none may; ``shows``: text that
    its finding has."""

    what: str
    model: str
    flags: tuple
    fails: tuple
    context: int = 4096
    shows: str = ""


SINGLE = ("branch", "prefix", "repeat", "append", "burst", "answers")
UNIFIED = ("-np", 2, "-kvu", "-b", 64, "-ub", 16)
FULL, GAP = "Context size has been exceeded", "Invalid input batch"
ROWS = (
    Row("D2: a request for a busy slot", "A", (), ("burst",)),
    Row("D2: one slot", "A", ("-np", 1), ("burst",)),
    Row("D1 between conversations: hybrid", "GA", (), SINGLE),
    Row("D1 between conversations: recurrent", "S", (), SINGLE),
    Row("tried-batch: window, unified cells", "W32 A", ("-np", 2, "-kvu", "-b", 512, "-ub", 16), ("branch",), 2048),
    Row("D2: convolution and window", "C W32", (), ("burst",)),
    Row("waiting-cells: a completion that waits", "A", (*UNIFIED, "--cache-ram", 0), ("answers",), 256, FULL),
    Row("D23: a completion copied early", "llama", ("-np", 3, "-kvu", "-b", 60, "-ub", 20), ("answers",), 512, GAP),
    Row("shared-ring: completions fill a window", "W8 A", ("-np", 2, "-kvu", "-b", 64, "-ub", 64), ("answers",), 2304,
        FULL),
    Row("late-copy: cells per slot", "AA", ("-np", 2, "-no-kvu", "-b", 64, "-ub", 16), ("burst", "branch"), 1024),
    Row("drafts: MTP head", "qwen35-GA+M", ("--spec-type", "draft-mtp"), (*SINGLE, "drafts")),
    Row("drafts: n-grams", "A", ("--spec-type", "ngram-simple"), ("burst",)),
    Row("D23: 2-D positions", "qwen2vl", ("-np", 2, "-kvu", "-b", 60, "-ub", 20), ("new",), 512),
)  # fmt: skip


def main(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.live.check_parallel", description=__doc__)
    parser.add_argument("--models", type=Path, default=CACHE / "models")
    parser.add_argument("--row", type=int, action="append", help="rows to run, from 0 (default: all)")
    parser.add_argument("--rounds", type=int, default=10, help="drawn rounds of interleaved conversations")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1, help="runs of each row, each with the next seed")
    parser.add_argument("--requests", type=int, default=3000, help="limit on requests to a server")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--only-repaired", action="store_true", help="run only the repaired server")
    only.add_argument("--only-released", action="store_true", help="run only the released server")
    args = parser.parse_args(argv)
    write_models(args.models)
    commits = BUILDS[args.only_repaired : 1 if args.only_released else 2]
    bad = rounds = 0
    for number, row in enumerate(ROWS):
        for commit in commits if args.row is None or number in args.row else ():
            runs = [look(build.binary(commit), commit, row, args, args.seed + step) for step in range(args.seeds)]
            good = sum(one for one, _ in runs)
            bad, rounds = bad + (good < len(runs)), rounds + sum(one for _, one in runs) * (commit == BUILDS[1])
            print(f"{good} of {len(runs)} runs as expected: {row.what}, {commit}", flush=True)
    print(f"{rounds} parallel histories on {BUILDS[1]}; {bad} rows not as expected")
    return int(bool(bad))


def look(server, commit, row, args, seed):
    """Run a row on a server and print it; return True if it is as expected, and the number of parallel histories."""
    gguf = SHARED / f"tiny-{row.model}.gguf"
    gguf = gguf if row.model.islower() else args.models / find_model(row.model).file
    start = time.monotonic()
    with started(server, gguf, *row.flags, context=row.context) as url:
        http = Http(url, 5, args.requests)
        try:
            options = CheckOptions(("parallel",), rounds=args.rounds, seed=seed)
            found = check(http, identify_server(http), options)
        except BadInput as why:
            print(f"BAD {row.what:<46} {commit}: {why}", flush=True)
            return False, 0
        finally:
            http.close()
    failed = {one.name: one for one in found.report.results if one.state == "failed"}
    wanted = row.fails if commit == BUILDS[0] else ()
    findings = [failed[name].finding for name in wanted if name in failed]
    shown = any(row.shows in text for one in findings for text in (one.got, *one.notes))
    good = shown if wanted else not failed
    open_ = [f"{one.name}: {one.why}" for one in found.report.results if one.state == "undecided"]
    histories = found.report.counts["parallel"].histories if "parallel" in found.report.counts else 0
    lines = "  ".join(f"{name}: {one.finding.line} ({one.finding.got[:60]})" for name, one in failed.items())
    print(f"{'ok ' if good else 'BAD'} {row.what:<46} {commit:<16} {found.requests:>6,} requests "
          f"{time.monotonic() - start:5.0f} s  {histories} histories  tolerance {found.tolerance:.2g}  "
          f"{lines or 'no alarm'}  {json.dumps(open_) if open_ else ''}  {found.server_end.upper()}",
          flush=True)  # fmt: skip
    return good, histories


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
