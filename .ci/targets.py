"""Every `make` target once, in its smallest form: `make targets`, or `python .ci/targets.py [TARGET ...]`.

Each runs in a fresh clone of HEAD, with an empty home folder and a PATH of the system's folders and this Python, so
that it finds nothing of other targets. pip's cache and settings stay. FOLDER/TARGET.log has the output of a target, and
FOLDER/rows.json its row: a later run skips rows of the same commit that passed.
Exit code 1 if a target failed. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SMALLEST = {
    "test": "ARGS=tests/unit/cli/test_names.py WORKERS=1",
    "doors": "ARGS=--collect-only",
    "long": "ARGS=tests/live/test_export_all.py WORKERS=1",
    "check": "ARGS=tests/unit/cli/test_names.py WORKERS=1",
    "oldest": "ARGS=--collect-only",
    "matrix": "ARGS=tests/unit/cli/test_names.py",
    "bench": "ARGS=start-up",
    "meta": "ARGS='-k transcripts' JOBS=1",
    "meta-drawn": "ARGS='--folder tools/lessons --steps 1' JOBS=1",
    "fuzz": "MINUTES=1 JOBS=1",
    "million": "ARGS='--examples 20' JOBS=1",
    "keyed": "ARGS='--examples 20' JOBS=1",
    "newest": "ARGS='--examples 20' JOBS=1",
    "trees": "ARGS='--examples 20' JOBS=1",
    "blocks": "ARGS='--examples 20' JOBS=1",
    "hostile": "N=20 JOBS=1",
    "rediscover": "ARGS='--seeds 1 7.1' JOBS=1",
    "replay": "TRACES=tests/data/llama_cpp JOBS=1",
    "peers": "OPS=2000 BURSTS=5 TALKS=2 STEPS=1000 ARGS='--row 5'",
    "peers-vllm": "STEPS=1000 OPS=2000",
    "vllm-tests": "ARGS=.venv-peers-vllm/vllm-0.33.0/tests/v1/core/test_single_type_kv_cache_manager.py",
    "peers-sglang": "OPS=2000",
    "growth": "SIZES=1000",
    "adapters": "ARGS=mlx_lm_lru",
    "live": "N=5 MINUTES=1 JOBS=1",
    "watch": "ARGS=--short",
    "slow": "N=1 JOBS=1 ARGS='--cuts 1 --report'",
    "workloads": "SESSIONS=tests/workloads/data JOBS=1",
    "agents": "ARGS='--only attention --clients 1 --memory 16 --lines .venv/agents.jsonl --page .venv/agents.md'",
    "optimized": "EVERY=100",
}
"""Variables of a target's smallest form; a target without a row has only one form."""
OUTSIDE = {
    "live": (("LLAMA_SERVER",), "a real llama-server", "LLAMA_SERVER=/no/llama-server"),
    "upstream": (("OLD", "NEW"), "two trees of llama.cpp", ""),
    "browser": (("CHROMIUM",), "a chromium", "CHROMIUM=/no/chromium"),
}
"""Targets that need something from outside: the variables of the environment that name it, what it is, and the
variables to run the target with where it is absent: it must then end with one clear line."""
RENEWS = ("workloads",)
"""Targets whose purpose is to write files under version control; every other one must leave the checkout as it is."""
KEPT = re.compile(r"LANG|LC_.*|PIP_.*|SSL_CERT_.*|.*_proxy|.*_PROXY")
LACKING = re.compile(r"\babsent\b|\bleft out\b|: skipped\b|\bnot run\b|\bno real server\b")
"""Lines in which a target names what the machine lacks."""
SECONDS = 3600


class Row(NamedTuple):
    """Result of a target. ``said``: what the machine lacks, or the last line of a failure."""

    target: str
    command: str
    code: int
    seconds: float
    result: str
    said: str
    commit: str


def targets() -> list[str]:
    """Return all targets of the Makefile and of the file that it includes, except `targets`."""
    names = re.findall(r"^\.PHONY:(.*)$", makefile(), re.M)
    return [name for name in " ".join(names).split() if name != "targets"]


def makefile() -> str:
    """Return the text of both files of targets."""
    return "\n".join((ROOT / name).read_text("utf-8") for name in ("Makefile", "tests/targets.mk"))


