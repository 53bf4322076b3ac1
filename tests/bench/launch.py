"""Program that runs a command in a child process, reads its output completely, and prints what the child used:

    python -I -S launch.py LIMIT MEMORY COMMAND ...

LIMIT: CPU seconds of the child, which is killed after ``WALL`` times as many seconds; MEMORY: bytes of its address
space. The line that this program prints is a ``Usage``. It imports little on purpose: the peak memory that Linux
reports for a child begins with the memory that its parent had at the fork, and the bench itself needs more than
``cachesim --version``.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from contextlib import suppress
from typing import NamedTuple

PIECE = 1 << 16               # bytes that are read at once
WALL = 5                      # a child may wait so many times its CPU limit
NONE = -1.0                   # seconds of something that did not happen


class Usage(NamedTuple):
    """What a child used."""

    code: int                 # exit code, negative = number of the signal that ended it
    seconds: float            # CPU time, user and system, with its own children
    mib: float                # peak resident memory
    first_line: float         # CPU seconds of the process until its first line that is not blank, NONE = without one
    output: int               # bytes of standard output


def run(limit: int, memory: int, words: list[str]) -> Usage:
    """Run a command on a single core under both limits. Raise OSError if no process can be started."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(limit, memory, words, writing)
    os.close(writing)
    signal.signal(signal.SIGALRM, lambda number, frame: _kill(pid))
    signal.alarm(WALL * limit)
    first_line = NONE
    output = 0
    has_text = False
    while piece := os.read(reading, PIECE):
        output += len(piece)
        if first_line == NONE:
            text = piece if has_text else piece.lstrip()
            has_text = bool(text)
            if b"\n" in text:
                first_line = _cpu_seconds(pid)
    _, status, used = os.wait4(pid, 0)
    signal.alarm(0)
    return Usage(
        code=os.waitstatus_to_exitcode(status),
        seconds=used.ru_utime + used.ru_stime,
        mib=used.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10),
        first_line=first_line,
        output=output,
    )


def on_one_core() -> None:
    """Bind this process and its children to a single core, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def _become(limit: int, memory: int, words: list[str], output: int) -> None:
    """Replace this process by the command. Its exit code is 127 if the command cannot be started."""
    try:
        os.dup2(output, sys.stdout.fileno())
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        on_one_core()
        os.execv(words[0], words)
    except OSError as error:
        print(error, file=sys.stderr, flush=True)
    finally:
        os._exit(127)


def _kill(pid: int) -> None:
    """Kill a process, if it has not ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a running process by its CPU clock, NONE where the system does not show it."""
    process_clock = (~pid << 3) | 2          # clock_getcpuclockid(3), which Python lacks
    with suppress(OSError):
        return time.clock_gettime(process_clock)
    return NONE


if __name__ == "__main__":
    print(*run(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
