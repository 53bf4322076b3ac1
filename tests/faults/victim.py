"""Running command with its processes, as the target of injected faults. Linux only, because it reads /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Sequence

GUARD = 120.0           # seconds after which a command is killed and counted as left over
MARK = "CACHESIM_VICTIM"


class End(NamedTuple):
    """End of a command."""

    code: int            # exit code
    out: str             # stdout
    err: str             # stderr
    left: int            # processes left over
    seconds: float


UNCACHED = {"PYTHONDONTWRITEBYTECODE": "1"}
"""With a file size limit, a process would leave truncated byte code that every later process reads."""


class Victim:
    """Running command line of cachesim. ``before``: words before the command; ``module``: with its words, instead of
    cachesim; ``more``: keyword arguments of Popen."""

    def __init__(
        self, *argv: object, env: dict[str, str] | None = None, stdout: int | None = None,
        before: Sequence[object] = (), module: Sequence[object] = ("cachesim",), **more: Any,
    ) -> None:
        self.mark, self.begin = uuid.uuid4().hex, time.monotonic()
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)     # background jobs ignore SIGINT
        self.process = subprocess.Popen(
            [*map(str, before), sys.executable, "-m", *map(str, (*module, *argv))], text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if stdout is None else stdout, stderr=subprocess.PIPE,
            env={**os.environ, **UNCACHED, MARK: self.mark, **(env or {})}, **more,
        )  # fmt: skip
        signal.signal(signal.SIGINT, handler)
        self.err, self.out = "", ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        if self.process.stdout is not None:
            with self.process.stdout:
                self.out = self.process.stdout.read()

    def until(self, text: str) -> Victim:
        """Wait for a line on stderr that contains this text."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.err += line
            if text in line:
                return self
        raise AssertionError(f"ended before it printed {text!r}: {self.err}")

    def workers(self) -> list[int]:
        """Return the process ids of its workers."""
        return [pid for pid, parent in marked(self.mark) if parent == self.process.pid]

    def signal(self, number: int) -> Victim:
        """Send a signal to the main process only."""
        self.process.send_signal(number)
        return self

    def signal_all(self, number: int) -> Victim:
        """Send a signal to the command and its workers, as a terminal does."""
        os.killpg(self.process.pid, number)
        return self

    def kill_worker(self) -> Victim:
        """Kill a worker, if any is running."""
        for pid in self.workers()[:1]:
            os.kill(pid, signal.SIGKILL)
        return self

    def end(self, seconds: float = GUARD) -> End:
        """Wait until it and all processes that may write to its output have ended. After so many seconds, kill
        them."""
        left: list[int] = []

        def guard() -> None:
            left.extend(pid for pid, _ in marked(self.mark))
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

        timer = threading.Timer(seconds, guard)
        timer.start()
        assert self.process.stderr is not None
        with self.process.stderr:
            self.err += self.process.stderr.read()
        code = self.process.wait()
        timer.cancel()
        timer.join()
        self._reader.join()
        return End(code, self.out, self.err, len(left) + len(marked(self.mark)), time.monotonic() - self.begin)


def marked(mark: str) -> list[tuple[int, int]]:
    """Return (process, parent) ids of the processes with this mark in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                found.append((int(entry.name), int((entry / "stat").read_text().rpartition(")")[2].split()[1])))
    return found
