"""Jobs and blocks of a campaign as JSON, its clock, and what it does with stored cases and killed processes."""

from __future__ import annotations

import json

import pytest

from cachesim.tools.search import campaign_jobs as jobs
from cachesim.tools.search.campaign import Campaign, CampaignJob, CampaignPlan, Failure, work
from cachesim.tools.search.campaign_folder import CampaignFolder, failure_data
from cachesim.tools.search.campaign_jobs import (
    PLAYING,
    REPORT,
    CampaignClock,
    CampaignSearch,
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
from tests.unit.tools.search.test_drawn_conversation import made

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


def test_a_write_error_is_printed_once_until_the_folder_can_be_written_again(tmp_path, capsys):
    folder = CampaignFolder(tmp_path / "out", PLAN)
    campaign = folder.begin(resume=False)
    campaign.failures[FOUND.group] = Failure(4, FOUND, small=made("mlx_lm", {"A": 5}, "A"))
    search = CampaignSearch(PLAN, campaign, folder, CampaignClock(0.0, None, True), 1, "")
    away = folder.path.rename(tmp_path / "away")
    search.keep()
    search.keep()
    assert len(capsys.readouterr().err.splitlines()) == 1
    away.rename(folder.path)
    search.keep()
    [file] = folder.path.glob("*.toml")
    assert capsys.readouterr().err.splitlines() == [f"cachesim: {file} written"]
    folder.path.rename(away)
    campaign.failures[OTHER.group] = Failure(4, OTHER, small=made("mlx_lm", {"A": 9}, "A"))
    search.keep()
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_stored_cases_run_in_the_order_of_their_files_and_their_failures_are_not_shrunk(tmp_path):
    """The failure that a stored case shows keeps its case; another is shrunk."""
    plan = CampaignPlan("ik_llama@1889-base", ("warm-equals-cold",), ("GA",), "provenance", 0)
    found = [one for number in (1, 6) for one in work(CampaignJob(plan, number, number + 1)).found]
    failures = {finding.group: Failure(number, finding) for number, finding in found}
    assert len(failures) == 2
    (tmp_path / "a.toml").write_text("no toml")
    first = max(failures.values(), key=lambda one: one.first)
    data = failure_data(first, plan)
    file = tmp_path / f"{data['id']}.toml"
    file.write_text(data["toml"])
    search = CampaignSearch(plan, Campaign(plan.profile, failures), None, CampaignClock(0.0, None, True), 2, "")
    search.check([str(file), str(tmp_path / "a.toml")])
    assert [bool(one.why) for one in search.corpus] == [False, True]
    assert search.known == {first.finding.group: str(file)}
    search.jobs = 1
    search.shrink()
    [other] = (one for one in failures.values() if one is not first)
    shrunk = {one.first: one.is_shrunk for one in search.campaign.failures.values()}
    assert shrunk == {first.first: False, other.first: True}
