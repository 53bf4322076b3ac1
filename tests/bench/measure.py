"""CPU time, peak memory and output of a row: each command in a process of its own, on a single core, with a CPU limit.

A command writes into a pipe, which is read completely, as by a pager. CPU time takes the place of seconds: on a single
core they are the same as long as the machine does nothing else, and only CPU time can be compared when it does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import IO, Mapping, NamedTuple, Sequence

from tests.bench import launch
from tests.bench.checkout import release_signals, signals_held
from tests.bench.launch import NONE, WALL, Usage
from tests.bench.rows import MEMORY, Row
from tests.bench.spellings import NoCounterpart, find_modules, spell

ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
DRIVERS = Path(__file__).with_name("drivers.py")
LAUNCH = launch.__file__
GRACE = 10                    # seconds in which a child whose time is over ends with its own children
REFUSED = 2                   # exit code of cachesim, also of older commits, for a command that it does not know


class Side(NamedTuple):
    """A checkout that is measured, and the Python of its environment. ``folder`` takes its output."""

    name: str
    root: Path
    python: Path
    folder: Path


class Measured(NamedTuple):
    """Result of a row. ``end``: "" = it did its work, else the reason for which it has no figures."""

    seconds: float            # CPU time, user and system
    mib: float                # peak resident memory
    end: str = ""
    first_line: float = NONE  # CPU time until the first line of the last command, with the commands before it
    output: int = 0           # bytes of standard output
    is_refused: bool = False  # True: cachesim did not accept the command


def commands(row: Row, side: Side, places: Mapping[str, str]) -> list[list[str]]:
    """Return the commands of a row for a checkout. Raise NoCounterpart if it has no counterpart there."""
    if row.needs is not None and not row.needs.holds(side.root):
        raise NoCounterpart(f"no {row.needs.text or row.needs.glob}")
    if row.driver:
        return [[str(DRIVERS), row.driver, str(row.size), json.dumps(find_modules(side.root))]]
    places = {**places, "{out}": str(side.folder)}
    return [["-m", "cachesim", *words] for words in spell(row.words, side.root, places)]


def measure(row: Row, side: Side, places: Mapping[str, str]) -> Measured:
    """Run the commands of a row. Raise NoCounterpart if the checkout has no counterpart."""
    seconds = 0.0
    mib = 0.0
    first_line = NONE
    output = 0
    for words in commands(row, side, places):
        used, errors = run([str(side.python), *words], environment(row.first_line), side.root, row.limit)
        first_line = NONE if used.first_line == NONE else seconds + used.first_line
        seconds += used.seconds
        mib = max(mib, used.mib)
        output += used.output
        end = _end(used, row.codes, row.limit, errors)
        if end:
            return Measured(seconds, mib, end, is_refused=used.code == REFUSED)
    return Measured(seconds, mib, first_line=first_line, output=output)


def environment(unbuffered: bool = False) -> dict[str, str]:
    """Return the environment of a measured process. ``unbuffered``: a line leaves the process when it is printed, as in
    a terminal."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COLUMNS"))}
    unbuffered_lines = {"PYTHONUNBUFFERED": "1"} if unbuffered else {}
    return {**kept, **ONE_CORE, **unbuffered_lines, "PYTHONHASHSEED": "0", "COLUMNS": "80"}


def run(words: Sequence[str], variables: Mapping[str, str], folder: Path, limit: int) -> tuple[Usage, str]:
    """Run a process in a folder under a CPU limit in seconds. Return what it used, with its children, and its standard
    error. If children that it left keep its output open, all are killed; the usage is unknown then, 0 seconds."""
    start = [sys.executable, "-I", "-S", LAUNCH, str(limit), str(MEMORY), *words]
    process: subprocess.Popen[bytes] | None = None
    timer: Timer | None = None
    with TemporaryFile() as errors:
        try:
            with signals_held():
                process = subprocess.Popen(start, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stderr=errors,
                                           stdout=subprocess.PIPE, preexec_fn=release_signals,
                                           start_new_session=True)  # fmt: skip
            timer = Timer(WALL * limit + GRACE, _kill, (process.pid,))
            timer.start()
            report, _ = process.communicate()
        finally:
            if timer is not None:
                timer.cancel()
            if process is not None:
                _kill(process.pid)
                process.wait()                 # after an interrupt: its folder is removed next
        return _read(report, process.returncode), _text(errors)


def _kill(group: int) -> None:
    """Kill what is left of a process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _read(report: bytes, code: int) -> Usage:
    """Return the usage that ``launch`` printed; if it was killed before, an empty one with its exit code."""
    fields = report.split()
    if not fields:
        return Usage(code, 0.0, 0.0, NONE, 0)
    return Usage(int(fields[0]), float(fields[1]), float(fields[2]), float(fields[3]), int(fields[4]))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _end(used: Usage, codes: tuple[int, ...], limit: int, errors: str) -> str:
    """Return why a process has no figures, "" if it has. ``errors``: its standard error."""
    if used.code in codes:
        return ""
    if used.code == -signal.SIGKILL and not used.seconds:
        return f"no end after {WALL * limit + GRACE} s"
    if used.code in (-signal.SIGXCPU, -signal.SIGKILL):
        over = used.seconds >= limit - 1
        return f"over {limit} s" if over else f"killed after {used.seconds:.0f} s of CPU"
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return f"failed, exit code {used.code}: {lines[-1] if lines else 'without a message'}"
