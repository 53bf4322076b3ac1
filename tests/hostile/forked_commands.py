"""Commands in forked processes of their own, without the start of an interpreter and the imports for each.

A process that has imported cachesim forks a child for each command line that it reads. A child tells which modules it
has imported; the process imports them, too, before it forks the next one. So a command runs in a fresh copy of a
process that has run no command, and its peak memory includes that of all modules.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

from tests.shared import ROOT

WALL = 60           # seconds after which a command is ended by a signal


class Ended(NamedTuple):
    """End of a command."""

    code: int           # exit code, negative = a signal
    out: str            # stdout
    err: str            # stderr
    mib: int            # peak resident memory of the process [MiB]


class Forks:
    """The process that forks children, seen from outside."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, argv: Sequence[str], folder: Path) -> Ended:
        """Run a command line of cachesim in a child; its output lies in the folder meanwhile."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps([str(folder), *argv]), file=self._process.stdin, flush=True)
        code = int(self._process.stdout.readline())
        out, err, told = (folder / name for name in NAMES)
        mib = json.loads(told.read_text())["mib"] if told.exists() else 0
        ended = Ended(code, out.read_text("utf-8"), err.read_text("utf-8"), mib)
        for file in (out, err, told):
            file.unlink(missing_ok=True)
        return ended


NAMES = ("stdout", "stderr", "told")


@contextmanager
def forking() -> Iterator[Forks]:
    """Start the process; end it afterwards."""
    with subprocess.Popen([sys.executable, "-m", "tests.hostile.forked_commands"], cwd=ROOT, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:  # fmt: skip
        yield Forks(process)
        assert process.stdin is not None
        process.stdin.close()


def peak() -> int:
    """Return the peak memory of this process [MiB]. ru_maxrss begins with that of the process that started it."""
    found = re.search(r"VmHWM:\s*([0-9]+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


def _command(folder: Path, argv: list[str]) -> int:
    """Run a command in this child, with its output in files; return the exit code."""
    signal.alarm(WALL)
    for number, name in enumerate(NAMES[:2], 1):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    before = set(sys.modules)
    from cachesim.cli.main import main

    try:
        return main(argv)
    finally:
        told = {"mib": peak(), "modules": sorted(set(sys.modules) - before)}
        (folder / NAMES[2]).write_text(json.dumps(told))


def _forked(folder: Path, argv: list[str]) -> int:
    """Run a command in a child; import what it has imported; return its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            code = _command(folder, argv)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            with suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    with suppress(OSError):
        for name in json.loads((folder / NAMES[2]).read_text())["modules"]:
            with suppress(ImportError):
                importlib.import_module(name)
    return os.waitstatus_to_exitcode(status)


def serve() -> None:
    """Run the command lines on stdin; print the exit code of each."""
    import cachesim.cli.main  # noqa: F401

    for line in sys.stdin:
        folder, *argv = json.loads(line)
        print(_forked(Path(folder), argv), flush=True)


if __name__ == "__main__":
    serve()
