"""Distribution of test files to the worker processes of pytest-xdist.

Each process collects only its share of the files, and runs all of it. Collecting everything in every process, as xdist
does, costs half of the memory and a fifth of the time of this suite.
"""

from __future__ import annotations

from pathlib import Path
from typing import Iterable, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
LINE = 0.002                             # seconds of an average line of a test file

SECONDS: Mapping[str, float] = {}
"""Files that take much longer than their number of lines suggests, in CPU seconds."""

TOGETHER = (
    "tests/scenarios/test_corpus.py", "tests/scenarios/test_mlx_lm_entries.py", "tests/scenarios/test_sentences.py",
    "tests/scenarios/test_sentences_mlx.py", "tests/scenarios/test_shown_in.py",
)  # fmt: skip
"""Files that look at the same runs, which one process keeps."""
HOUSE = ROOT / "tests" / "house"
"""Folder whose files look at the same syntax trees."""


def shares(files: Iterable[Path], number: int) -> list[frozenset[Path]]:
    """Divide files into shares of about the same duration; the longest file is placed first."""
    group = {ROOT / name: ROOT / TOGETHER[0] for name in TOGETHER}
    group.update(dict.fromkeys(HOUSE.glob("test_*.py"), HOUSE))
    groups: dict[Path, list[Path]] = {}
    for file in sorted(files):
        groups.setdefault(group.get(file, file), []).append(file)
    seconds = {first: sum(map(_seconds, members)) for first, members in groups.items()}
    loads = [0.0] * number
    found: list[set[Path]] = [set() for _ in range(number)]
    for first in sorted(groups, key=lambda one: (-seconds[one], one)):
        least = loads.index(min(loads))
        loads[least] += seconds[first]
        found[least].update(groups[first])
    return [frozenset(one) for one in found]


def _seconds(file: Path) -> float:
    known = SECONDS.get(file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else "")
    return file.read_bytes().count(b"\n") * LINE if known is None else known


def test_files(arguments: Sequence[Path]) -> list[Path]:
    """Return the test files below some folders; [] if an argument is not a folder."""
    if not all(path.is_dir() for path in arguments):
        return []
    return sorted({file for folder in arguments for file in folder.rglob("test_*.py")})
