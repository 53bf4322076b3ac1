"""Does the simulator decide, and go wrong, exactly where the real servers did? The selection that lies in tests/data."""

from __future__ import annotations

import pytest

from cachesim.engines.registry import profiles
from cachesim.live.trace import read_trace
from tests.data.choose import FOLDERS, LIMIT
from tests.replay.verdicts import DATA, decided_alike, decisions, judged_alike, verdicts

FILES = sorted(DATA.rglob("*.json"))
OUT = [path for path in FILES if read_trace(path, profiles()).out]
IN = [path for path in FILES if path not in OUT]


def names(path):
    return str(path.relative_to(DATA))


@pytest.mark.parametrize("path", IN, ids=names)
def test_every_step_and_event_agrees(path):
    found = decisions(path)
    assert found.first is None
    assert decided_alike(found)


@pytest.mark.parametrize("path", IN, ids=names)
def test_every_verdict_agrees(path):
    found = verdicts(path)
    assert found.broken == sorted(found.trace.inexact)
    assert judged_alike(found) and decided_alike(found)


@pytest.mark.parametrize("path", OUT, ids=names)
@pytest.mark.parametrize("replayed", [decisions, verdicts])
def test_a_trace_out_of_scope_is_undecided(path, replayed):
    found = replayed(path)
    assert found.steps_undecided == found.steps > 0
    assert (found.steps_agree, found.events_agree, found.verdicts_agree) == (0, 0, None)


def test_the_selection_is_what_it_promises():
    traces = [read_trace(path, profiles()) for path in IN]
    head = [t for t in traces if t.file.parent == DATA / "llama_cpp"]
    assert len({t.model for t in head}) == 9
    assert sum(len(t.inexact) for t in head) == 30
    assert {str(path.relative_to(DATA).parent) for path in IN} == set(FOLDERS)
    assert len({read_trace(path, profiles()).out for path in OUT}) == len(OUT) == 3
    assert sum(path.stat().st_size for path in FILES) <= LIMIT
