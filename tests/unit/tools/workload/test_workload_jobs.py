"""Tests of running a workload: jobs as JSON, results that are kept, and errors that are printed."""

from __future__ import annotations

import json

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.workload.cell_jobs import CellJob, line_of
from cachesim.tools.workload.result_store import WorkloadFolder
from cachesim.tools.workload.workload_jobs import Workload, WorkloadTask, line_in, packed, tasks, unpacked
from tests.shared import ROOT

JOB = CellJob(("a.json", "/b/c.json"), "llama_cpp@b10587", "GA", {"parallel": 2}, 4, "judged", True)


def test_a_job_is_sent_with_absolute_paths(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    sent = unpacked(packed(JOB, "id1"))
    assert sent == JOB._replace(files=(str(tmp_path / "a.json"), "/b/c.json")) and type(sent.files) is tuple
    assert json.loads(packed(JOB, "id1"))["id"] == "id1"
    (tmp_path / "GA").write_text("{}")
    assert unpacked(packed(JOB, "id1")).model == str(tmp_path / "GA")
    with pytest.raises(KeyError):
        unpacked("{}")


def test_a_result_is_a_line_or_an_error():
    assert line_in('{"line": {"n": 4}}') == {"n": 4}
    found = line_in('{"bad": "a.json: broken"}')
    assert isinstance(found, BadInput) and str(found) == "a.json: broken"


FILES = [f"tests/workloads/data/{name}" for name in ("chat.jsonl", "agents.json")]
CHAT, AGENTS = (CellJob((str(ROOT / file),), "llama_cpp@b10587", "GA", {}, 64) for file in FILES)


def test_equal_jobs_are_run_once():
    found = tasks([CHAT, AGENTS, CHAT])
    assert [one.job for one in found] == [CHAT, AGENTS] and found[0].id != found[1].id


def test_jobs_that_the_folder_lacks_are_run_and_kept(tmp_path):
    todo = tasks([CHAT, AGENTS])
    first = Workload(todo[:1], WorkloadFolder(tmp_path, [one.id for one in todo]), 1)
    first.play(resume=False)
    again = Workload(todo, WorkloadFolder(tmp_path, [one.id for one in todo]), 2)
    again.play(resume=True)
    assert again.errors == [] and again.lines == {0: first.lines[0], 1: line_of(AGENTS)}
    third = WorkloadFolder(tmp_path, [one.id for one in todo])
    assert third.begin(resume=True) == {task.id: again.lines[number] for number, task in enumerate(todo)}


def test_errors_are_printed_and_leave_no_line(tmp_path, capsys):
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}")
    workload = Workload([WorkloadTask(CHAT._replace(files=(str(bad),)), ""), WorkloadTask(CHAT, "")], None, 1)
    workload.play(resume=True)
    assert [*workload.lines] == [1] and [type(error) for error in workload.errors] == [BadInput]
    assert str(bad) in str(workload.errors[0])
    assert [line for line in capsys.readouterr().err.splitlines() if str(workload.errors[0]) in line]
