"""Tests of the process pool: no lost shares, no remaining processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import pytest

from cachesim.base import pool
from cachesim.base.errors import ENDING, BadInput, Crash
from cachesim.base.pool import CompletedItem, KilledItem, Pool, cores, exit_text, finished, spread, whole

FOREVER = 3600          # seconds; no test waits that long
DEADLY = -1


def double(n):
    return 2 * n


def who(_):
    return os.getpid()


def fatal(n):
    """Kill this process at DEADLY."""
    if n == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    return n


def fatal_once(job):
    """Kill this process unless another process died of this share before."""
    folder, n = job
    try:
        Path(folder, str(n)).touch(exist_ok=False)
    except FileExistsError:
        return n
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(n):
    raise BadInput("not this one", file=f"f{n}", line=3)


def opaque(_):
    return lambda: None


def wait_for_ever(_):
    time.sleep(FOREVER)


def ask_to_end(n):
    """Send SIGINT to every process of the group, as a terminal does at Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)
    return n


def children():
    return len(multiprocessing.active_children())


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_results_come_in_order_whatever_the_number_of_processes(jobs):
    assert list(spread(double, range(40), jobs)) == [2 * n for n in range(40)]
    assert sorted(finished(double, range(9), jobs)) == [(n, n, 2 * n) for n in range(9)]
    assert children() == 0


def test_no_process_is_started_without_work():
    with Pool(who, 50) as pool:
        assert len({pid for _, _, pid in pool.each(range(3))} - {os.getpid()}) <= 3
        assert children() <= 3
    assert children() == 0


def test_a_pool_may_be_used_again():
    with Pool(who, 2) as pool:
        first = {pid for _, _, pid in pool.each(range(8))}
        assert {pid for _, _, pid in pool.each(range(8))} <= first


def test_shares_are_drawn_as_they_are_needed():
    drawn = []

    def shares():
        for n in range(10**9):
            drawn.append(n)
            yield n

    with Pool(double, 2) as pool:
        for _ in zip(pool.each(shares()), range(5), strict=False):
            pass
    assert len(drawn) < 12


def test_a_share_whose_process_dies_is_done_by_another(tmp_path):
    assert list(spread(fatal_once, [(tmp_path, n) for n in range(7)], 2)) == list(range(7))
    assert len(list(tmp_path.iterdir())) == 7
    assert children() == 0


@pytest.mark.parametrize("jobs", [2, 3])
def test_a_share_at_which_every_process_dies_is_named_and_the_others_are_done(jobs):
    shares = [0, 1, DEADLY, 3, DEADLY, 5, 6, 7]
    assert list(spread(fatal, shares, jobs)) == [KilledItem("killed by SIGKILL") if n == DEADLY else n for n in shares]
    assert children() == 0


def test_a_worker_that_dies_while_it_waits_costs_nothing():
    with Pool(who, 2) as pool:
        dead = {pid for _, _, pid in pool.each(range(2))}
        for process in multiprocessing.active_children():
            process.kill()
            process.join()
        assert not {pid for _, _, pid in pool.each(range(4))} & dead


def test_a_worker_that_died_while_it_waited_gets_no_share(tmp_path):
    """A share survives the death of one process. If the dead worker had got it, that would be the second."""
    with Pool(fatal_once, 2) as pool:
        assert len([*pool.each([(tmp_path, 1), (tmp_path, 2)])]) == 2
        last = pool._idle[-1].process
        last.kill()
        last.join()
        assert [done.result for done in pool.each([(tmp_path, 3)])] == [3]


def test_an_exception_of_the_work_keeps_its_traceback():
    with pytest.raises(BadInput) as caught:
        list(spread(refuse, range(3), 2))
    assert str(caught.value).startswith("f") and caught.value.line == 3
    assert "in refuse" in caught.value.__notes__[0]
    assert children() == 0


def test_a_result_that_cannot_be_pickled_is_an_error():
    with pytest.raises(Crash, match="cannot be sent"):
        list(spread(opaque, range(2), 2))


def test_the_pool_stops_when_the_time_is_over():
    ends = iter([None, None, None, 0.0])
    with Pool(wait_for_ever, 2) as pool:
        assert list(pool.each(range(9), lambda: next(ends, 0.0))) == []
        assert children() == 2
    assert children() == 0


def test_no_time_no_process():
    with Pool(double, 2) as pool:
        assert list(pool.each(range(9), lambda: 0.0)) == []
        assert children() == 0


