"""Tests that the table of replayed recordings shows green only for compared steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from cachesim.tools.replay.report import TOTALS, not_replayed, replay_report, totals
from tests.unit.tools.run.made import shown


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
