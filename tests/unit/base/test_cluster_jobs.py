"""Tests of jobs on a cluster whose scheduler is a stand-in: how many are sent, and what becomes of each."""

from __future__ import annotations

import logging
import sys

import pytest

from cachesim.base import cluster, limits
from cachesim.base.cluster import AHEAD, Cluster
from cachesim.base.code_version import code_version
from cachesim.base.errors import BadInput
from cachesim.base.pool import CompletedItem, KilledItem

ECHO = "cachesim.base.escaping:printable_line"      # a function from string to string


class KilledWorker(Exception):
    def __init__(self, failures):
        self.allowed_failures = failures


class Future:
    """A job that ends as its payload says, or runs in this process."""

    def __init__(self, payload, job):
        self.payload, self.job = payload, job
        ends = {'"raise"': "error", '"killed"': "error", '"import"': "error", '"lost"': "lost"}
        self.status = ends.get(payload, "finished")

    def result(self):
        return self.job()

    def exception(self):
        return {'"raise"': KeyError("gone"), '"killed"': KilledWorker(2), '"import"': ImportError("no module")}[
            self.payload]  # fmt: skip


class Scheduler:
    """Stand-in for ``distributed``: jobs end in the order in which they were sent. ``version``: of its workers."""

    KilledWorker = KilledWorker
    TimeoutError = type("TimeoutError", (Exception,), {})
    loop = "loop"

    def __init__(self, threads=1, ends=None, version="", broken=False):
        self.threads, self.queue, self.sent, self.cancelled, self.ends = threads, [], [], [], ends
        self.version, self.broken, self.where, self.first, self.is_closed = version, broken, "", 0, False
        self.before = lambda: None              # called when a worker begins a job

    def Client(self, where, **more):
        self.where = where
        return self

    def nthreads(self):
        return {"a": self.threads, "b": self.threads}

    def submit(self, function, *given, pure):
        words = [self.version if self.version and word == code_version() else word for word in given]
        self.sent.append(given[1])
        return Future(given[1], lambda: (self.before(), function(*words))[1])

    def cancel(self, futures, force):
        self.cancelled = [one.payload for one in futures]

    def close(self, timeout):
        self.is_closed = True
        if self.broken:
            raise OSError

    def as_completed(self, first, loop, timeout):
        self.queue, self.first = list(first), len(first)
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


def test_every_job_has_a_result_in_the_order_of_completion(connected):
    one, made = connected()
    payloads = [str(number) for number in range(2 * AHEAD + 3)]
    found = list(one.each(ECHO, iter(payloads)))
    assert found == [CompletedItem(i, text, text) for i, text in enumerate(payloads)]
    assert (made.where, made.first, made.sent, one.threads()) == ("tcp://h:1", 2 * AHEAD, payloads, 2)


def test_without_workers_a_job_waits(connected):
    one, made = connected(threads=0)
    assert len(list(one.each(ECHO, ["1", "2"]))) == 2 and made.first == 1


def test_no_job_is_sent_when_the_time_is_over(connected):
    one, made = connected()
    seconds = iter([5.0, 5.0, 0.0])
    found = list(one.each(ECHO, map(str, range(9)), lambda: next(seconds, -1.0)))
    assert len(found) == len(made.sent) == 2
    one, made = connected(ends="at the end")
    assert len(list(one.each(ECHO, ["1"]))) == 1
    one, made = connected()
    assert list(one.each(ECHO, ["1"], lambda: 0.0)) == [] and made.sent == []
    assert len(list(one.each(ECHO, ["1"], lambda: 0.5))) == 1


def test_unfinished_jobs_are_cancelled(connected):
    one, made = connected()
    results = one.each(ECHO, ["1", "2", "3"])
    next(results)
    results.close()
    assert made.cancelled == ["2", "3"]


def test_a_job_whose_workers_end_is_a_killed_item(connected):
    one, _ = connected()
    assert next(one.each(ECHO, ['"killed"'])).result == KilledItem("3 workers ended")


@pytest.mark.parametrize(("function", "payload", "error", "key"), [
    (ECHO, '"lost"', BadInput, "lost"), (ECHO, '"import"', BadInput, "no module"), (ECHO, '"raise"', KeyError, "gone"),
    ("os:system", '"true"', BadInput, "os:system"), (ECHO, "no json", ValueError, "Expecting"),
])  # fmt: skip
def test_a_job_that_cannot_run_is_an_error(connected, function, payload, error, key):
    one, _ = connected()
    with pytest.raises(error, match=key):
        next(one.each(function, [payload]))


def test_a_worker_with_another_version_is_refused(connected):
    one, _ = connected(version="0.0.1")
    with pytest.raises(BadInput, match=r"expected 0\.0\.1"):
        next(one.each(ECHO, ["1"]))


def test_a_worker_has_the_limits_of_the_sender(connected):
    """The worker is this process: it has other limits when it begins the job."""
    one, made = connected()
    limits.lift({"tokens": 3})
    made.before = lambda: limits.lift({"bodies": 5})
    assert len(list(one.each(ECHO, ["1"]))) == 1 and limits.lifted() == {"tokens": 3}


@pytest.mark.parametrize("broken", [False, True])
def test_nothing_is_logged_meanwhile(connected, broken):
    one, made = connected(broken=broken)
    before = logging.root.manager.disable
    with one as inner:
        assert inner is one and logging.root.manager.disable == logging.CRITICAL
    assert logging.root.manager.disable == before and made.is_closed


@pytest.mark.parametrize("raised", [OSError("no route"), ValueError("no route")])
def test_a_scheduler_that_does_not_answer_is_bad_input(monkeypatch, raised):
    class Unreachable:
        def Client(self, where, **more):
            raise raised

    monkeypatch.setitem(sys.modules, "distributed", Unreachable())
    with pytest.raises(BadInput, match=r"dask://h:1.*no route"):
        Cluster("dask://h:1")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(BadInput, match="pip install"):
        Cluster("dask://h:1")


@pytest.mark.parametrize(("text", "address"), [
    ("dask://h:1", "tcp://h:1"), ("dask://[::1]:8786", "tcp://[::1]:8786"), ("h:1", ""), ("dask://:1", ""),
    ("dask://h", ""),
    ("dask://h:", ""), ("dask://h/x:1", ""), ("dask://h:x", ""), ("dask://h:\u0663", ""),
])  # fmt: skip
def test_an_address_names_a_host_and_a_port(text, address):
    if address:
        assert cluster.checked_address(text) == address
        return
    with pytest.raises(BadInput, match="not a cluster address"):
        cluster.checked_address(text)
