"""Tests of the stand-in for ik_llama.cpp: recorded wrong answers raise alarms, and nothing else does."""

from __future__ import annotations

import copy
import json

import pytest

from tests.live import check_ik

FOLDER = check_ik.FOLDERS[-1]


def test_a_recording_is_alarmed_where_it_was_recorded_as_wrong(capsys):
    assert check_ik.stand_in(FOLDER) == 0
    out = capsys.readouterr().out
    assert "STAND-IN for ik_llama.cpp" in out and " 0 recordings differ" in out


def test_an_answer_that_is_recorded_as_another_one_is_another_alarm():
    data = json.loads((FOLDER / "gemma3l6-branch-1002.json").read_text("utf-8"))
    found, recorded = check_ik.play(data)
    assert found == recorded
    changed = copy.deepcopy(data)
    number = next(n for n in range(len(data["steps"])) if n not in recorded)
    changed["steps"][number]["cold"] = {"equal": False, "max_dlogprob": 1.0}
    assert check_ik.play(changed)[0] == recorded | {number}


def test_a_recording_of_more_than_prompts_and_answers_is_left_out():
    data = json.loads((FOLDER / "gemma3l6-branch-1002.json").read_text("utf-8"))
    data["steps"][0]["request"]["n_keep"] = 3
    with pytest.raises(check_ik.Unplayable):
        check_ik.play(data)