def environment(home: Path) -> dict[str, str]:
    """Return an environment with an empty home, and only the variables that lead to packages and other Pythons."""
    kept = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}
    places = [str(Path(sys.base_prefix, "bin")), "/usr/local/bin", "/usr/bin", "/bin"]
    cache = subprocess.run([sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True).stdout.strip()
    pyenv = os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))
    return {"PIP_CACHE_DIR": cache, **kept, "PATH": os.pathsep.join(places), "HOME": str(home), "PYENV_ROOT": pyenv}


def command(target: str) -> tuple[list[str], str]:
    """Return the words of a target's command, and the missing requirement ("" = none)."""
    names, what, instead = OUTSIDE.get(target, ((), "", ""))
    given = {name: value for name in names if (value := os.environ.get(name))}
    if target == "browser" and (there := shutil.which("chromium")):
        given.setdefault("CHROMIUM", there)
    absent = what if len(given) < len(names) else ""
    more = instead.split() if absent else [f"{name}={value}" for name, value in given.items()]
    return ["make", target, *shlex.split(SMALLEST.get(target, "")), *more], absent


def head(checkout: Path) -> str:
    """Return the commit of a checkout."""
    words = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, cwd=checkout, capture_output=True, text=True, check=True).stdout.strip()


def run(target: str, folder: Path) -> Row:
    """Run a target in a temporary clone."""
    place, log = folder / target, folder / f"{target}.log"
    shutil.rmtree(place, ignore_errors=True)
    (place / "home").mkdir(parents=True)
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(place / "checkout")], check=True)
    commit = head(place / "checkout")
    words, absent = command(target)
    began = time.monotonic()
    with log.open("w") as stream:
        code = _ended(words, place, stream)
    seconds = round(time.monotonic() - began, 1)
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=place / "checkout", capture_output=True, text=True)
    lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    result, said = judged(code, lines, absent, "" if target in RENEWS else changed.stdout.split("\n")[0])
    shutil.rmtree(place)
    return Row(target, shlex.join(words), code, seconds, result, said, commit)


def _ended(words: list[str], place: Path, stream: object) -> int:
    """Return the exit code, 124 for a command that exceeded its time. Its processes form a separate group."""
    process = subprocess.Popen(words, cwd=place / "checkout", env=environment(place / "home"), stdout=stream,
                               stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    try:
        return process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return 124


def judged(code: int, lines: list[str], absent: str, changed: str) -> tuple[str, str]:
    """Return the result of a target in a word, and a remark."""
    last = next((line for line in reversed(lines) if not line.startswith(("make: ", "no tests ran"))), "")
    lacking = "; ".join(dict.fromkeys(line for line in lines if LACKING.search(line)))
    if any(line.startswith("Traceback (most recent call last)") for line in lines):
        return "FAILED", last
    if absent:
        return ("absent", f"{absent}: {last}") if code else ("FAILED", f"exit code 0 without {absent}")
    if code:
        return "FAILED", last
    if changed:
        return "FAILED", f"changes the checkout: {changed.strip()}"
    return "passed", f"absent: {lacking}" if lacking else ""


def table(rows: list[Row]) -> Iterator[str]:
    """Return the lines of the report."""
    width = max([7, *(len(row.command) for row in rows)])
    yield f"{'target':10}  {'command':{width}}  commit   code  seconds  result"
    for row in rows:
        result = f"{row.result}: {row.said}" if row.said else row.result
        yield f"{row.target:10}  {row.command:{width}}  {row.commit:7}  {row.code:4}  {row.seconds:7.1f}  {result}"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python .ci/targets.py", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="targets to run (default: all)")
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv-targets", help="clones, logs and rows")
    args = parser.parse_args(argv)
    if wrong := set(args.targets) - set(targets()):
        parser.error(f"unknown target {sorted(wrong)[0]!r}")
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "rows.json"
    rows = {name: Row(**row) for name, row in (json.loads(kept.read_text()) if kept.exists() else {}).items()}
    for target in args.targets or targets():
        old = rows.get(target)
        if old is None or old.commit != head(ROOT) or old.result == "FAILED":
            rows[target] = run(target, folder)
            kept.write_text(json.dumps({name: row._asdict() for name, row in rows.items()}, indent=1) + "\n")
        print("\n".join(list(table([rows[target]]))[1:]), flush=True)
    print("\n".join(["", *table(list(rows.values()))]))
    return int(any(row.result == "FAILED" for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
