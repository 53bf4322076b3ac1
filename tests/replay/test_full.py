"""The figures of the issue, on the whole recorded set where it is present."""

from __future__ import annotations

from pathlib import Path

import pytest

from cachesim.engines.registry import profiles
from cachesim.live.trace import read_trace
from tests.data.choose import FOLDERS, choose
from tests.replay.verdicts import DATA, decided_alike, decisions, judged_alike, verdicts

TRACES = DATA.parents[2] / "shared" / "traces"
STEPS = {"llama_cpp": 1779, "llama_cpp_history/head": 135, "llama_cpp_history/pr24143-on-head": 300,
         "llama_cpp_history/base-24143": 394, "llama_cpp_history/base-24035": 355}  # fmt: skip
EVENTS = {"llama_cpp": 38130, "llama_cpp_history/head": 2743, "llama_cpp_history/pr24143-on-head": 7268,
          "llama_cpp_history/base-24143": 6556, "llama_cpp_history/base-24035": 6007}  # fmt: skip
INEXACT = {"llama_cpp": 30, "llama_cpp_history/head": 0, "llama_cpp_history/pr24143-on-head": 0,
           "llama_cpp_history/base-24143": 13, "llama_cpp_history/base-24035": 13}  # fmt: skip

pytestmark = pytest.mark.skipif(
    not (TRACES / "llama_cpp").is_dir(),
    reason=f"the full set of recorded traces is not at {TRACES}; the selection in tests/data is tested all the same",
)


def files(folder: str) -> list[Path]:
    return sorted((TRACES / folder).glob("*.json"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_step_and_event_in_scope_agrees(folder):
    found = [one for path in files(folder) if not (one := decisions(path)).trace.out]
    assert [(one.trace.file.name, one.first) for one in found if not decided_alike(one)] == []
    assert (sum(one.steps for one in found), sum(one.events for one in found)) == (STEPS[folder], EVENTS[folder])


@pytest.mark.parametrize("folder", FOLDERS)
def test_broken_exactly_where_the_real_server_was(folder):
    found = [one for path in files(folder) if not (one := verdicts(path)).trace.out]
    assert [(one.trace.file.name, one.broken) for one in found if not judged_alike(one)] == []
    assert sum(len(one.broken) for one in found) == INEXACT[folder]


def test_no_file_out_of_scope_counts_as_agreement():
    found = [decisions(path) for folder in FOLDERS for path in files(folder) if read_trace(path, profiles()).out]
    assert len(found) == 186
    assert all(one.steps_undecided == one.steps and not one.steps_agree for one in found)


def test_the_selection_is_the_one_that_its_script_makes():
    chosen = {str(path.relative_to(TRACES)) for path in choose(TRACES)}
    assert chosen == {str(path.relative_to(DATA)) for path in DATA.rglob("*.json")}
