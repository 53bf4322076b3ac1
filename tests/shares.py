"""Distribution of test files to the worker processes of pytest-xdist.

Each process collects only its share of the files, and runs all of it. If each collected everything, as xdist does, it
would need most of its memory for tests that it never runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Iterable, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
LINE = 0.0028                            # CPU seconds of an average line of a test file

SECONDS: Mapping[str, float] = {
    "tests/conformance/test_wrong_keys.py": 3, "tests/docs/test_block_cache_page.py": 6.5,
    "tests/docs/test_lessons.py": 4.5, "tests/hostile/test_traps.py": 3, "tests/hostile/test_watch.py": 3,
    "tests/house/test_doors.py": 7.5, "tests/house/test_house.py": 4, "tests/house/test_prose.py": 4,
    "tests/house/test_startup.py": 3, "tests/live/test_reports.py": 3,
    "tests/properties/test_one_run_everywhere.py": 3.5, "tests/replay/test_selection.py": 8,
    "tests/scenarios/test_bugs.py": 3, "tests/scenarios/test_corpus.py": 29.5,
    "tests/scenarios/test_deciding_rules.py": 5, "tests/scenarios/test_plain_rules.py": 3,
    "tests/unit/base/test_pool.py": 3.5, "tests/unit/cli/test_command_list.py": 3,
    "tests/unit/cli/test_commands.py": 5, "tests/unit/cli/test_pasted.py": 4,
    "tests/unit/engines/shared/test_gguf_layers.py": 3, "tests/unit/engines/vllm/test_compressed_threads.py": 3,
    "tests/unit/judging/test_deciding_rule.py": 4.5, "tests/unit/judging/test_deciding_setting.py": 3.5,
    "tests/unit/judging/test_find_change.py": 3.5, "tests/unit/scenarios/test_engine_cases.py": 4.5,
    "tests/unit/scenarios/test_server_settings.py": 4, "tests/unit/test_pytest_plugin.py": 4.5,
    "tests/unit/tools/advise/test_outputs.py": 3, "tests/unit/tools/advise/test_search.py": 4.5,
    "tests/unit/tools/advise/test_start_check.py": 8, "tests/unit/tools/live/test_export.py": 5,
    "tests/unit/tools/live/test_export_command.py": 4, "tests/unit/tools/live/test_issue.py": 3.5,
    "tests/unit/tools/playground/test_worker.py": 5.5, "tests/unit/tools/run/test_scenarios_command.py": 4.5,
    "tests/unit/tools/search/test_ended_processes.py": 3.5, "tests/unit/tools/search/test_outputs.py": 3,
    "tests/unit/tools/server_logs/rebuild/test_kept_history.py": 3,
    "tests/unit/tools/server_logs/test_import_log.py": 4.5, "tests/unit/tools/watch/test_command.py": 4,
    "tests/unit/tools/watch/test_event_watch.py": 3.5,
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
