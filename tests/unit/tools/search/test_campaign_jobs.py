"""Jobs and blocks of a campaign as JSON, its clock, and what it does with stored cases and killed processes."""

from __future__ import annotations

import json

import pytest

from cachesim.tools.search import campaign_jobs as jobs
from cachesim.tools.search.campaign import CampaignJob, CampaignPlan, work
from cachesim.tools.search.campaign_jobs import (
    PLAYING,
    REPORT,
    CampaignClock,
    StoredCaseResult,
    check,
    groups_of,
    packed,
    parse_block,
    play,
    unpacked,
    with_corpus,
)
from cachesim.tools.search.property_failure import PropertyFailure, parse_finding

PLAN = CampaignPlan("mlx_lm@0.32.2", ("survives",), ("A",), "provenance", 3, "mlx_lm@m1072")
JOB = CampaignJob(PLAN, 4, 9)
FOUND = PropertyFailure("survives", 1, "crash", {"error": "it: 3"}, "R.1", causes=("request 0",))
OTHER = FOUND._replace(deciding="R.2")


@pytest.mark.parametrize("change", [{"seed": "x"}, {"models": 3}, {"first": None}])
def test_an_invalid_job_is_refused(change):
    with pytest.raises((TypeError, ValueError)):
        unpacked(json.dumps({**json.loads(packed(JOB)), **change}))


@pytest.mark.parametrize(("change", "error"), [
    ({"numbers": [3]}, TypeError), ({"step": "x"}, ValueError), ({"numbers": {"error": ""}}, ValueError),
])  # fmt: skip
def test_an_invalid_finding_is_refused(change, error):
    data = json.loads(json.dumps(FOUND._asdict()))
    assert parse_finding(data) == FOUND
    with pytest.raises(error):
        parse_finding({**data, **change})


@pytest.mark.parametrize(("shrinks", "minutes", "to_play", "to_shrink"), [
    (True, 1, 60 * PLAYING - 10, 60 - REPORT - 10), (False, 1, 60 - REPORT - 10, 60 - REPORT - 10),
    (True, 0.1, 0.0, 0.0), (False, None, None, None), (True, 0.2, 0.0, 1.0),
])  # fmt: skip
def test_a_part_of_the_time_is_for_shrinking_and_a_second_for_the_report(monkeypatch, shrinks, minutes, to_play,
                                                                        to_shrink):  # fmt: skip
    """Ten seconds after the command began."""
    monkeypatch.setattr(jobs.time, "monotonic", lambda: 110.0)
    clock = CampaignClock(100.0, minutes, shrinks)
    assert (clock.to_play(), clock.to_shrink()) == (pytest.approx(to_play), pytest.approx(to_shrink))


def stored(file, *found, why=""):
    return StoredCaseResult(file, [*found], why)


def test_a_failure_that_stored_cases_show_names_the_first_of_them():
    assert groups_of([stored("a"), stored("b", FOUND), stored("c", FOUND, OTHER)]) == {
        FOUND.group: "b", OTHER.group: "c"}  # fmt: skip
    data = {"failures": [jobs.finding_data(FOUND), jobs.finding_data(OTHER)], "seed": 3}
    assert with_corpus(data, []) == data
    found = with_corpus(data, [stored("b", FOUND), stored("d", why="it is broken")])
    assert [one.get("known") for one in found["failures"]] == ["b", None] and found["seed"] == 3
    corpus = found["corpus"]
    assert (corpus["files"], corpus["unplayed"]) == (2, [{"file": "d", "why": "it is broken"}])
    assert [(one["file"], one["property"]) for one in corpus["failing"]] == [("b", "survives")]


def test_a_stored_case_that_cannot_run_has_its_reason(tmp_path):
    file = tmp_path / "fuzz-x.toml"
    file.write_text("no toml")
    result = check(str(file), PLAN)
    assert result.found == [] and str(file) in result.why


def test_a_job_is_the_same_on_another_machine_and_its_block_has_the_numbers_of_the_job():
    assert unpacked(packed(JOB)) == JOB
    job = CampaignJob(CampaignPlan("mlx_lm@0.32.2", ("survives",), ("A",), "provenance", 3), 4, 6)
    block = parse_block(play(packed(job)))
    assert block == work(job) and (block.first, block.stop, block.played + block.refused) == (4, 6, 2)
