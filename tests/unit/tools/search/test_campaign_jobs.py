"""Jobs and blocks of a campaign as JSON, its clock, and what it does with stored cases and killed processes."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.pool import CompletedItem, KilledItem
from cachesim.judging.fault_kinds import FaultKind
from cachesim.tools.search import campaign_jobs as jobs
from cachesim.tools.search.campaign import Campaign, CampaignBlock, CampaignJob, CampaignPlan, Failure
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
from cachesim.tools.search.run_properties import CampaignCost

PLAN = CampaignPlan("mlx_lm@0.32.2", ("survives",), ("A",), "provenance", 3, "mlx_lm@m1072")
JOB = CampaignJob(PLAN, 4, 9)
FOUND = PropertyFailure("survives", 1, "crash", {"error": "it: 3"}, "R.1", causes=("request 0",))
OTHER = FOUND._replace(deciding="R.2")
BLOCK = CampaignBlock([(4, FOUND)], 5, 1, 4, 9, [(6, OTHER)], CampaignCost(1, 2, 3, 4, 5, 6))
UNLIMITED = CampaignClock(0.0, None, True)


def test_a_job_and_its_block_are_the_same_on_another_machine(monkeypatch):
    assert unpacked(packed(JOB)) == JOB
    monkeypatch.setattr(jobs, "work", lambda job: BLOCK if job == JOB else None)
    assert parse_block(play(packed(JOB))) == BLOCK


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


def search(monkeypatch, *results, folder=None, on=""):
    """Return a campaign whose processes give these results."""
    made = CampaignSearch(PLAN, Campaign(PLAN.profile), folder, UNLIMITED, 1, on)
    monkeypatch.setattr(made, "_spread", lambda do, shares, left: (one for one in results))
    monkeypatch.setattr(jobs, "progress", lambda found, *_: found)
    return made


def test_stored_cases_are_in_the_order_of_their_files(monkeypatch):
    made = search(monkeypatch, CompletedItem(1, "b", stored("b", FOUND)), CompletedItem(0, "a", KilledItem("killed")))
    made.check(["a", "b"])
    assert made.corpus == [stored("a", why="killed, twice"), stored("b", FOUND)]
    assert made.known == {FOUND.group: "b"}


def test_a_failure_whose_shrinking_was_killed_stays_as_it_is(monkeypatch, capsys):
    failures = [Failure(7, FOUND), Failure(5, OTHER), Failure(1, OTHER._replace(kind=FaultKind.DIED)),
                Failure(2, OTHER._replace(stored="x"), kept={}), Failure(3, OTHER._replace(stored="y"))]  # fmt: skip
    asked = []
    small = Failure(5, OTHER, kept={"small": 1})
    ended = [CompletedItem(0, failures[1], small), CompletedItem(1, failures[0], KilledItem("killed"))]
    made = search(monkeypatch)
    made.campaign.failures = {one.finding.group: one for one in failures}
    made.corpus = [stored("y", failures[4].finding)]

    def spread(do, shares, left):
        asked.extend(shares)
        return (one for one in ended)

    monkeypatch.setattr(made, "_spread", spread)
    made.shrink()
    assert asked == [failures[1], failures[0]]               # neither shrunk ones, dead processes nor stored ones
    assert made.campaign.failures[OTHER.group] is small and made.campaign.failures[FOUND.group] is failures[0]
    assert capsys.readouterr().err == f"cachesim: shrinking survives: {FOUND.label}: killed, twice\n"


def test_a_write_error_is_printed_once(monkeypatch, capsys, tmp_path):
    class Folder:
        refused = None

        def keep(self, campaign):
            return [(tmp_path / "new", tmp_path / "old"), (tmp_path / "one", None)] if not self.refused else []

    made = search(monkeypatch, folder=Folder())
    made.keep()
    for refused in ("disk full", "disk full", None, "disk full"):
        made.folder.refused = refused
        made.keep()
    lines = [line.removeprefix("cachesim: ") for line in capsys.readouterr().err.splitlines()]
    written = [f"{tmp_path / 'new'} written in place of old", f"{tmp_path / 'one'} written"]
    assert lines == [*written, "disk full", *written, "disk full"]
    search(monkeypatch).keep()                               # without a folder nothing is written


def test_blocks_of_a_cluster_are_parsed(monkeypatch):
    made, asked = search(monkeypatch, on="dask://x"), []

    def on_cluster(address, function, payloads, left):
        asked.append((address, function, left()))
        [text] = payloads
        return [CompletedItem(0, text, play(text)), CompletedItem(1, text, KilledItem("killed"))]

    monkeypatch.setattr(jobs, "work", lambda job: BLOCK)
    monkeypatch.setattr(jobs, "run_on_cluster", on_cluster)
    assert [*made._played([JOB])] == [CompletedItem(0, JOB, BLOCK), CompletedItem(1, JOB, KilledItem("killed"))]
    assert asked == [("dask://x", "cachesim.tools.search.campaign_jobs:play", None)]


class GivenFolder:
    """Folder that notes what it is asked to keep."""

    def __init__(self):
        self.kept, self.refused = [], None

    def keep(self, campaign):
        self.kept.append((campaign.played, [*campaign.failures]))
        return iter(())


def test_findings_are_kept_after_every_block_and_every_shrunk_case(monkeypatch):
    folder = GivenFolder()
    monkeypatch.setattr(jobs, "work", lambda job: BLOCK._replace(first=job.first, stop=job.stop, played=5))
    monkeypatch.setattr(jobs, "shrunk", lambda failure, plan: failure)
    search = CampaignSearch(PLAN, Campaign(PLAN.profile), folder, UNLIMITED, 1, "")
    search.play(120)
    assert folder.kept == [(5 * n, [FOUND.group]) for n in (1, 2, 3)]
    assert search.campaign.done == [(0, 120)] and search.campaign.failures[FOUND.group].times == 3
    search.shrink()
    assert len(folder.kept) == 4
    search.play(120)
    assert len(folder.kept) == 4


def test_only_failures_that_no_stored_case_shows_are_shrunk_in_their_order(monkeypatch):
    asked = []
    monkeypatch.setattr(jobs, "shrunk", lambda failure, plan: asked.append(failure.first) or failure)
    search = CampaignSearch(PLAN, Campaign(PLAN.profile), None, UNLIMITED, 1, "")
    died, small = FOUND._replace(kind=FaultKind.DIED), FOUND._replace(kind="small")
    for first, finding in ((9, OTHER), (4, FOUND), (1, died), (2, small), (7, FOUND._replace(kind="b"))):
        search.campaign.failures[finding.group] = Failure(first, finding)
    search.campaign.failures[small.group].kept = {"line": "A"}
    search.corpus = [StoredCaseResult("x.toml", [FOUND._replace(kind="b")])]
    search.shrink()
    assert asked == [4, 9]


class TimedPool:
    """Pool that notes what it is given."""

    asked = None

    def __init__(self, do, number):
        self.asked.append(("made", number))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.asked.append("closed")

    def each(self, shares, left):
        self.asked.append(("each", left()))
        yield from ((share, 2 * share) for share in shares)


def test_jobs_with_a_time_limit_run_in_processes_that_can_be_killed(monkeypatch):
    monkeypatch.setattr(jobs, "Pool", TimedPool)
    monkeypatch.setattr(TimedPool, "asked", [])
    search = CampaignSearch(PLAN, Campaign(PLAN.profile), None, UNLIMITED, 3, "")
    assert list(search._spread(None, [1, 2], lambda: 9.0)) == [(1, 2), (2, 4)]
    assert TimedPool.asked == [("made", 3), ("each", 9.0), "closed"]
    monkeypatch.setattr(jobs, "finished", lambda do, shares, number: iter([(do, [*shares], number)]))
    assert list(search._spread("do", iter([1, 2]), lambda: None)) == [("do", [1, 2], 3)]
    assert len(TimedPool.asked) == 3


def test_stored_cases_are_those_of_the_engine(monkeypatch, tmp_path):
    files = [SimpleNamespace(engine=engine, file=name) for engine, name in (
        ("mlx_lm", "b.toml"), ("vllm", "c.toml"), ("mlx_lm", "a.toml"))]  # fmt: skip
    monkeypatch.setattr(jobs, "inside", lambda folder: folder)
    monkeypatch.setattr(jobs, "load_each", lambda folder, known: iter(files))
    assert jobs.stored_cases(tmp_path, PLAN, set()) == ["b.toml", "a.toml"]
    files[:] = files[1:2]
    with pytest.raises(BadInput, match="the folder contains no scenario for mlx_lm"):
        jobs.stored_cases(tmp_path, PLAN, set())
    files.append(BadInput("broken"))
    with pytest.raises(BadInput, match="broken"):
        jobs.stored_cases(tmp_path, PLAN, set())


def test_the_first_error_of_writing_is_printed_at_once(capsys):
    folder = SimpleNamespace(keep=lambda campaign: [], refused="disk full")
    search = CampaignSearch(PLAN, Campaign(PLAN.profile), folder, UNLIMITED, 1, "")
    search.keep()
    search.keep()
    assert capsys.readouterr().err == "cachesim: disk full\n"


@pytest.mark.parametrize(("examples", "total"), [(120, 3), (None, None)])
def test_a_block_whose_process_died_twice_counts_as_a_failure(monkeypatch, examples, total):
    made, totals = search(monkeypatch, CompletedItem(0, JOB, KilledItem("killed"))), []
    monkeypatch.setattr(jobs, "progress", lambda found, number, what: totals.append((number, what)) or found)
    made.play(examples)
    ((_, failure),) = made.campaign.failures.items()
    assert failure.finding.kind == FaultKind.DIED and made.campaign.done == [(JOB.first, JOB.stop)]
    assert totals == [(total, "conversations")]
