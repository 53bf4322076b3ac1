"""Tests that the table of replayed recordings shows green only for compared steps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cachesim.engines.registry import profiles
from cachesim.replay.recorded_trace import read_trace
from cachesim.replay.replay_result import ReplayResult
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.player import Player
from cachesim.tools.replay.command import replay_file
from cachesim.tools.replay.report import TOTALS, not_replayed, replay_data, replay_report, totals
from tests.live.fake import Fake
from tests.unit.tools.run.made import shown

NOW = "llama_cpp@b11549"


def trace(steps=4, agree=4, undecided=0, events=9, verdicts=None, scope="in", profile="llama_cpp@b10587", first=None):
    """Return the data of a replayed trace."""
    return {
        "file": "t.json", "profile": profile, "scope": scope, "why": "", "steps": steps, "steps_agree": agree,
        "steps_undecided": undecided, "events": events, "events_agree": events - 1, "first_difference": first,
        "verdicts_agree": verdicts, "broken": [], "not_compared": [],
    }  # fmt: skip


def closing(*traces):
    """(text, colour) of the last line."""
    line = list(replay_report(traces).renderables)[-1]
    return line.plain, str(line.style)


def test_sums_count_verdicts_only_where_there_was_a_judge():
    sums = totals([trace(verdicts=3), trace(steps=5, agree=5), trace(verdicts=4)])
    assert (sums["steps"], sums["steps_agree"], sums["events"]) == (13, 13, 27)
    assert (sums["verdicts"], sums["verdicts_agree"]) == (8, 7)


def test_a_row_for_each_profile():
    lines = shown(replay_report([trace(verdicts=3), trace(profile="x@y", agree=2), trace(scope="out")]))
    assert lines[0].split() == ["profile", "files", "steps", "ok", "events", "ok", "verdicts", "ok", "out"]
    assert lines[1].split() == ["llama_cpp@b10587", "1", "4", "4", "9", "8", "4", "3", "1"]
    assert lines[2].split() == ["x@y", "1", "4", "2", "9", "8", "-", "-", "0"]


@pytest.mark.parametrize(("traces", "text", "colour"), [
    ([trace()], "4 of 4 steps agree, 0 undecided", "bold green"),
    ([trace(agree=3)], "3 of 4 steps agree, 0 undecided", "bold red"),
    ([trace(agree=3, undecided=1)], "3 of 3 steps agree, 1 undecided", "bold yellow"),
    ([trace(agree=0, undecided=4)], "0 of 0 steps agree, 4 undecided", "bold yellow"),
    ([trace(verdicts=4)], "4 of 4 steps agree, 0 undecided; 4 of 4 verdicts agree", "bold green"),
    ([trace(verdicts=3)], "4 of 4 steps agree, 0 undecided; 3 of 4 verdicts agree", "bold red"),
    ([trace(), not_replayed(Path("u.json"), "failed", "x")],
     "4 of 4 steps agree, 0 undecided; 1 file could not be replayed", "bold red"),
])  # fmt: skip
def test_the_closing_line(traces, text, colour):
    assert closing(*traces) == (text, colour)


def test_a_file_that_was_not_replayed_agrees_with_nothing():
    data = not_replayed(Path("u.json"), "failed", "why")
    assert [data[name] for name in TOTALS] == [0] * len(TOTALS)
    assert (data["verdicts_agree"], data["scope"], data["why"]) == (None, "failed", "why")
    assert any(line.startswith("(failed)") for line in shown(replay_report([data])))


def test_fields_that_are_not_compared_are_named_once():
    found = [{**trace(), "not_compared": ["text"]}, {**trace(), "not_compared": ["draft_n", "text"]}]
    assert shown(replay_report(found))[-2] == "recorded, not compared: draft_n, text"


@pytest.mark.parametrize(("number", "more"), [(10, ""), (11, "and 1 more files"), (13, "and 3 more files")])
def test_the_first_ten_differences_are_shown(number, more):
    text = shown(replay_report([trace(agree=3, first={"step": at}) for at in range(number)]))
    assert sum("{'step': " in line for line in text) == 10 and ([line for line in text if "more files" in line] == (
        [more] if more else []))  # fmt: skip


@pytest.mark.parametrize(("number", "lines"), [(0, 0), (9, 9), (11, 10)])
def test_the_reasons_of_the_first_ten_files_are_shown(number, lines):
    text = shown(replay_report([{**trace(), "why": "too many unknowns"}] * number + [trace()]))
    assert sum("too many unknowns" in line for line in text) == lines


def recording(tmp_path):
    """Return the file of a recording of a simulated server."""
    scenario = from_line("A9/A.B5", model="A", profiles=(NOW,), server={"parallel": 1})
    player = Player(scenario)
    with Fake(NOW, "A", player.write(scenario.server)) as fake:
        list(player.run(fake.play))
        file = tmp_path / "a.json"
        file.write_text(json.dumps(fake.trace()))
    return file


def test_a_recording_that_the_simulator_repeats_agrees_in_all_steps(tmp_path):
    file = recording(tmp_path)
    found = replay_file(file, "none")
    assert (found["file"], found["profile"], found["scope"], found["why"]) == (str(file), NOW, "in", "")
    assert (found["steps"], found["steps_agree"], found["first_difference"]) == (2, 2, None)


@pytest.mark.parametrize(("out", "scope"), [("", "in"), ("it sleeps", "out")])
def test_a_recording_that_this_build_cannot_replay_is_out_of_scope(tmp_path, out, scope):
    recorded = replace(read_trace(recording(tmp_path), profiles()), out=out)
    found = replay_data(ReplayResult(recorded, steps=3, why=out))
    assert (found["scope"], found["why"], found["steps"], found["broken"]) == (scope, out, 3, [])
