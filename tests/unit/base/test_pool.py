"""Tests of the process pool: no lost shares, no remaining processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cachesim.base import pool
from cachesim.base.errors import BadInput, Crash
from cachesim.base.pool import KilledItem, Pool, finished, finished_in_order, spread, whole

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


def refuse_opaquely(_):
    raise ValueError(lambda: None)


def lag(seconds):
    time.sleep(seconds)
    return seconds


def wait_for_ever(_):
    time.sleep(FOREVER)


def ask_to_end(n):
    """Send SIGINT to every process of the group, as a terminal does at Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)
    return n


def children():
    return len(multiprocessing.active_children())


@pytest.mark.parametrize("jobs", [1, 3])
def test_results_come_in_order_whatever_the_number_of_processes(jobs):
    assert list(spread(double, range(40), jobs)) == [2 * n for n in range(40)]
    assert list(spread(lag, [0.1, 0.0, 0.0], jobs)) == [0.1, 0.0, 0.0]
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


def fatal_twice(folder):
    """Kill this process unless two processes died of this share before."""
    deaths = len([*Path(folder).iterdir()])
    if deaths == 2:
        return "done"
    Path(folder, str(deaths)).touch()
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_share_at_which_two_processes_died_is_not_tried_again(tmp_path):
    assert list(spread(fatal_twice, [tmp_path], 2)) == [KilledItem("killed by SIGKILL")]


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
    """A share survives the death of one process. If a dead worker had got it, that would be the second."""
    with Pool(fatal_once, 2) as pool:
        assert len([*pool.each([(tmp_path, 1), (tmp_path, 2)])]) == 2
        for process in multiprocessing.active_children():
            process.kill()
            process.join()
        assert [done.result for done in pool.each([(tmp_path, 3)])] == [3]


def test_an_exception_of_the_work_keeps_its_traceback():
    with pytest.raises(BadInput) as caught:
        list(spread(refuse, range(3), 2))
    assert str(caught.value).startswith("f") and caught.value.line == 3
    assert "in refuse" in caught.value.__notes__[0]
    assert children() == 0


@pytest.mark.parametrize("work", [opaque, refuse_opaquely])
def test_a_result_or_error_that_cannot_be_pickled_is_an_error(work):
    with pytest.raises(Crash, match="cannot be sent"):
        list(spread(work, range(2), 2))


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


def remember(name, value):
    os.environ[name] = value


def remembered(name):
    return os.environ.get(name)


def test_a_new_worker_repeats_the_calls_that_set_up_its_parent():
    pool.begin_with(remember, "CACHESIM_TEST_CALL", "yes")
    assert os.environ.get("CACHESIM_TEST_CALL") is None
    assert [*spread(remembered, ["CACHESIM_TEST_CALL"] * 2, 2)] == ["yes"] * 2


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
    ending = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    with pytest.raises(KeyError), pool.blocked_signals():
        raise KeyError
    assert calls == [(signal.SIG_BLOCK, ending), (signal.SIG_SETMASK, "before")]
    pool.unblock_signals()
    assert calls[2:] == [(signal.SIG_UNBLOCK, ending)]
    monkeypatch.delattr(pool.signal, "pthread_sigmask")
    with pool.blocked_signals():
        pool.unblock_signals()
    assert len(calls) == 3


def test_results_that_are_ready_too_early_wait_for_their_turn():
    found = [(one.number, one.result) for one in finished_in_order(lag, [0.2, 0, 0], 2)]
    assert found == [(0, 0.2), (1, 0), (2, 0)]


def test_results_in_order_and_as_a_list():
    killed = KilledItem("killed by SIGKILL")
    assert whole([1, 2]) == [1, 2] and whole([]) == []
    with pytest.raises(Crash) as crash:
        whole([1, killed])
    assert str(crash.value) == ("two worker processes ended while doing the same part of the work: killed by SIGKILL")
    assert list(spread(lambda n: 2 * n, [3, 1], 1)) == [6, 2]
    assert [(one.number, one.share, one.result) for one in finished(str, [3, 1], 1)] == [(0, 3, "3"), (1, 1, "1")]
