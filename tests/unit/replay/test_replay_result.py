"""Counts of a replay: a step that is left open afterwards agrees no more, and its reason is the first one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cachesim.replay.recorded_trace import Trace
from cachesim.replay.replay_result import ReplayResult

TRACE = Trace(Path("t.json"), "toy@1", "GA", "t", {}, {}, frozenset())


def result(**fields: Any) -> ReplayResult:
    return ReplayResult(TRACE, steps=5, steps_agree=3, **fields)


@pytest.mark.parametrize(("verdicts", "agree", "left"), [
    ({2: True}, 3, 2), ({2: False}, 3, 3), ({1: True}, 3, 3), ({2: True}, None, None),
])  # fmt: skip
def test_the_verdict_of_an_open_step_counts_no_more_if_it_agreed(verdicts, agree, left):
    found = result(verdicts=verdicts, verdicts_agree=agree)
    found.leave_open(2, "why")
    assert (found.steps_agree, found.steps_undecided, found.verdicts_agree) == (2, 1, left)


def test_differences_that_are_left_open_count_no_more_and_neither_do_later_verdicts_that_differ():
    found = result(first={"step": 1}, differing=[1, 4], verdicts={0: False, 1: True, 2: True, 3: False, 4: False},
                   verdicts_agree=2, broken=[0, 3, 4])  # fmt: skip
    found.leave_differences_open("why")
    assert (found.first, found.why, found.broken) == (None, "step 1: why", [0])
    assert (found.steps_agree, found.steps_undecided, found.verdicts_agree) == (2, 3, 1)


def test_the_reason_of_the_first_open_step_is_kept():
    found = result()
    found.leave_open(4, "a number is unknown")
    found.leave_open(1, "another reason")
    assert (found.steps_agree, found.steps_undecided, found.why) == (1, 2, "step 4: a number is unknown")
