"""Which recorded traces lie in tests/data? Chooses them from the full set and copies them, byte for byte.

Greedy cover, cheapest bytes per new thing first. Things to be covered: every model, every workload in scope, every file
with an inexact step in scope, every kind of event per model and per profile; two files of three kinds out of scope.
The same input gives the same choice. Run: python tests/data/choose.py [../shared/traces]
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Iterable

from cachesim.engines.registry import profiles
from cachesim.live.trace import Trace, read_trace

HERE = Path(__file__).parent
FOLDERS = ("llama_cpp", *(f"llama_cpp_history/{p}" for p in ("head", "pr24143-on-head", "base-24143", "base-24035")))
LIMIT = 2 << 20
OUT_OF_SCOPE = ("needs drafts", "needs parallel requests", "needs context shift")

Thing = tuple[str, ...]


def workload(trace: Trace) -> str:
    """The workload's name without model and seed."""
    return re.sub(r"-\d{3,}$", "", trace.name.removeprefix(trace.model + "-"))


def things(trace: Trace, folder: str) -> set[Thing]:
    """What a trace shows."""
    kinds = {event["ev"] for step in trace.steps for event in step.events}
    found: set[Thing] = {("model", trace.model), ("workload", workload(trace)), ("folder", folder)}
    found |= {("event", trace.model, kind) for kind in kinds} | {("event", folder, kind) for kind in kinds}
    if trace.inexact:
        found |= {("inexact", folder, trace.name)} if folder == "llama_cpp" else {("inexact", folder, trace.model)}
    return found


def cover(shown: dict[Path, set[Thing]]) -> list[Path]:
    """Files that together show everything that any file shows."""
    left = set().union(*shown.values())
    size = {path: path.stat().st_size for path in shown}
    chosen: list[Path] = []
    while left:
        best = min(shown, key=lambda path: (-len(shown[path] & left) / size[path], str(path)))
        chosen.append(best)
        left -= shown[best]
    for path in sorted(chosen, key=lambda path: (-size[path], str(path))):
        others = [shown[other] for other in chosen if other != path]
        if shown[path] <= set().union(*others):
            chosen.remove(path)
    return chosen


def choose(traces: Path) -> list[Path]:
    """The chosen files of a folder of recorded traces."""
    shown: dict[Path, set[Thing]] = {}
    out: dict[str, Path] = {}
    for folder in FOLDERS:
        for path in sorted((traces / folder).glob("*.json")):
            trace = read_trace(path, profiles())
            if not trace.out:
                shown[path] = things(trace, folder)
            elif trace.out in OUT_OF_SCOPE:
                out[trace.out] = min(out.get(trace.out, path), path, key=lambda p: (p.stat().st_size, p))
    return [*cover(shown), *out.values()]


def copy(chosen: Iterable[Path], traces: Path) -> int:
    """Replace the files here by the chosen ones; returns their bytes."""
    for old in HERE.rglob("*.json"):
        old.unlink()
    total = 0
    for path in chosen:
        target = HERE / path.relative_to(traces)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        total += path.stat().st_size
    return total


if __name__ == "__main__":
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parents[2] / "shared" / "traces"
    files = choose(source)
    size = copy(files, source)
    sys.stdout.write(f"{len(files)} files, {size} bytes\n")
    sys.exit(size > LIMIT)