def test_an_interrupt_ends_the_workers():
    with pytest.raises(KeyboardInterrupt), Pool(fatal, 2) as pool:
        for _ in pool.each(range(100)):
            raise KeyboardInterrupt
    assert children() == 0


def test_workers_do_not_hear_an_interrupt():
    assert list(spread(ask_to_end, range(6), 2)) == list(range(6))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_when_their_parent_is_killed(number):
    """All workers hold this pipe; it breaks only when the last of them has ended."""
    code = (
        "import sys\nfrom tests.unit.base.test_pool import say_and_wait\nfrom cachesim.base.pool import Pool\n"
        "with Pool(say_and_wait, 3) as pool:\n    list(pool.each(range(3)))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        lines = [parent.stdout.readline() for _ in range(3)]
        os.kill(parent.pid, number)              # first, so that the test cannot hang
        assert lines == [b"ready\n"] * 3
        assert parent.stdout.read() == b""
    assert parent.returncode == -number


def say_and_wait(_):
    os.write(1, b"ready\n")                      # in a single write: lines of several processes do not mix
    time.sleep(FOREVER)


def test_how_a_process_ended():
    assert [exit_text(code) for code in (1, -9, -250)] == ["exit code 1", "killed by SIGKILL", "killed by signal 250"]
    assert 1 <= cores() <= (os.cpu_count() or 1)


def remember(name, value):
    os.environ[name] = value


def remembered(name):
    return os.environ.get(name)


def test_a_new_worker_repeats_the_calls_that_set_up_its_parent(monkeypatch):
    monkeypatch.setattr(pool, "_init_calls", [])
    pool.begin_with(remember, "CACHESIM_TEST_CALL", "yes")
    assert os.environ.get("CACHESIM_TEST_CALL") is None
    assert [*spread(remembered, ["CACHESIM_TEST_CALL"] * 2, 2)] == ["yes"] * 2


class Link:
    """Pipe to a worker: arguments to receive, then its end; what was sent."""

    def __init__(self, *todo, refused=()):
        self.todo, self.sent, self.refused = list(todo), [], refused

    def recv(self):
        if not self.todo:
            raise EOFError
        return self.todo.pop(0)

    def send(self, reply):
        if reply[0] in self.refused:
            raise TypeError("cannot pickle")
        self.sent.append(reply)


@pytest.fixture
def served(monkeypatch):
    """Serve a pipe as a worker process does; return the signals that were set and the threads that were started."""
    def serve(link, work, calls=()):
        signals, threads, order = {}, [], []
        monkeypatch.setattr(pool.signal, "signal", lambda number, handler: signals.update({number: handler}))
        monkeypatch.setattr(pool, "unblock_signals", lambda: order.append("unblocked"))

        def thread(target, daemon):
            return SimpleNamespace(start=lambda: threads.append((target, daemon)))

        monkeypatch.setattr(pool, "threading", SimpleNamespace(Thread=thread))
        pool._serve(work, link, [(order.append, (name,)) for name in calls])
        monkeypatch.undo()
        return signals, threads, order

    return serve


def test_a_worker_sets_up_its_state_and_then_answers(served):
    link = Link(3, 0, 5)
    signals, threads, order = served(link, lambda what: 15 // what, ("a", "b"))
    assert order == ["a", "b", "unblocked"] and threads == [(pool._end_with_parent, True)]
    assert [reply[0] for reply in link.sent] == [5, None, 3] and [reply[1] for reply in link.sent[::2]] == [None, None]
    error = link.sent[1][1]
    assert isinstance(error, ZeroDivisionError) and "ZeroDivisionError" in error.__notes__[0]
    assert error.__notes__[0].startswith("in a worker process:\nTraceback")
    assert {number for number, handler in signals.items() if handler is signal.SIG_DFL} == {
        getattr(signal, name) for name in ENDING}  # fmt: skip
    assert signals[signal.SIGINT](2, None) is None and signals[signal.SIGINT] is not signal.SIG_IGN


def test_a_result_that_cannot_be_sent_is_a_fault(served):
    link = Link(1, 2, refused=(10,))
    served(link, lambda what: 10 * what)
    result, error = link.sent[0]
    assert result is None and isinstance(error, Crash) and str(error) == "a result cannot be sent: cannot pickle; int"
    assert link.sent[1] == (20, None)


def test_an_error_that_cannot_be_sent_is_named():
    link = Link(refused=(None,))
    with pytest.raises(TypeError):
        pool._send(link, (None, ValueError("it")))
    sent = []

    def send(reply):
        if isinstance(reply[1], ValueError):
            raise AttributeError("no pickle")
        sent.append(reply)

    pool._send(SimpleNamespace(send=send), (None, ValueError("it")))
    assert sent[0][0] is None and str(sent[0][1]) == "a result cannot be sent: no pickle; it"


def test_a_worker_is_ended_by_the_end_of_the_interpreter_too():
    with Pool(double, 1) as workers:
        assert [done.result for done in workers.each([2])] == [4]
        assert [worker.process.daemon for worker in workers._idle] == [True]


def test_a_worker_ends_with_its_parent(monkeypatch):
    calls = []
    monkeypatch.setattr(pool, "os", SimpleNamespace(_exit=calls.append))
    monkeypatch.setattr("multiprocessing.parent_process", lambda: SimpleNamespace(join=lambda: calls.append("joined")))
    pool._end_with_parent()
    assert calls == ["joined", 1]
    monkeypatch.setattr("multiprocessing.parent_process", lambda: None)
    pool._end_with_parent()
    assert calls == ["joined", 1]


@pytest.mark.parametrize(("code", "text"), [
    (0, "exit code 0"), (3, "exit code 3"), (-9, "killed by SIGKILL"), (-999, "killed by signal 999"),
])  # fmt: skip
def test_the_end_of_a_process_is_named(code, text):
    assert pool.exit_text(code) == text


def test_the_processors_are_those_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(pool.os, "sched_getaffinity", lambda number: {1, 4, 5} if number == 0 else None, raising=False)
    assert pool.cores() == 3
    monkeypatch.delattr(pool.os, "sched_getaffinity")
    monkeypatch.setattr(pool.os, "cpu_count", lambda: 7)
    assert pool.cores() == 7
    monkeypatch.setattr(pool.os, "cpu_count", lambda: None)
    assert pool.cores() == 1


def test_signals_are_blocked_and_restored_also_after_an_error(monkeypatch):
    calls = []
    monkeypatch.setattr(pool.signal, "pthread_sigmask", lambda *given: calls.append(given) or "before")
    both = (signal.SIGINT, signal.SIGTERM)
    with pytest.raises(KeyError), pool.blocked_signals():
        raise KeyError
    assert calls == [(signal.SIG_BLOCK, both), (signal.SIG_SETMASK, "before")]
    pool.unblock_signals()
    assert calls[2:] == [(signal.SIG_UNBLOCK, both)]
    monkeypatch.delattr(pool.signal, "pthread_sigmask")
    with pool.blocked_signals():
        pool.unblock_signals()
    assert len(calls) == 3


def test_results_in_order_and_as_a_list():
    killed = KilledItem("killed by SIGKILL")
    assert whole([1, 2]) == [1, 2] and whole([]) == []
    with pytest.raises(Crash) as crash:
        whole([1, killed])
    assert str(crash.value) == ("two worker processes ended while doing the same part of the work: killed by SIGKILL")
    assert list(spread(lambda n: 2 * n, [3, 1], 1)) == [6, 2]
    assert [(one.number, one.share, one.result) for one in finished(str, [3, 1], 1)] == [(0, 3, "3"), (1, 1, "1")]


def test_results_wait_for_those_before_them(monkeypatch):
    ends = [CompletedItem(number, None, f"r{number}") for number in (2, 0, 1, 3)]
    monkeypatch.setattr(pool, "finished", lambda *given: iter(ends))
    assert list(spread(str, [0] * 4, 2)) == ["r0", "r1", "r2", "r3"]


def test_a_share_is_tried_again_once_and_then_counts_as_unfinished():
    pool_ = Pool(abs, 1)
    pool_._bury, again = lambda worker: "exit code 3", deque()
    assert list(pool_._died(None, pool._Share(4, "x"), again)) == [] and [*again] == [pool._Share(4, "x", 1)]
    assert list(pool_._died(None, again.pop(), again)) == [CompletedItem(4, "x", KilledItem("exit code 3"))]
    assert not again


def test_a_pool_that_is_left_has_closed_its_pipes():
    with Pool(abs, 1) as pool_:
        assert [one.result for one in pool_.each([-1])] == [1]
        [worker] = pool_._idle
    assert worker.link.closed and not worker.process.is_alive()
