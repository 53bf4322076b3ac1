"""Tests of jobs on a cluster whose scheduler is a stand-in: how many are sent, and what becomes of each."""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace

import pytest

from cachesim.base import cluster, limits
from cachesim.base.cluster import AHEAD, Cluster, _call
from cachesim.base.code_version import code_version
from cachesim.base.errors import BadInput
from cachesim.base.pool import CompletedItem, KilledItem


class KilledWorker(Exception):
    def __init__(self, failures):
        self.allowed_failures = failures


class Future:
    """A job that ends as its payload says."""

    def __init__(self, payload):
        self.payload = payload
        self.status = {"raise": "error", "killed": "error", "import": "error", "lost": "lost"}.get(payload, "finished")

    def result(self):
        return f"result of {self.payload}"

    def exception(self):
        return {"raise": KeyError("gone"), "killed": KilledWorker(2), "import": ImportError("no module")}[self.payload]


class Scheduler:
    """Stand-in for ``distributed``: jobs end in the order in which they were sent."""

    KilledWorker = KilledWorker
    TimeoutError = type("TimeoutError", (Exception,), {})

    def __init__(self, threads=1, ends=None):
        self.calls, self.queue, self.ends = [], [], ends
        self.Client = lambda where, **more: self.calls.append((where, more)) or SimpleNamespace(
            nthreads=lambda: {"a": threads, "b": threads}, submit=self.submit, cancel=self.cancel, loop="loop",
            close=lambda timeout: self.calls.append(("closed", timeout)))  # fmt: skip

    def submit(self, function, *given, pure):
        self.calls.append(("submit", function, *given, pure))
        return Future(given[1])

    def cancel(self, futures, force):
        self.calls.append(("cancel", [one.payload for one in futures], force))

    def as_completed(self, first, loop, timeout):
        self.queue = list(first)
        self.calls.append(("first", len(first), loop, timeout))
        return self

    def add(self, future):
        self.queue.append(future)

    def __iter__(self):
        while self.queue:
            yield self.queue.pop(0)
        if self.ends:
            raise self.TimeoutError


@pytest.fixture
def connected(monkeypatch):
    def connect(**given):
        made = Scheduler(**given)
        monkeypatch.setitem(sys.modules, "distributed", made)
        return Cluster("dask://h:1"), made

    return connect


def sent(made):
    return [call[3] for call in made.calls if call[0] == "submit"]


def test_every_job_has_a_result_in_the_order_of_completion(connected):
    one, made = connected()
    payloads = [str(number) for number in range(2 * AHEAD + 3)]
    found = list(one.each("cachesim.x:y", iter(payloads)))
    assert found == [CompletedItem(i, text, f"result of {text}") for i, text in enumerate(payloads)]
    assert made.calls[0] == ("tcp://h:1", {"timeout": cluster.SECONDS, "set_as_default": False})
    assert made.calls[1] == ("submit", _call, "cachesim.x:y", "0", code_version(), limits.lifted(), False)
    assert made.calls[1 + 2 * AHEAD] == ("first", 2 * AHEAD, "loop", None) and sent(made) == payloads
    assert made.calls[-1] == ("cancel", [], True) and one.threads() == 2


def test_without_workers_a_job_waits(connected):
    one, made = connected(threads=0)
    assert len(list(one.each("cachesim.x:y", ["a", "b"]))) == 2 and ("first", 1, "loop", None) in made.calls


def test_no_job_is_sent_when_the_time_is_over(connected):
    one, made = connected()
    seconds = iter([5.0, 5.0, 0.0])
    found = list(one.each("cachesim.x:y", map(str, range(9)), lambda: next(seconds, -1.0)))
    assert len(found) == len(sent(made)) == 2
    one, made = connected(ends="at the end")
    assert len(list(one.each("cachesim.x:y", ["a"]))) == 1
    one, made = connected()
    assert list(one.each("cachesim.x:y", ["a"], lambda: 0.0)) == [] and sent(made) == []
    assert len(list(one.each("cachesim.x:y", ["a"], lambda: 0.5))) == 1


