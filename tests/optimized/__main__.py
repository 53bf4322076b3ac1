"""Does every command print the same over the corpus under ``python -OO``, which strips docstrings and assertions?

Run: ``python -m tests.optimized [--every N]``. Two processes, each with all command lines; what they print is compared
line by line through digests. Exit code 1 if anything differs.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
from argparse import ArgumentParser
from contextlib import redirect_stderr, redirect_stdout
from itertools import pairwise
from typing import Iterator

from cachesim.cli import main
from cachesim.engines.registry import profiles
from cachesim.engines.rule import RULES
from cachesim.scenarios.corpus import corpus_root
from cachesim.scenarios.load import find, load
from cachesim.scenarios.schema import Scenario
from tests.shared import ROOT

REPLAYED = ROOT / "tests" / "data"


def command_lines(every: int) -> Iterator[list[str]]:
    """All that is tried, a file of the corpus at a time; rules, rule sets and recordings last."""
    for file in find([corpus_root()])[::every]:
        yield from _about(load(file, frozenset(profiles())))
    yield from (["explain", name] for name in RULES)
    yield from (["profiles", "show", name] for name in profiles())
    yield from (["profiles", "diff", a, b] for a, b in pairwise(profiles()) if a.split("@")[0] == b.split("@")[0])
    yield from (["replay", str(file), "--mode", "provenance"] for file in sorted(REPLAYED.rglob("*.json"))[::every]
                if file.parent.name != "mlx_lm")  # fmt: skip
    yield from (["fuzz", "-p", name, "--examples", "3", "--seed", "1"] for name in profiles())
    yield ["profiles", "list"]
    yield ["scenarios"]


def _about(scenario: Scenario) -> Iterator[list[str]]:
    yield ["run", scenario.id]
    yield ["run", scenario.id, "--json", "--provenance"]
    yield ["why", scenario.id, str(len(scenario.steps) - 1)]
    yield ["bisect", scenario.id]
    yield ["try", repr(scenario), "--model", scenario.model, "-p", scenario.profiles[0]]
    for a, b in pairwise(scenario.profiles):
        yield ["diff", scenario.id, "-p", a, "-p", b]


def digests(every: int) -> None:
    """Prints each command line with its exit code and the digest of what it prints."""
    for argv in command_lines(every):
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(out):
            try:
                code: object = main(argv)
            except SystemExit as end:
                code = end.code
        print(code, hashlib.sha256(out.getvalue().encode()).hexdigest()[:16], *argv, flush=True)


def compare(every: int) -> int:
    """Runs both; returns the exit code."""
    told = [
        subprocess.Popen([sys.executable, *flags, "-m", "tests.optimized", "--every", str(every), "--digests"],
                         cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for flags in ([], ["-OO"])
    ]  # fmt: skip
    differ = count = 0
    codes: dict[str, int] = {}
    streams = [one.stdout for one in told]
    for plain, stripped in zip(*streams, strict=True):  # type: ignore[arg-type]
        count += 1
        code = plain.split()[0]
        codes[code] = codes.get(code, 0) + 1
        if plain != stripped:
            differ += 1
            print(f"python:     {plain}python -OO: {stripped}", flush=True)
    ended = [one.wait() for one in told]
    shown = ", ".join(f"{number} with exit code {code}" for code, number in sorted(codes.items()))
    print(f"{count} command lines ({shown}): {differ} print something else under -OO")
    return int(bool(differ) or any(ended) or not count or "70" in codes)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="take every Nth file (default 1)")
    parser.add_argument("--digests", action="store_true", help="print what this interpreter prints")
    args = parser.parse_args()
    if args.digests:
        digests(args.every)
    else:
        sys.exit(compare(args.every))
