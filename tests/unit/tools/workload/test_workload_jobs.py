"""Tests of running a workload: jobs as JSON, results that are kept, and errors that are printed."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput, Crash
from cachesim.base.pool import KilledItem
from cachesim.tools.workload import workload_jobs
from cachesim.tools.workload.cell_jobs import CellJob
from cachesim.tools.workload.workload_jobs import Workload, WorkloadTask, line_in, packed, play, tasks, unpacked

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


def test_a_worker_returns_a_line_or_an_error(monkeypatch):
    monkeypatch.setattr(workload_jobs, "id_of", lambda job: f"id of {job.model}")
    monkeypatch.setattr(workload_jobs, "line_of", lambda job: {"n": job.scale})
    assert json.loads(play(packed(JOB, "id of GA"))) == {"line": {"n": 4}}
    refused = play(packed(JOB, "another id"))
    assert json.loads(refused)["bad"].endswith("a.json: the worker has a different version of this file")

    def fails(job):
        raise BadInput("broken", file="a.json")

    monkeypatch.setattr(workload_jobs, "line_of", fails)
    assert json.loads(play(packed(JOB, "id of GA"))) == {"bad": "a.json: broken"}


def test_a_result_is_a_line_or_an_error():
    assert line_in('{"line": {"n": 4}}') == {"n": 4}
    found = line_in('{"bad": "a.json: broken"}')
    assert isinstance(found, BadInput) and str(found) == "a.json: broken"


def test_equal_jobs_are_run_once(monkeypatch):
    monkeypatch.setattr(workload_jobs, "id_of", lambda job: job.model)
    other = JOB._replace(model="A")
    assert tasks([JOB, other, JOB]) == [WorkloadTask(JOB, "GA"), WorkloadTask(other, "A")]


class Folder:
    """Folder with these lines; it keeps no line whose id is "full"."""

    def __init__(self, **known):
        self.known, self.begun = known, []

    def begin(self, resume):
        self.begun.append(resume)
        return dict(self.known)

    def keep(self, name, line):
        if name == "full":
            raise BadInput("no space")
        self.known[name] = line


def todo(*names):
    return [WorkloadTask(JOB._replace(files=(f"{name}.json",)), name) for name in names]


@pytest.fixture
def run_here(monkeypatch):
    """Run jobs whose result is given by their file, the last one first; the number of processes is noted."""
    asked = []

    def begin(results):
        def finished(work, jobs, processes):
            asked.append((work, [job.files[0] for job in jobs], processes))
            for number in reversed(range(len(jobs))):
                yield SimpleNamespace(number=number, result=results[jobs[number].files[0]])

        monkeypatch.setattr(workload_jobs, "finished", finished)
        return asked

    return begin


def test_jobs_that_the_folder_lacks_are_run_and_kept(run_here):
    asked = run_here({"b.json": {"n": 2}, "c.json": {"n": 3}})
    folder = Folder(a={"n": 1}, other={"n": 9})
    workload = Workload(todo("a", "b", "c"), folder, 3)
    workload.play(True)
    assert workload.lines == {0: {"n": 1}, 1: {"n": 2}, 2: {"n": 3}}
    assert workload.errors == [] and folder.begun == [True]
    assert asked == [(workload_jobs._one, ["b.json", "c.json"], 3)]
    assert folder.known == {"a": {"n": 1}, "other": {"n": 9}, "b": {"n": 2}, "c": {"n": 3}}


def test_errors_are_printed_and_leave_no_line(run_here, capsys):
    run_here({"a.json": KilledItem("killed by signal 9"), "b.json": BadInput("broken", file="b.json"),
              "full.json": {"n": 1}})  # fmt: skip
    workload = Workload(todo("a", "b", "full"), Folder(), 1)
    workload.play(False)
    texts = ["no space", "b.json: broken", "a.json: killed by signal 9, twice (a fault of cachesim)"]
    assert [str(error) for error in workload.errors] == texts and workload.lines == {2: {"n": 1}}
    assert [type(error) for error in workload.errors] == [BadInput, BadInput, Crash]
    printed = capsys.readouterr().err.splitlines()
    assert [line for line in printed if line.startswith("cachesim: ")] == [f"cachesim: {text}" for text in texts]


def test_without_a_folder_every_job_is_run(run_here):
    run_here({"a.json": {"n": 1}})
    workload = Workload(todo("a"), None, 1)
    workload.play(True)
    assert workload.lines == {0: {"n": 1}}


def test_on_a_cluster_jobs_are_sent_as_text(monkeypatch):
    asked = []

    def run_on_cluster(address, play, texts):
        asked.append((address, play, [json.loads(text)["id"] for text in texts]))
        yield SimpleNamespace(number=1, result='{"line": {"n": 2}}')
        yield SimpleNamespace(number=0, result=KilledItem("gone"))

    monkeypatch.setattr(workload_jobs, "run_on_cluster", run_on_cluster)
    workload = Workload(todo("a", "b", "c"), Folder(a={"n": 1}), 1, on="host:1")
    workload.play(True)
    assert asked == [("host:1", "cachesim.tools.workload.workload_jobs:play", ["b", "c"])]
    assert workload.lines == {0: {"n": 1}, 2: {"n": 2}}
    assert [str(error) for error in workload.errors] == ["b.json: gone, twice (a fault of cachesim)"]


def test_an_error_of_a_job_names_its_first_file(monkeypatch):
    def fails(job):
        raise BadInput("broken")

    monkeypatch.setattr(workload_jobs, "line_of", fails)
    assert str(workload_jobs._one(JOB)) == "a.json: broken"
    monkeypatch.setattr(workload_jobs, "line_of", lambda job: {"n": 1})
    assert workload_jobs._one(JOB) == {"n": 1}
