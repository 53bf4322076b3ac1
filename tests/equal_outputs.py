"""Outputs of two commits, compared byte by byte: ``python -m tests.equal_outputs COMMIT [WORD ...]``.

The commands run every bundled scenario, and import every log, file of request bodies and excerpt of ``../shared``. With
words, only commands that contain one of them are compared. Prints the commands whose exit code, output or errors
differ; the exit code is 1 if there are any. A refactoring changes none.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Iterator, Sequence

from cachesim.scenarios.corpus import corpus_files
from tests.bench.checkout import Unusable, other_commit
from tests.shared import ROOT, SHARED, absent

LOGS = SHARED / "logs"
BODIES = SHARED / "bodies"
EVERY_SCENARIO = (["run", "--json"], ["why"], ["export", "--to", "toml"])
EVERY_LOG = (["import"], ["import", "--json", "-v"])
PROGRAM = """
import contextlib, hashlib, io, json, os, sys
from cachesim.cli.main import main
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except BaseException as error:
            code = repr(error)
    text = f"{code}\\n{out.getvalue()}\\n{err.getvalue()}".replace(os.getcwd(), "")
    print(hashlib.sha256(text.encode()).hexdigest(), file=sys.__stdout__, flush=True)
"""
"""Reads commands from stdin and prints a digest for each."""
JOBS = 2


def commands() -> Iterator[list[str]]:
    """Yield the commands."""
    for name in corpus_files():
        yield from ([words[0], name, *words[1:]] for words in EVERY_SCENARIO)
    for file in sorted([*LOGS.rglob("*.log"), *LOGS.rglob("*.txt"), *BODIES.glob("*.jsonl")]):
        yield from ([words[0], str(file), *words[1:]] for words in EVERY_LOG)


def digests(root: Path, python: Path, chosen: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a digest of the results of each command in a checkout, "" if the process ended before it."""
    running = [_started(root, python, chosen[job::JOBS]) for job in range(JOBS)]
    try:
        for number in range(len(chosen)):
            output = running[number % JOBS].stdout
            assert output is not None
            yield output.readline()
    finally:
        for process in running:
            process.kill()
            process.communicate()


def _started(root: Path, python: Path, chosen: Sequence[Sequence[str]]) -> subprocess.Popen[str]:
    """Start a process that runs these commands in a checkout."""
    environment = {"PYTHONPATH": str(root), "COLUMNS": "80"}
    process = subprocess.Popen([python, "-P", "-c", PROGRAM], cwd=root, text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, env=environment)  # fmt: skip
    assert process.stdin is not None
    with suppress(BrokenPipeError):              # it ended before it read them
        process.stdin.write(json.dumps(chosen))
        process.stdin.close()
    process.stdin = None
    return process


def main(argv: Sequence[str] | None = None) -> int:
    """Compare and print; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.equal_outputs", description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("words", nargs="*")
    args = parser.parse_args(argv)
    if not LOGS.is_dir():
        print(absent(LOGS), file=sys.stderr)
    chosen = [words for words in commands() if not args.words or any(one in " ".join(words) for one in args.words)]
    count = 0
    try:
        with other_commit(ROOT, args.commit) as (tree, python):
            ours = digests(ROOT, Path(sys.executable), chosen)
            for words, here, there in zip(chosen, ours, digests(tree, python, chosen), strict=True):
                if not here or here != there:
                    count += 1
                    print("differs: cachesim", *words, flush=True)
    except Unusable as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    print(f"{len(chosen)} commands, {count} differ")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
