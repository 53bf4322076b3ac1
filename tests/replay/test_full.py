"""The figures of the issue, on the whole recorded set where it is present."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data.choose import OURS, choose
from tests.replay.verdicts import DATA, decided_alike, decisions, judged_alike, verdicts
from tests.shared import TRACES, needs

# folder: (steps, events) recorded, and steps that are at least replayed; the rest is out of scope, never agreement
RECORDED = {
    "llama_cpp": (3105, 65127, 3105),
    "llama_cpp_b11549": (1992, 37556, 1992),
    "llama_cpp_new_memories": (2604, 42538, 2604),
    "llama_cpp_history/head": (135, 2743, 135),
    "llama_cpp_history/pr24143-on-head": (331, 7828, 331),
    "llama_cpp_history/base-24143": (411, 6926, 411),
    "llama_cpp_history/base-24035": (389, 6593, 389),
    "ik_llama": (651, 9222, 651),
    "llama_cpp_odd": (678, 18971, 678),
    "ik_llama_odd": (77, 1582, 77),
    "ik_llama_parallel": (545, 8818, 545),
    "vllm": (24662, 71036, 24037),       # reference windows are not computed, so 625 steps have no verdict
    "sglang": (28621, 51877, 28621),
}

pytestmark = [pytest.mark.long, needs(TRACES / "llama_cpp")]


FEW = 8                      # ``make long`` replays one of so many recordings of a folder, ``-m slow`` all
folders = pytest.mark.parametrize("folder", RECORDED)
shares = pytest.mark.parametrize("share", [FEW, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])


def files(folder: str, share: int) -> list[Path]:
    return sorted((TRACES / folder).glob("*.json"))[::share]


@shares
@folders
def test_every_step_and_event_in_scope_agrees(folder, share):
    found = [decisions(path) for path in files(folder, share)]
    assert found
    assert [(one.trace.file.name, one.first) for one in found if not (one.trace.out or decided_alike(one))] == []
    assert all(one.steps_undecided == one.steps and not one.steps_agree for one in found if one.trace.out)
    if share == 1:
        assert (sum(one.steps for one in found), sum(one.events for one in found)) == RECORDED[folder][:2]
        assert sum(one.steps_agree for one in found) >= RECORDED[folder][2]


@shares
@folders
def test_broken_exactly_where_the_real_server_was(folder, share):
    found = [one for path in files(folder, share) if (one := verdicts(path)).verdicts_agree is not None]
    assert found
    assert [(one.trace.file.name, one.broken) for one in found if not judged_alike(one)] == []
    assert [sorted(one.trace.inexact) for one in found] == [one.broken for one in found]
    if share == 1:
        assert sum(one.verdicts_agree for one in found) >= RECORDED[folder][2]


def test_the_selection_is_the_one_that_its_script_makes():
    chosen = {str(path.relative_to(TRACES)) for path in choose(TRACES)}
    assert chosen == {str(path.relative_to(DATA)) for path in DATA.rglob("*.json")
                      if str(path.relative_to(DATA).parent) not in ("mlx_lm", *OURS)}
