"""Jobs of a command: what becomes of those that fail, and jobs on a cluster."""

from __future__ import annotations

import pytest

from cachesim.base import cluster, exits
from cachesim.base.errors import BadInput
from cachesim.base.pool import CompletedItem, KilledItem
from cachesim.engines import rule_files
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.run import run_jobs as jobs
from cachesim.tools.run.run_jobs import (
    JobFailure,
    RunJob,
    answers_code,
    check_cluster_profiles,
    result_or_failure,
    rule_file_error,
    run_each,
    run_on_cluster,
)


@pytest.mark.parametrize(("threads", "text"), [
    (0, "cachesim: dask://x has no workers yet: waiting for one\n"), (2, ""),
])  # fmt: skip
def test_a_cluster_without_workers_is_waited_for_with_a_note(monkeypatch, capsys, threads, text):
    class Cluster:
        def __init__(self, address):
            self.address = address

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def threads(self):
            return threads

        def each(self, function, payloads, left):
            assert left() is None
            yield from (CompletedItem(payload, f"{function} {self.address}", "") for payload in payloads)

    monkeypatch.setattr(cluster, "Cluster", Cluster)
    found = [*run_on_cluster("dask://x", "work", ["a", "b"])]
    assert [item[:2] for item in found] == [("a", "work dask://x"), ("b", "work dask://x")]
    assert capsys.readouterr().err == text


def number(text):
    """Return an integer; raise BadInput for "bad"."""
    if text == "bad":
        raise BadInput("not a number")
    return int(text)


def test_a_job_that_raises_has_an_exit_code_and_a_line(monkeypatch):
    assert result_or_failure(number, "7", "it") == 7
    assert result_or_failure(number, "bad", "it") == JobFailure(exits.BAD_INPUT, "it: not a number")
    crash = result_or_failure(number, "x", "it")
    assert crash.code == exits.CRASH and crash.why.startswith("it: ValueError: invalid literal")
    assert crash.why.endswith("(a fault of cachesim)")
    monkeypatch.setattr(rule_files, "locate_fault", lambda error: BadInput("my_rules.py:3: it"))
    assert result_or_failure(number, "x", "the case") == JobFailure(exits.BAD_INPUT, "my_rules.py:3: it (the case)")


def test_without_a_file_of_rules_no_error_is_one_of_it(monkeypatch):
    monkeypatch.delitem(jobs.sys.modules, "cachesim.engines.rule_files", raising=False)
    assert rule_file_error(ValueError()) is None


def test_the_results_of_several_shares_and_the_codes_of_those_that_failed(capsys):
    assert run_each(["1", "bad", "2", "bad"], number, "share {}".format, label="") == ([1, 2], [exits.BAD_INPUT] * 2)
    assert capsys.readouterr().err == "cachesim: share bad: not a number\n" * 2
    assert run_each(["3"], number, str) == ([3], [])
    with pytest.raises(BadInput, match="not a number"):
        run_each(["bad"], number, str)
    assert run_each([], number, str) == ([], [])


def test_a_job_whose_process_was_killed_has_failed(monkeypatch):
    job = RunJob(from_line("A4"), "llama_cpp@b11549", "provenance")
    killed, result = CompletedItem(1, job, KilledItem("killed by signal 9")), CompletedItem(0, job, {"run": 1})
    asked = []

    def finished(function, shares, processes):
        asked.append(processes)
        return [killed, result]

    monkeypatch.setattr(jobs, "finished", finished)
    monkeypatch.setattr(jobs, "progress", lambda found, *_: found)
    [first, second] = jobs.run_jobs([job, job], 4)
    assert first == (1, JobFailure(exits.CRASH, f"{job}: killed by signal 9, twice")) and second == (0, {"run": 1})
    assert str(job) == "try under llama_cpp@b11549"
    list(jobs.run_jobs([job, job._replace(recorder=object())], 4))
    assert asked == [4, 1]                                       # a picture is recorded in this process


@pytest.mark.parametrize(("answers", "code"), [
    ([], exits.HOLDS), ([(True, False)], exits.HOLDS), ([(None, True)], exits.HOLDS),
    ([(None, False)], exits.UNDECIDED),
    ([(False, True), (None, False)], exits.BROKEN), ([(True, False), (False, False)], exits.BROKEN),
])  # fmt: skip
def test_a_refusal_that_the_file_expects_is_not_undecided(answers, code):
    assert answers_code(answers) == code


def test_rules_from_a_file_do_not_run_on_a_cluster(monkeypatch):
    monkeypatch.setattr(rule_files, "rule_file_digest", lambda name: "digest" if name == "mine" else "")
    check_cluster_profiles(None, ["mine"])
    check_cluster_profiles("dask://x", ["llama_cpp@b11549", ""])
    with pytest.raises(BadInput, match="--on 'dask://x': workers cannot use rules from a local file"):
        check_cluster_profiles("dask://x", ["llama_cpp@b11549", "mine"])


def test_a_progress_bar_has_a_label_or_is_left_out(monkeypatch):
    bars = []
    monkeypatch.setattr(jobs, "progress", lambda shares, total, label: bars.append((total, label)) or shares)
    for label in ({}, {"label": ""}, {"label": "asking"}):
        assert run_each([1, 2], str, str, **label) == (["1", "2"], [])
    assert bars == [(2, "running"), (2, "asking")]
