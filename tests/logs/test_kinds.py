"""Kinds of log that were reported wrongly: drawn numbers, and the files of ../shared/logs/kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cachesim.model.hash_mixing import Rng
from cachesim.tools.server_logs.import_log import import_log
from cachesim.tools.watch.log_rows import LogRows
from tests.logs.importer import statements
from tests.logs.kinds import KINDS, contains
from tests.logs.slow_truth import ROW_NAMES, SLOW, compare_slow
from tests.shared import SHARED, absent

FILES = SHARED / "logs" / "kinds"
NAMES = {row: name for name, row in (("n_tokens", "prompt"), ("cache_n", "reused"), ("prompt_n", "evaluated"),
                                     ("predicted_n", "generated"))}  # fmt: skip
needs_files = pytest.mark.skipif(not FILES.exists(), reason=absent(FILES))
needs_slow = pytest.mark.skipif(not SLOW.exists(), reason=absent(SLOW))

EXACT = {
    "progress_after_restore": {"cache_n"}, "progress_and_time": {"prompt_n", "predicted_n"},
    "slow_request": {"n_tokens", "cache_n", "prompt_n", "predicted_n", "end"}, "cancelled_request": {"end"},
    "older_progress": {"n_tokens", "cache_n"}, "whole_prompt_held": {"n_tokens", "cache_n"},
    "similarity_with_lengths": {"n_tokens", "lcp"}, "unused_slot": {"n_tokens", "cache_n", "prompt_n", "lcp", "held"},
}  # fmt: skip
"""Numbers that the lines of a kind determine."""


def numbers_of(lines: list[str]) -> dict[tuple[Any, Any], dict[str, Any]]:
    """Return the numbers that the importer states, by slot and task."""
    found: dict[tuple[Any, Any], dict[str, Any]] = {}
    for said in statements(lines):
        assert said["what"] != "contradiction", said
        if said["what"] == "request":
            found.setdefault((said["slot"], said["task"]), {}).update(said["numbers"])
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_of_a_kind_are_true_and_those_that_it_determines_are_stated(kind):
    for number in range(15):
        log = KINDS[kind](Rng(number, kind))
        found = numbers_of(log.lines)
        for key, truth in log.truth.items():
            for name, stated in found[key].items():
                assert name not in truth or contains(stated, truth[name]), (number, name, log.lines)
            for name in EXACT[kind]:
                assert found[key].get(name) == truth[name], (number, name, log.lines)


@pytest.mark.parametrize("kind", KINDS)
def test_watch_states_the_same_numbers(kind):
    for number in range(10):
        log = KINDS[kind](Rng(number, kind))
        found, rows = numbers_of(log.lines), LogRows()
        for row in (*rows.read(log.lines), *rows.idle()):
            stated = found.get((row["slot"], row["task"]), {})
            assert {name: row[name] for name in ROW_NAMES} == {name: stated.get(NAMES[name]) for name in ROW_NAMES}


def file_lines(name: str) -> list[str]:
    return (FILES / f"{name}.log").read_text("utf-8").splitlines()


@needs_files
@pytest.mark.parametrize("name, task, numbers", [
    ("progress-after-restore", 9, {"cache_n": 1_000, "n_tokens": 2_000}),
    ("progress-with-length", 9, {"n_tokens": 2_000, "cache_n": 1_000, "prompt_n": 1_000}),
    ("progress-and-time", 9, {"n_tokens": 2_000, "prompt_n": 1_000}),
    ("two-slow-requests", 0, {"n_tokens": 20_000, "cache_n": 0, "prompt_n": 20_000}),
    ("two-slow-requests", 130, {"n_tokens": 25_200, "cache_n": 20_099, "prompt_n": 5_101}),
    ("similarity-with-lengths", 500, {"n_tokens": 2_000, "lcp": 1_000, "held": 2_000}),
    ("n-keep", 0, {"n_tokens": 24, "cache_n": 0}),
    ("whole-prompt-held", 31, {"n_tokens": 840, "cache_n": 839}),
    ("long-excerpt-before-b9231", 7, {"n_tokens": 30_040, "cache_n": 29_996, "lost": 4}),
])  # fmt: skip
def test_a_file_gives_its_numbers(name, task, numbers):
    [(_, found)] = [one for one in numbers_of(file_lines(name)).items() if one[0][1] == task]
    for number, true in numbers.items():
        assert contains(found[number], true) and (found[number] == true or isinstance(found[number], list)), number


@needs_files
def test_an_entry_that_was_loaded_for_a_part_of_its_tokens_is_named():
    [said] = [one for one in statements(file_lines("taken-entry")) if one["what"] == "total"]
    assert said["numbers"]["f_keep"] == [0.412, 0.412] and "loaded for 41.2 % of the tokens and removed" in said["says"]


@needs_files
@pytest.mark.parametrize("name", ["n-keep", "similarity-with-lengths", "whole-prompt-held", "two-slow-requests",
                                  "progress-after-restore", "long-excerpt-before-b9231"])  # fmt: skip
def test_a_file_is_simulated_with_the_numbers_of_the_report(name):
    data, text = import_log(Path(FILES / f"{name}.log"))
    assert text and not data["rejected"] and data["differ"] == 0 and data["undecided"] == 0
    stated = numbers_of(file_lines(name))
    for one in data["requests"]:
        found = stated[one["slot"], one["task"]]
        assert all(one[number] in (None, found[number]) for number in ("n_tokens", "cache_n", "prompt_n")
                   if number in found)  # fmt: skip


@needs_files
def test_without_a_length_nothing_is_said_about_evaluated_prompts():
    data, text = import_log(Path(FILES / "taken-entry.log"))
    assert text == "" and data["summary"]["requests"] == 0


@needs_slow
@pytest.mark.parametrize("last", [0, 40])
@pytest.mark.parametrize("name", sorted(file.stem for file in SLOW.glob("*.log")) or ["absent"])
def test_no_statement_about_a_slow_log_is_false(name, last):
    found = compare_slow(SLOW / f"{name}.log", last)
    assert found.false == [] and (found.stated == found.total or last)


@needs_slow
@pytest.mark.parametrize("name", ["qwen35-restore-default", "qwen35-edit-default", "llama-cancel-default",
                                  "llama-strip-default", "gemma3-subagent-default"])  # fmt: skip
def test_a_slow_log_is_reproduced(name):
    data, _ = import_log(SLOW / f"{name}.log")
    shown = [one for one in data["requests"] if one["cache_n"] is not None]     # of a cancelled one the log has a limit
    assert shown and data["agree"] == len(shown) and not data["rejected"]


@pytest.mark.parametrize("line, numbers", [
    ("[09:59:50] CtxLimit:290/16384, Init:0.15s, Processed:240 in 34.03s (7.05T/s), Generated:50/64 in 2.10s "
     "(23.81T/s), Total:36.13s", {"prompt_n": 240, "predicted_n": 50}),
    ("2026-09-20 22:21:09,739 - omlx.scheduler - INFO - [-] - Prefix cache restore for 3bc2f293: source=paged "
     "cached=118784 suffix=301389 blocks=29 lookup=6.651ms", {"cache_n": 118_784, "prompt_n": 301_389,
                                                              "n_tokens": 420_173}),
    ('time=2025-01-01T10:00:00.000Z level=DEBUG source=cache.go:104 msg="loading cache slot" id=0 cache=53 prompt=62 '
     "used=10 remaining=52", {"n_tokens": 62, "cache_n": 10, "prompt_n": 52, "held": 53}),
])  # fmt: skip
def test_the_counts_of_other_software_are_read(line, numbers):
    assert numbers_of([line]) == {(None, None): numbers}
