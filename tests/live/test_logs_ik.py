"""Tests of the stand-in's ik_llama.cpp log: it matches the recording, and deviations are reported."""

from __future__ import annotations

import copy
import json

import pytest

from tests.live import logs_ik
from tests.live.check_ik import FOLDERS

FOLDER = FOLDERS[-1]


def steps_of(name):
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))["steps"]


def test_logs_of_recordings_say_what_was_recorded(capsys):
    assert not logs_ik.stand_in(FOLDER)
    out = capsys.readouterr().out
    assert "STAND-IN for ik_llama.cpp" in out and "  0 differences" in out


def test_an_answer_that_is_not_the_one_of_the_log_is_told():
    steps = steps_of("gemma3l6-branch-1002")
    assert logs_ik.play(steps)[1] == []
    changed = copy.deepcopy(steps)
    lines = [line for number, step in enumerate(changed) for line in logs_ik.write_step(step, number)]
    answers = [(0, *(step["response"][name] for name in ("tokens_evaluated", "cache_n", "prompt_n", "predicted_n")))
               for step in changed]  # fmt: skip
    assert logs_ik.compare(lines, answers)[1] == []
    answers[1] = (0, answers[1][1], answers[1][2] + 1, *answers[1][3:])
    assert [one[1] for one in logs_ik.compare(lines, answers)[1]] == ["cache_n"]


@pytest.mark.parametrize("left_out", [0, 3])
def test_a_request_that_the_log_does_not_have_is_told(left_out):
    steps = steps_of("gemma3l6-branch-1002")
    lines = [line for number, step in enumerate(steps) if number != left_out
             for line in logs_ik.write_step(step, number)]  # fmt: skip
    answers = [(0, *(step["response"][name] for name in ("tokens_evaluated", "cache_n", "prompt_n", "predicted_n")))
               for step in steps]  # fmt: skip
    assert logs_ik.compare(lines, answers)[1][0] == ("requests", len(steps) - 1, len(steps))
