"""``python -m tests.live.export_all``: every llama.cpp case of the corpus with a fault, exported and run.

Each scenario that is wrong or loses tokens under the build's rule set becomes a script (``cachesim export --to
script``), which is run with a PATH of only this Python and the real server. It shows the fault, or cannot because a
real server cannot reproduce it (a race, forced drafts, another kind of task, a model that llama.cpp does not support),
or it failed. Exit code 1 after a failure, or if less than 70 % are shown. ``--losses`` runs only the cases that lose
tokens. ``--checkout TREE`` runs each as a server test (``--to llama-server-test``) in that tree of llama.cpp instead;
its requirements must be installed for this Python.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from cachesim.base.errors import BadInput
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_root
from cachesim.scenarios.load import find, load_each
from cachesim.tools.live.llama_server.export.judged_loss import judged_loss
from cachesim.tools.live.llama_server.export.program_text import standalone_script
from cachesim.tools.live.llama_server.export.python_test import server_test
from cachesim.tools.live.llama_server.export.script import make_script
from tests.live import build

SHOWN, NOT_SHOWABLE, FAILED = "shown", "not showable", "failed"
ENOUGH = 0.7                # share of the cases that must be shown; images and index rows cannot be
DELAYS = (0.05, 0.02, 0.005, 0.002, 0.0, 0.0)
"""Delays (seconds per iteration of the server) for the repeated attempts of a case that depends on time or drafts."""
SECONDS = 300
PORTS = itertools.count()


class Case(NamedTuple):
    """Outcome of a scenario. ``why``: reason why it is not shown; ``said``: output of its script."""

    name: str
    outcome: str
    why: str = ""
    said: str = ""


def faulty_scenarios(folder, profile, only_losses=False):
    """Return the scenarios of a folder that are wrong or lose tokens under a profile, of which another rule set reuses
    more; those that it cannot run are omitted."""
    for one in load_each(find([folder])):
        try:
            if isinstance(one, BadInput):
                continue
            found = run_judged(one, profile, "provenance")
            if (found.broken and not only_losses) or judged_loss(found) is not None:
                yield one
        except BadInput:
            continue


def look(scenario, profile, server, models, checkout=None):
    """Export a scenario and run it."""
    try:
        script = make_script(scenario, profile)
        text = server_test(script) if checkout else standalone_script(script)
    except BadInput as bad:
        return Case(scenario.id, NOT_SHOWABLE, bad.cause)
    racy = "a race" if script.racy else ""
    why = "forced drafts" if script.drafts else racy
    code, said = 0, ""
    for seed, delay in enumerate(DELAYS if why else DELAYS[:1]):
        if checkout:
            code, said = run_test(text, server, checkout)
        else:
            code, said = run(text, server, models, seed, delay)
        if code != 0:
            break
    if code == 1:
        return Case(scenario.id, SHOWN, "" if checkout else other_requests(script, said), said)
    return Case(scenario.id, NOT_SHOWABLE if code == 0 and why else FAILED, why or f"exit code {code}", said)


def other_requests(script, said):
    """Describe the requests that are wrong, or have other counts, on the real server than in the simulator."""
    rows = [line.split() for line in said.splitlines() if line[:1].isdigit()]
    wrong = [int(row[0]) for row in rows if {"DIFFERS", "ended"} & set(row)]
    counts = [row[0] for row in rows if len(row) > 4 and row[1] != "-" and f"({row[1]})" != row[2]]
    asked = {one.number for one in script.asks if one.hang_up is None}
    counts += [row for row in said.splitlines() if row.startswith("UNDECIDED")]
    other = [] if wrong == [n for n in script.broken if n in asked] else [f"wrong at {wrong}, expected {script.broken}"]
    return "; ".join(other + ([f"another cache_n at {', '.join(counts)}"] if counts else []))


def run(text, server, models, seed=0, delay=DELAYS[0]):
    """Run a script in an environment of only its settings; return exit code and output."""
    env = {"LLAMA_SERVER": str(server), "MODELS": str(models), "PYTHON": os.path.realpath(sys.executable),
           "SEED": str(seed), "DELAY": str(delay)}  # fmt: skip
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
        file.write(text)
        file.flush()
        done = subprocess.run(["/bin/sh", file.name], capture_output=True, text=True, env=env, timeout=SECONDS)
    return done.returncode, done.stdout + done.stderr


def run_test(text, server, checkout):
    """Run a server test; return exit code and output. 1 also means that a test failed. The fixtures of that project's
    own ``conftest.py`` are omitted: they download models."""
    folder = checkout / "tools" / "server" / "tests"
    env = {**os.environ, "LLAMA_SERVER_BIN_PATH": str(server), "PYTHONPATH": str(folder),
           "PORT": str(20000 + os.getpid() % 10000 + next(PORTS)), "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "test_case.py")
        file.write_text(text)
        words = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", str(file)]
        done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=SECONDS, cwd=folder)
    failed = done.returncode == 1 and "AssertionError" in done.stdout
    return done.returncode if failed or done.returncode != 1 else 2, done.stdout + done.stderr


def table(cases):
    """Return the lines of the report."""
    yield from (f"{one.name:42} {one.outcome:13} {one.why}".rstrip() for one in cases)
    counts = Counter(one.outcome for one in cases)
    share = counts[SHOWN] / max(1, len(cases))
    yield f"{len(cases)} faulty cases: {counts[SHOWN]} shown ({share:.0%}), {counts[NOT_SHOWABLE]} not showable, " \
          f"{counts[FAILED]} failed"  # fmt: skip


def code_of(cases):
    """Return 0 if enough are shown and none failed."""
    counts = Counter(one.outcome for one in cases)
    return int(counts[FAILED] > 0 or counts[SHOWN] < ENOUGH * len(cases))


def main(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.live.export_all", description=__doc__)
    parser.add_argument("--server", type=Path, help="llama-server, unedited (default: the pinned build)")
    parser.add_argument("--checkout", type=Path, help="tree of llama.cpp whose server tests are run")
    parser.add_argument("--profile", default="llama_cpp@b11549", help="its rule set")
    parser.add_argument("--models", type=Path, default=Path.home() / ".cache" / "cachesim-live" / "models")
    parser.add_argument("--losses", action="store_true", help="only the cases that lose tokens")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="print what the scripts of other cases than shown said")
    args = parser.parse_args(argv)
    try:
        server = args.server or build.server_of(args.profile.partition("@")[2])
    except build.Missing as why:
        print(why, file=sys.stderr)
        return 2
    args.models.mkdir(parents=True, exist_ok=True)
    folder = corpus_root() / args.profile.partition("@")[0]
    with ThreadPoolExecutor(args.jobs) as pool:
        waiting = [pool.submit(look, one, args.profile, server, args.models, args.checkout)
                   for one in faulty_scenarios(folder, args.profile, args.losses)]  # fmt: skip
        cases = [one.result() for one in waiting]
    print("\n".join(table(cases)))
    for one in cases if args.verbose else ():
        if one.outcome != SHOWN:
            print(f"\n{one.name}: {one.outcome}\n{one.said}")
    return code_of(cases)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
