"""Tests of the worker process, seen from the server: order, a bounded queue, and replacement of a worker."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

from cachesim.tools.playground.simulator import WAITING, QueueFull, Simulator

ECHO = """
import os, sys, json
for line in sys.stdin:
    asked = json.loads(line)
    if asked == "self": asked = [int(sys.argv[1]), os.getsid(0)]
    if asked == "sleep": import time; time.sleep(600)
    if asked == "die": os._exit(1)
    if asked == "long": asked = "x" * (1 << 25)
    print(json.dumps([os.getpid(), asked]), flush=True)
"""

LATE = """
import os, signal, sys, time
sys.stdin.readline()
os.close(1)
time.sleep(0.3)
os.kill(os.getpid(), signal.SIGPROF)
"""
"""Worker that closes its pipe before its CPU time ends it."""


def run(work, seconds=60.0):
    """Run a coroutine function with a simulator whose worker returns its process id and the request."""
    async def whole():
        simulator = Simulator((sys.executable, "-c", ECHO), seconds)
        try:
            return await work(simulator)
        finally:
            await simulator.close()

    return asyncio.run(whole())


def test_a_worker_whose_cpu_time_is_over_may_need_a_moment_to_end():
    async def work():
        simulator = Simulator((sys.executable, "-c", LATE), cpu=7.0)
        return await simulator.ask({})

    assert "7 s of CPU time" in asyncio.run(work())["error"]


def test_requests_at_once_are_answered_in_order_by_one_worker():
    async def work(simulator):
        return await asyncio.gather(*(simulator.ask(number) for number in range(WAITING)))

    found = run(work)
    assert [number for _, number in found] == list(range(WAITING)) and len({pid for pid, _ in found}) == 1


def test_a_full_queue_refuses_at_once_and_takes_requests_again():
    async def work(simulator):
        many = await asyncio.gather(*(simulator.ask(number) for number in range(50)), return_exceptions=True)
        return many, [await simulator.ask(number) for number in range(WAITING)], await asyncio.gather(
            *(simulator.ask(number) for number in range(50)), return_exceptions=True)  # fmt: skip

    many, after, again = run(work)
    assert [type(one) for one in many] == [list] * WAITING + [QueueFull] * (50 - WAITING)
    assert [number for _, number in after] == list(range(WAITING))
    assert [type(one) for one in again] == [type(one) for one in many]


@pytest.mark.parametrize(("request_", "says", "seconds"), [
    ("sleep", "2", 2.0), ("die", "", 60.0), ("long", "", 60.0),
])  # fmt: skip
def test_a_worker_that_is_late_or_gone_is_replaced(request_, says, seconds):
    async def work(simulator):
        first = await simulator.ask(1) if seconds > 2 else [0]
        failed = await simulator.ask(request_)
        await simulator.start()
        return first, failed, await simulator.ask(2)

    first, failed, (pid, value) = run(work, seconds)
    assert failed["error"] and says in failed["error"] and failed["column"] == 0
    assert value == 2 and pid != first[0]


def test_a_reply_is_never_given_to_the_next_request():
    async def work(simulator):
        await simulator.start()
        task = asyncio.create_task(simulator.ask("sleep"))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await simulator.ask("next")

    assert run(work)[1] == "next"


def test_a_worker_that_runs_is_not_started_again():
    async def work(simulator):
        return await simulator.start() is await simulator.start(), await simulator.ask("self")

    is_same, (pid, (parent, session)) = run(work)
    assert is_same and parent == os.getpid() and session == pid         # Ctrl-C in the terminal does not reach it


def test_a_closed_worker_is_killed_and_closed_once():
    async def work(simulator):
        process = await simulator.start()
        await simulator.close()
        await simulator.close()
        return process.returncode

    assert run(work) == -signal.SIGKILL
