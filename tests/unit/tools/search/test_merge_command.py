"""Command ``merge``: folders, what is written, exit codes and the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.tools.search.campaign import Campaign, CampaignPlan, Failure
from cachesim.tools.search.campaign_file import packed
from cachesim.tools.search.property_failure import SIMULATOR, PropertyFailure
from cachesim.tools.workload.cell_jobs import CellJob, line_of
from cachesim.tools.workload.result_store import WorkloadFolder, id_of

PROFILE = "llama_cpp@b11549"
PLAN = CampaignPlan(PROFILE, ("survives",), ("A",), "provenance", 3)
FOUND = PropertyFailure("survives", 1, "crash", {"error": "it fell"}, "R.1")


def store(folder, name, first, stop, *failures, plan=PLAN):
    """Store a campaign of some conversations."""
    folder.mkdir(exist_ok=True)
    found = Campaign(plan.profile, {one.finding.group: one for one in failures}, stop - first, 0, [(first, stop)])
    (folder / f"campaign-{name}.json").write_bytes(packed(plan, found, {}))
    return folder


def store_workload(path, **numbers):
    """Store a workload of a job with these numbers."""
    job = CellJob((str(Path(__file__).parents[3] / "workloads/data/chat.jsonl"),), PROFILE, "A", {}, 64, "judged")
    folder = WorkloadFolder(path, [id_of(job)])
    with folder.held():
        folder.begin(resume=False)
        folder.keep(id_of(job), {**line_of(job), **numbers})
    return path


def call(capsys, *argv):
    code = main(["merge", *map(str, argv)])
    out, err = capsys.readouterr()
    return code, out, err


def test_parts_in_several_folders_are_one_campaign(capsys, tmp_path):
    one, two = store(tmp_path / "a", "x", 0, 5), store(tmp_path / "b", "x", 5, 9)
    code, out, err = call(capsys, one, two, "--json")
    (data,) = json.loads(out)["campaigns"]
    assert (code, err, data["examples"], data["done"], data["left_out"]) == (exits.HOLDS, "", 9, [[0, 9]], [])
    assert data["files"] == [str(folder / "campaign-x.json") for folder in (one, two)]
    assert json.loads(out)["workloads"] == [] and sorted(tmp_path.iterdir()) == [one, two]


def test_a_report_has_the_files_and_what_is_missing(capsys, tmp_path):
    code, out, _ = call(capsys, store(tmp_path, "x", 3, 5), store(tmp_path, "y", 4, 5))
    assert (code, out.splitlines()[:2]) == (exits.HOLDS, [
        "1 file, 2 conversations; 1 file skipped (no further conversations)", "not run: 0 .. 2"])  # fmt: skip


@pytest.mark.parametrize(("name", "code"), [("survives", exits.BROKEN), (SIMULATOR, exits.CRASH)])
def test_a_failure_is_the_exit_code(capsys, tmp_path, name, code):
    one = Failure(7, FOUND._replace(name=name, kind="x", causes=()), 2)
    got, out, _ = call(capsys, store(tmp_path, "x", 0, 5, one))
    assert got == code and "1 distinct failure" in out


def test_what_is_merged_is_written_and_what_is_there_is_merged_too(capsys, tmp_path):
    out = tmp_path / "out"
    assert call(capsys, store(tmp_path / "a", "x", 0, 5), "--out", out)[0] == exits.HOLDS
    assert [file.name for file in out.glob("*.json")] == [f"{PLAN.stem}.json"]
    code, text, _ = call(capsys, store(tmp_path / "b", "x", 5, 9), "--out", out, "--json")
    (data,) = json.loads(text)["campaigns"]
    assert (code, data["done"]) == (exits.HOLDS, [[0, 9]])
    assert json.loads((out / f"{PLAN.stem}.json").read_text())["done"] == [[0, 9]]
    assert json.loads(call(capsys, out, "--out", f"{out}/.", "--json")[1])["campaigns"][0]["files"] == [
        str(out / f"{PLAN.stem}.json")]  # fmt: skip


def test_an_empty_folder_for_the_result_is_not_one_of_the_parts(capsys, tmp_path):
    (tmp_path / "out").mkdir()
    assert call(capsys, store(tmp_path / "a", "x", 0, 5), "--out", tmp_path / "out")[0] == exits.HOLDS


def test_a_file_is_not_a_folder(capsys, tmp_path):
    file = Path(store(tmp_path, "x", 0, 5) / "campaign-x.json")
    assert call(capsys, file) == (exits.BAD_INPUT, "", f"cachesim: {file}: not a folder\n")


def test_a_result_that_cannot_be_written_is_exit_2_and_printed(capsys, tmp_path):
    (tmp_path / "out" / f"{PLAN.stem}.json").mkdir(parents=True)
    code, _, err = call(capsys, store(tmp_path / "a", "x", 0, 5), "--out", tmp_path / "out")
    assert code == exits.BAD_INPUT and PLAN.stem in err


@pytest.mark.parametrize(("numbers", "code"), [
    ({}, exits.HOLDS), ({"wrong": 1}, exits.BROKEN), ({"died": 1}, exits.BROKEN), ({"undecided": 1}, exits.UNDECIDED),
])  # fmt: skip
def test_a_workload_beside_a_campaign_is_merged_and_counts_for_the_exit_code(capsys, tmp_path, numbers, code):
    """Also that of the folder for the result."""
    campaign, out = store(tmp_path / "a", "x", 0, 5), store_workload(tmp_path / "out", **numbers)
    for words in ((campaign, out), (campaign, "--out", out)):
        got, text, _ = call(capsys, *words, "--json")
        data = json.loads(text)
        assert (got, len(data["campaigns"]), [one["jobs"] for one in data["workloads"]]) == (code, 1, [1])
