"""Comparison of all commands over the corpus with ``python -OO``, or with the code of another checkout.

Run: ``python -m tests.optimized [--every N] [--baseline TREE]``. ``-OO`` strips docstrings and assertions. With
``--baseline``, the code, the corpus and the data of TREE are used instead, and outputs are compared except for
``MASKED``. Two processes run all command lines, and their outputs are compared line by line through digests. Exit code
1 if anything differs.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import os
import re
import subprocess
import sys
from argparse import ArgumentParser
from contextlib import redirect_stderr, redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import Any, Iterator

from cachesim.engines.registry import ENGINES, profiles
from cachesim.engines.rule import RULES
from cachesim.scenarios.corpus import corpus_root
from cachesim.scenarios.load import find, load
from cachesim.scenarios.schema import Scenario

HERE = Path(__file__).resolve().parents[2]
SHARED = HERE.parent / "shared"
REPLAYED = HERE / "tests" / "data"
MASKED = {
    r"(?m)^ *code +\S+\.py:\d+ *$": "location of a rule's code, as printed by `explain`",
    r"cachesim-\w{8}": "names of temporary folders",
}
"""Patterns that may differ from a baseline, with descriptions."""


def command_lines(every: int) -> Iterator[list[str]]:
    """Yield all command lines, a file of the corpus at a time; rules, rule sets and recordings last."""
    for file in find([corpus_root()])[::every]:
        yield from _about(load(file, frozenset(profiles())))
    yield from (["explain", name] for name in sorted(RULES))
    yield from (["profiles", "show", name] for name in profiles())
    yield from (["profiles", "diff", a, b] for a, b in pairwise(profiles()) if a.split("@")[0] == b.split("@")[0])
    yield from (["replay", str(file), "--mode", "provenance"] for file in sorted(REPLAYED.rglob("*.json"))[::every]
                if file.parent.name != "mlx_lm")  # fmt: skip
    yield from (["fuzz", "-p", name, "--examples", "3", "--seed", "1"] for name in profiles())
    yield from ([*argv.split()] for argv in PLAIN)
    yield from (["options", name] for name in ENGINES)
    yield from (["import", str(log)] for log in sorted((SHARED / "logs").glob("*.log"))[::every])
    yield from (["replay", str(one), "--mode", "provenance", "--json"]
                for one in sorted((SHARED / "traces").glob("*/"))[::every])


PLAIN = (
    "", "--help", "profiles list", "scenarios", "lesson", *(f"lesson {n}" for n in range(1, 8)),
    "run S40.A60/B80/S.C50/S.A --model qwen3-next -np 2", "run S40.A60/nonsense", "run nothing-like-this",
    "run S400.A60/S.B70/S.A --model GGGA --json -v", "advise S40.A60/B80/S.C50/S.A --model GGGA -np 1",
    "memory qwen3-next --memory 16GiB -np 4 -kvu",
    "advise --for agents --model qwen3 --memory 8 --clients 2 tests/workloads/data/chat.jsonl --json",
    "shrink S40.A20/S.A>3/B9@0/S.A.C5 -p ik_llama@1889-base --model GA --tries 40",
    "repair S40.A20/S.A>3/B9@0/S.A.C5 -p ik_llama@1889-base --model GA",
    "fuzz -p ik_llama@1889-base --model GA --examples 10 --json", "explain pos_min", "explain n_past --json",
    *(f"export llama-24143-entry-removed-hybrid --to {form}" for form in ("script", "curl", "pytest", "issue",
    "toml")),
)


def _about(scenario: Scenario) -> Iterator[list[str]]:
    yield ["run", scenario.id]
    yield ["run", scenario.id, "--json", "--provenance"]
    yield ["why", scenario.id, str(len(scenario.steps) - 1)]
    yield ["bisect", scenario.id]
    yield ["advise", scenario.id, "--json"]
    yield ["run", repr(scenario), "--model", scenario.model, "-p", scenario.profiles[0]]
    for a, b in pairwise(scenario.profiles):
        yield ["diff", scenario.id, "-p", a, "-p", b]


def entry() -> Any:
    """Return the main function of the command, wherever this checkout defines it."""
    package = importlib.import_module("cachesim.cli")
    found = getattr(package, "main", None)
    return found if callable(found) else importlib.import_module("cachesim.cli.main").main


def masked(text: str) -> str:
    """Return a text for comparison, without ``MASKED`` and the path of the checkout in which the command runs."""
    text = text.replace(str(Path.cwd()), "")
    for pattern in MASKED:
        text = re.sub(pattern, "", text)
    return text


def digests(every: int) -> None:
    """Print each command line with its exit code and the digest of its output."""
    main = entry()
    for argv in command_lines(every):
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(out):
            try:
                code: object = main(argv)
            except SystemExit as end:
                code = end.code
        print(code, hashlib.sha256(masked(out.getvalue()).encode()).hexdigest()[:16], *argv, flush=True)


def compare(every: int, baseline: Path | None) -> int:
    """Run both processes and return the exit code."""
    other = f"with {baseline}" if baseline else "under -OO"
    processes = [
        subprocess.Popen([sys.executable, *flags, __file__, "--every", str(every), "--digests"], cwd=tree,
                         env={**os.environ, "PYTHONPATH": str(tree)}, stdout=subprocess.PIPE, text=True)
        for flags, tree in (([], HERE), ([] if baseline else ["-OO"], baseline or HERE))
    ]  # fmt: skip
    differ = count = 0
    codes: dict[str, int] = {}
    streams = [process.stdout for process in processes]
    for plain, stripped in zip(*streams, strict=True):  # type: ignore[arg-type]
        count += 1
        code = plain.split()[0]
        codes[code] = codes.get(code, 0) + 1
        if plain != stripped:
            differ += 1
            print(f"here: {plain}{other}: {stripped}", flush=True)
    ended = [process.wait() for process in processes]
    shown = ", ".join(f"{number} with exit code {code}" for code, number in sorted(codes.items()))
    print(f"{count} command lines ({shown}): {differ} with different output {other}")
    return int(bool(differ) or any(ended) or not count or "70" in codes)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="use only every Nth file (default 1)")
    parser.add_argument("--digests", action="store_true", help="print the digests of this interpreter")
    parser.add_argument("--baseline", type=Path, help="checkout to compare with")
    args = parser.parse_args()
    if args.digests:
        digests(args.every)
    else:
        sys.exit(compare(args.every, args.baseline and args.baseline.resolve()))
