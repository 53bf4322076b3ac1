"""The signals of a command: the first raises an interrupt, one at the same time is the same, a later one ends it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from cachesim.base.ending import SAME

PROGRAM = """
import sys, time
from cachesim.base.ending import ended_by_signals, killed_at_second_signal
class Freed:
    def __del__(self):
        print("begun", flush=True)
        time.sleep(5)
if sys.argv[1] == "stopped clock":
    time.monotonic = lambda: 1.0
with ended_by_signals():
    try:
        if sys.argv[1] == "freed":
            Freed()
        print("begun", flush=True)
        time.sleep(5)
    except KeyboardInterrupt as error:
        print("finishing", getattr(error, "number", 2), flush=True)
        time.sleep(float(sys.argv[2]))
        print("complete", flush=True)
"""


def begun(how, seconds):
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, how, str(seconds)], stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.PIPE, start_new_session=True)  # fmt: skip
    assert process.stdout.readline() == "begun\n"
    return process


def ended(process):
    out, err = process.communicate(timeout=20)
    return process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_signal_ends_a_command_while_it_finishes(number):
    process = begun("waits", 5)
    process.send_signal(number)
    assert process.stdout.readline() == f"finishing {int(number)}\n"
    time.sleep(SAME * 1.5)
    process.send_signal(number)
    code, out, err = ended(process)
    assert (code, out, err.count("\n")) == (128 + number, "", 1)


def test_a_signal_that_is_sent_twice_at_once_is_one():
    """`timeout` sends SIGTERM to the process and to its group. On a busy machine the second one may arrive later."""
    process = begun("stopped clock", 2 * SAME)
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "finishing 15\n"
    process.send_signal(signal.SIGTERM)
    assert ended(process) == (0, "complete\n", "")


def test_a_signal_that_arrives_while_an_object_is_freed_is_not_lost():
    process = begun("freed", 0)
    process.send_signal(signal.SIGTERM)
    code, out, err = ended(process)
    assert (code, out.splitlines()[-2:], err) == (0, ["finishing 15", "complete"], "")
