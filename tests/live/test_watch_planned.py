"""The yardstick of `watch`: its judge finds planted faults, and a real server of the wheel meets its demands."""

from __future__ import annotations

from argparse import Namespace

import pytest

from tests.live.watch_client import Outcome
from tests.live.watch_plan import HUNG_UP, OVERWRITTEN, REFUSED, SHORT, UNKNOWN, WORLDS, Planned
from tests.live.watch_planned import BOTH, LOG, RELAY, Judged, compare, judge, measure, show
from tests.shared import MODELS, ROOT, absent

WHEEL = ROOT / ".venv-xllama" / "bin" / "llama-server"
FEWEST = 60
PLANNED = Planned("A", "append", "extends", "extends", lost=OVERWRITTEN)
ROW = {"model": "m", "cause": "extends", "harmless": False, "loss": {"cause": OVERWRITTEN}, "change": "extends",
       "causes": [], "end": "whole", "status": 200, "prompt": 20, "reused": 5, "evaluated": 15, "generated": 2,
       "again": [3, None], "slot": 1}  # fmt: skip


def judged(way=BOTH, planned=PLANNED, **more):
    found = Judged()
    outcome = Outcome(planned, "m", 200, slot=1, numbers={"prompt": 20, "reused": 5, "evaluated": 15, "generated": 2})
    judge(outcome, {**ROW, **more}, way, found)
    return found.right, len(found.misses), len(found.false)


def test_the_plan_has_enough_requests_with_names_of_their_own():
    assert sum(len(world.requests) for world in WORLDS) >= FEWEST
    assert len({world.name for world in WORLDS}) == len(WORLDS)


def test_a_row_as_planned_is_right():
    assert judged() == (1, 0, 0)
    assert judged(RELAY, change=None) == (1, 0, 0)
    alone = {"cause": "extends", "loss": None, "harmless": None}
    assert judged(LOG, planned=Planned("A", "append", "extends", "extends"), **alone) == (1, 0, 1)    # states a body's


@pytest.mark.parametrize("more, found", [
    ({"cause": "edited"}, (0, 1, 1)), ({"loss": None}, (0, 1, 0)), ({"loss": None, "harmless": True}, (0, 1, 1)),
    ({"loss": {"cause": "erased"}}, (0, 1, 1)), ({"loss": {"cause": UNKNOWN}}, (0, 1, 0)),
    ({"change": "history"}, (0, 1, 1)), ({"change": ""}, (0, 1, 0)),
    ({"causes": [{"cause": "no-checkpoint"}]}, (1, 0, 1)), ({"causes": [{"cause": "edited-prompt"}]}, (1, 0, 1)),
    ({"end": "the client hung up"}, (0, 1, 1)), ({"status": 400}, (0, 1, 1)),
    ({"prompt": 21}, (1, 0, 1)), ({"prompt": [20, None]}, (1, 0, 0)), ({"slot": 0}, (1, 0, 1)),
    ({"slot": None, "reused": None}, (1, 0, 0)),
])  # fmt: skip
def test_a_planted_fault_is_found(more, found):
    assert judged(**more) == found


@pytest.mark.parametrize("end, row", [(REFUSED, {"status": 400}), (HUNG_UP, {"end": "the client hung up"})])
def test_the_planned_end_is_demanded(end, row):
    planned = Planned("A", "append", "extends", "extends", lost=OVERWRITTEN, end=end)
    assert judged(planned=planned, **row) == (1, 0, 0) and judged(planned=planned) == (0, 1, 1)


def test_rows_and_totals_must_add_up(capsys):
    outcome = Outcome(PLANNED, "m", 200)
    totals = {"requests": 1, "prompt": 20, "reused": 5, "evaluated": 15, "generated": 2, "again": 3}
    for rows, sums, faults in (([ROW], totals, 0), ([ROW, ROW], totals, 7), ([], totals, 7),
                               ([ROW], {**totals, "prompt": 21}, 1)):  # fmt: skip
        found = Judged()
        compare([outcome], rows, sums, BOTH, found)
        assert len(found.sums) == faults
        assert show(BOTH, found, True) == (not faults)
    assert "faults of sums" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.skipif(not WHEEL.exists(), reason="the wheel of a llama-server is absent (make .venv-xllama/.made)")
@pytest.mark.skipif(not MODELS.exists(), reason=absent(MODELS))
def test_a_real_server_gets_the_planned_causes():
    args = Namespace(server=WHEEL, models=MODELS, pause=0.3, keep=None)
    for way, found in measure(args, SHORT).items():
        assert found.requests and (found.misses, found.false, found.sums) == ([], [], []), way
