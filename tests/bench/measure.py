"""CPU time and peak memory of a row: each command in a process of its own, on a single core, with a CPU limit."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import IO, Mapping, NamedTuple

from tests.bench.checkout import release_signals, signals_held
from tests.bench.rows import MEMORY, Row
from tests.bench.spellings import NoCounterpart, find_modules, spell

ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
DRIVERS = Path(__file__).with_name("drivers.py")
WALL = 5                      # a process may wait so many times its CPU limit


class Side(NamedTuple):
    """A checkout that is measured, and the Python of its environment. ``folder`` takes its output and byte code."""

    name: str
    root: Path
    python: Path
    folder: Path


class Measured(NamedTuple):
    """Result of a row. ``end``: "" = it did its work, else the reason for which it has no figures."""

    seconds: float            # CPU time, user and system
    mib: float                # peak resident memory
    end: str = ""


def commands(row: Row, side: Side, places: Mapping[str, str]) -> list[list[str]]:
    """Return the commands of a row for a checkout. Raise NoCounterpart if it has no counterpart there."""
    if row.needs is not None and not row.needs.holds(side.root):
        raise NoCounterpart(row.name)
    if row.driver:
        return [[str(DRIVERS), row.driver, str(row.size), json.dumps(find_modules(side.root))]]
    places = {**places, "{out}": str(side.folder)}
    return [["-m", "cachesim", *words] for words in spell(row.words, side.root, places)]


def measure(row: Row, side: Side, places: Mapping[str, str]) -> Measured:
    """Run the commands of a row. Raise NoCounterpart if the checkout has no counterpart."""
    seconds, mib = 0.0, 0.0
    for words in commands(row, side, places):
        done = run([str(side.python), *words], side, row.codes, row.limit)
        seconds, mib = seconds + done.seconds, max(mib, done.mib)
        if done.end:
            return Measured(seconds, mib, done.end)
    return Measured(seconds, mib)


def environment(side: Side) -> dict[str, str]:
    """Return the environment of a measured process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COLUMNS"))}
    byte_code = {"PYTHONPYCACHEPREFIX": str(side.folder / "byte-code")}
    return {**kept, **ONE_CORE, **byte_code, "PYTHONHASHSEED": "0", "COLUMNS": "80"}


def run(words: list[str], side: Side, codes: tuple[int, ...], limit: int) -> Measured:
    """Run a process under a CPU limit in seconds, and measure it with its children."""

    def limits() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        on_one_core()
        release_signals()

    process: subprocess.Popen[bytes] | None = None
    timer: Timer | None = None
    with TemporaryFile() as errors:
        try:
            with signals_held():
                process = subprocess.Popen(words, cwd=side.root, env=environment(side), stdin=subprocess.DEVNULL,
                                           stdout=subprocess.DEVNULL, stderr=errors, preexec_fn=limits,
                                           start_new_session=True)  # fmt: skip
            timer = Timer(WALL * limit, _kill, (process.pid,))
            timer.start()
            _, status, used = os.wait4(process.pid, 0)
            code = process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            if timer is not None:
                timer.cancel()
            if process is not None:
                _kill(process.pid)
                process.wait()                 # after an interrupt: its folder is removed next
        seconds = used.ru_utime + used.ru_stime
        return Measured(seconds, used.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10),
                        _end(code, codes, seconds, limit, errors))  # fmt: skip


def on_one_core() -> None:
    """Bind this process and its children to a single core, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def _kill(group: int) -> None:
    """Kill what is left of a process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _end(code: int, codes: tuple[int, ...], seconds: float, limit: int, errors: IO[bytes]) -> str:
    """Return why a process has no figures, "" if it has."""
    if code in codes:
        return ""
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"over {limit} s" if seconds >= limit - 1 else f"killed after {seconds:.0f} s of CPU"
    errors.seek(0)
    lines = [line.strip() for line in errors.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return f"failed, exit code {code}: {lines[-1] if lines else 'without a message'}"
