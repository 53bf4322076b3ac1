"""Distribution of test files to the worker processes of pytest-xdist.

Each process collects only its share of the files, and runs all of it. If each collected everything, as xdist does, it
would need most of its memory for tests that it never runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Iterable, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
LINE = 0.0015                            # CPU seconds of an average line of a test file

SECONDS: Mapping[str, float] = {
    "tests/hostile/test_traps.py": 3,
    "tests/house/test_doors.py": 8, "tests/house/test_house.py": 4, "tests/house/test_prose.py": 4,
    "tests/properties/test_one_run_everywhere.py": 5,
    "tests/replay/test_selection.py": 4,
    "tests/scenarios/test_corpus.py": 12, "tests/scenarios/test_deciding_rules.py": 3,
    "tests/sentences/test_sentences.py": 6,
    "tests/unit/cli/test_commands.py": 3, "tests/unit/cli/test_pasted.py": 3,
    "tests/unit/engines/vllm/test_stack_distances.py": 1.5,
    "tests/unit/judging/test_deciding_setting.py": 4, "tests/unit/judging/test_find_change.py": 3,
    "tests/unit/scenarios/test_engine_cases.py": 4,
    "tests/unit/strategies/test_explained_lines.py": 2,
    "tests/unit/test_pytest_plugin.py": 5,
    "tests/unit/tools/advise/test_command.py": 2, "tests/unit/tools/advise/test_outputs.py": 2,
    "tests/unit/tools/advise/test_start_check.py": 5,
    "tests/unit/tools/conformance/test_check_command.py": 2,
    "tests/unit/tools/live/test_export.py": 4, "tests/unit/tools/live/test_export_command.py": 4,
    "tests/unit/tools/live/test_recorder.py": 3,
    "tests/unit/tools/search/test_ended_processes.py": 2, "tests/unit/tools/search/test_outputs.py": 2,
    "tests/unit/tools/watch/test_command.py": 3,
}  # fmt: skip
"""Files that take much longer than their number of lines suggests, in CPU seconds. Those of ``house`` count more: they
keep the syntax trees of the package, so that their process has less memory for other tests."""

TOGETHER = (
    "tests/scenarios/test_corpus.py", "tests/scenarios/test_coverage.py", "tests/scenarios/test_mlx_lm_entries.py",
    "tests/scenarios/test_sentences.py", "tests/scenarios/test_sentences_mlx.py", "tests/scenarios/test_shown_in.py",
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


def files_below(arguments: Sequence[Path]) -> list[Path]:
    """Return the test files below some folders; [] if an argument is not a folder."""
    if not all(path.is_dir() for path in arguments):
        return []
    return sorted({file for folder in arguments for file in folder.rglob("test_*.py")})