def test_unfinished_jobs_are_cancelled(connected):
    one, made = connected()
    results = one.each("cachesim.x:y", ["a", "b", "c"])
    next(results)
    results.close()
    assert made.calls[-1] == ("cancel", ["b", "c"], True)


def test_a_job_whose_workers_end_is_a_killed_item(connected):
    one, _ = connected()
    assert next(one.each("cachesim.x:y", ["killed"])).result == KilledItem("3 workers ended")


@pytest.mark.parametrize(("payload", "error"), [
    ("lost", "the cluster at dask://h:1 abandoned a job: lost"),
    ("import", "a worker cannot import the function of its job: no module (install the same cachesim on every worker)"),
])  # fmt: skip
def test_a_job_that_cannot_run_is_bad_input(connected, payload, error):
    one, _ = connected()
    with pytest.raises(BadInput) as bad:
        next(one.each("cachesim.x:y", [payload]))
    assert str(bad.value) == error


def test_an_error_of_a_job_is_raised(connected):
    one, _ = connected()
    with pytest.raises(KeyError, match="gone"):
        next(one.each("cachesim.x:y", ["raise"]))


def test_nothing_is_logged_meanwhile(connected):
    one, made = connected()
    before = logging.root.manager.disable
    with one as inner:
        assert inner is one and logging.root.manager.disable == logging.CRITICAL
    assert logging.root.manager.disable == before and made.calls[-1] == ("closed", cluster.SECONDS)


def test_a_scheduler_that_is_gone_is_left(connected, monkeypatch):
    one, _ = connected()
    monkeypatch.setattr(one._client, "close", lambda timeout: 1 // 0)
    with one:
        pass


@pytest.mark.parametrize("raised", [OSError("no route"), ValueError("no route")])
def test_a_scheduler_that_does_not_answer_is_bad_input(monkeypatch, raised):
    def client(where, **more):
        raise raised

    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=client))
    with pytest.raises(BadInput) as bad:
        Cluster("dask://h:1")
    assert str(bad.value) == "no dask scheduler answers at dask://h:1: no route"
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(BadInput, match=r"dask\.distributed is not installed"):
        Cluster("dask://h:1")


def test_a_worker_runs_a_function_of_cachesim_with_the_limits_of_the_sender(monkeypatch):
    lifted = []
    monkeypatch.setattr(cluster.limits, "lift", lifted.append)
    monkeypatch.setattr(cluster, "import_module", lambda name: SimpleNamespace(play=lambda text: (name, text)))
    assert _call("cachesim.x:play", "[1]", code_version(), {"work": 3}) == "('cachesim.x', '[1]')"
    assert lifted == [{"work": 3}]
    for function, version, error in (
        ("os:system", code_version(), "not a function of cachesim: 'os:system'"),
        ("cachesim.x:play", "another", f"a worker has cachesim {code_version()}, expected another (install the same "
                                       "cachesim version on every worker)"),
    ):  # fmt: skip
        with pytest.raises(BadInput) as bad:
            _call(function, "[1]", version, {})
        assert str(bad.value) == error
    with pytest.raises(ValueError):
        _call("cachesim.x:play", "no json", code_version(), {})


@pytest.mark.parametrize(("text", "address"), [
    ("dask://h:1", "tcp://h:1"), ("dask://[::1]:8786", "tcp://[::1]:8786"), ("h:1", ""), ("dask://:1", ""),
    ("dask://h", ""),
    ("dask://h:", ""), ("dask://h/x:1", ""), ("dask://h:x", ""), ("dask://h:\u0663", ""),
])  # fmt: skip
def test_an_address_names_a_host_and_a_port(text, address):
    if address:
        assert cluster.checked_address(text) == address
        return
    with pytest.raises(BadInput) as bad:
        cluster.checked_address(text)
    assert str(bad.value) == f"not a cluster address: {text!r} (expected dask://HOST:PORT of a dask scheduler)"
