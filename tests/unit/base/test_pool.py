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
from cachesim.base.pool import KilledItem, Pool, cores, exit_text, finished, spread

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
