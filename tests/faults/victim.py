"""A command in processes of its own, to which something happens while it runs; Linux only, because of /proc."""

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

GUARD = 120.0           # seconds after which a command that should have ended is killed, and counted
MARK = "CACHESIM_VICTIM"


class End(NamedTuple):
    """How a command ended: exit code, what it printed, processes of it that were left, seconds."""

    code: int
    out: str
    err: str
    left: int
    seconds: float


UNCACHED = {"PYTHONDONTWRITEBYTECODE": "1"}
"""A process that may write few bytes only would leave byte code cut off behind, which every later process reads."""


class Victim:
    """A running command line of cachesim. ``before``: words before the command; ``more``: keywords of
    Popen."""

    def __init__(
        self, *argv: object, env: dict[str, str] | None = None, stdout: int | None = None,
        before: Sequence[object] = (), **more: Any,
    ) -> None:
        self.mark, self.begin = uuid.uuid4().hex, time.monotonic()
        heard = signal.signal(signal.SIGINT, signal.default_int_handler)     # ignored in a job in the background
        self.process = subprocess.Popen(
            [*map(str, before), sys.executable, "-m", "cachesim", *map(str, argv)], text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if stdout is None else stdout, stderr=subprocess.PIPE,
            env={**os.environ, **UNCACHED, MARK: self.mark, **(env or {})}, **more,
        )  # fmt: skip
        signal.signal(signal.SIGINT, heard)
        self.err, self.out = "", ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        if self.process.stdout is not None:
            with self.process.stdout:
                self.out = self.process.stdout.read()

    def until(self, text: str) -> Victim:
        """Wait for a line on stderr that has this text."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.err += line
            if text in line:
                return self
        raise AssertionError(f"it ended before it said {text!r}: {self.err}")

    def workers(self) -> list[int]:
        """The processes that it started."""
        return [pid for pid, parent in marked(self.mark) if parent == self.process.pid]

    def signal(self, number: int) -> Victim:
        """Send a signal to the command alone."""
        self.process.send_signal(number)
        return self

    def signal_all(self, number: int) -> Victim:
        """Send a signal to the command and its workers, as a terminal does."""
        os.killpg(self.process.pid, number)
        return self

    def kill_worker(self) -> Victim:
        """Kill one worker, if there is one."""
        for pid in self.workers()[:1]:
            os.kill(pid, signal.SIGKILL)
        return self

    def end(self) -> End:
        """Wait until it and everybody who may write to its output is gone; what is left then is killed."""
        left: list[int] = []

        def guard() -> None:
            left.extend(pid for pid, _ in marked(self.mark))
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

        timer = threading.Timer(GUARD, guard)
        timer.start()
        assert self.process.stderr is not None
        with self.process.stderr:
            self.err += self.process.stderr.read()
        code = self.process.wait()
        timer.cancel()
        timer.join()
        self._reader.join()
        seconds = time.monotonic() - self.begin
        return End(code, self.out, self.err, len(left) + len(marked(self.mark)), seconds)


def marked(mark: str) -> list[tuple[int, int]]:
    """Processes with this mark in their environment, and their parents'."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                found.append((int(entry.name), int((entry / "stat").read_text().rpartition(")")[2].split()[1])))
    return found
