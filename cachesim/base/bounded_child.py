"""Child process that parses foreign data under limits: the parent's side.

``BoundedChild`` starts ``parser_process``, which limits itself and then imports a parser module. Both sides exchange
JSON lines: a request, then its result. Every end of the child (limit, signal, panic, crash) becomes a BadInput.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, Mapping

from cachesim.base.errors import BadInput, cut
from cachesim.base.extras import install_command
from cachesim.base.limits import PARSER_MEMORY, PARSER_OUTPUT, PARSER_TIME
from cachesim.base.parser_process import SECONDS_PER_MIB, from_line, to_line
from cachesim.base.pool import exit_text

CHILD = Path(__file__).with_name("parser_process.py")
BYTES_PER_BYTE = 8           # output allowed for each byte of a request, besides PARSER_OUTPUT
WALL = 6                     # seconds of waiting allowed for each allowed CPU second
TICK = 1.0                   # seconds between checks of the waiting time
_TOO_LONG = getattr(signal, "SIGXCPU", 0)
_NO_MEMORY = tuple(getattr(signal, name, 0) for name in ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGKILL"))
"""Signals that end a child at its limits; 0 = not on this system."""


class BoundedChild:
    """Parser in a child process. A context manager; leaving it ends the child."""

    def __init__(self, module: str, what: str, file: str, first: Mapping[str, Any], data: bytes) -> None:
        """Start the child and give it the foreign data. ``module``: the parser, see ``parser_process``. ``what``: the
        data, a noun phrase for messages. ``file``: its path. Raise BadInput."""
        self.what = what
        self.file = file
        self._room = PARSER_OUTPUT.now
        words = [sys.executable, "-P", "-B", str(CHILD), module, os.getpid(), PARSER_TIME.now, PARSER_MEMORY.now]
        try:
            process = subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
        except OSError as error:
            why = (error.strerror or "cannot be started").lower()
            raise BadInput(f"failed to start the child process that parses {what}: {why}", file=file) from None
        self._watch = _Watch(process, PARSER_TIME.now)
        self.close = weakref.finalize(self, _end, self._watch)
        self._watch.start()
        self.ask({**first, "bytes": len(data)}, data)

    def __enter__(self) -> BoundedChild:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """False after an error, and after ``close``."""
        return self.close.alive

    def ask(self, request: Mapping[str, Any], data: bytes = b"") -> Any:
        """Return the parser's result for a request. Raise BadInput, also if the child ended."""
        line = to_line(request)
        self._room += BYTES_PER_BYTE * len(line)
        self._watch.allowed += SECONDS_PER_MIB * len(line) / (1 << 20)
        try:
            reply = self._exchange(line, data)
            self._room -= len(reply)
            if self._room < 0:
                raise PARSER_OUTPUT.exceeded(f"the output of {self.what} is too long", file=self.file)
            if not reply.endswith(b"\n"):
                raise self._death()
            return self._result(reply)
        except BaseException:
            self.close()
            raise

    def _exchange(self, line: bytes, data: bytes) -> bytes:
        """Send a request and return the reply: at most a byte more than allowed; without a line end if the child
        ended."""
        stdin, stdout = self._watch.process.stdin, self._watch.process.stdout
        assert stdin is not None and stdout is not None
        self._watch.waiting = True
        try:
            with suppress(BrokenPipeError):      # the reply, or its absence, shows why
                stdin.write(line)
                stdin.write(data)
                stdin.flush()
            return stdout.readline(self._room + 1)
        finally:
            self._watch.waiting = False

    def _result(self, line: bytes) -> Any:
        """Return the result in a reply. Raise BadInput for an error."""
        try:
            reply = from_line(line)
        except (ValueError, RecursionError):
            raise BadInput(f"the reply of the parser of {self.what} is unreadable", file=self.file) from None
        if "refused" in reply:
            raise BadInput(cut(reply["refused"], 200), file=self.file, hint=reply["hint"])
        if "missing" in reply:
            cause = f"{self.what} needs the package {cut(reply['missing'])}, which is not installed"
            raise BadInput(cause, hint=install_command("import"))
        if "memory" in reply:
            raise PARSER_MEMORY.exceeded(f"{self.what} needs too much memory", file=self.file)
        if "failed" in reply:
            raise BadInput(f"{self.what} failed: {cut(reply['failed'], 200)}", file=self.file)
        return reply["result"]

    def _death(self) -> BadInput:
        """Return the error for a child that ended without a reply."""
        code = self._watch.process.wait()
        if self._watch.late:
            return PARSER_TIME.exceeded(f"{self.what} takes more than {WALL} times its CPU limit", file=self.file)
        if -code == _TOO_LONG:
            return PARSER_TIME.exceeded(f"{self.what} takes too long", file=self.file)
        how = f"{self.what} ended its parser ({exit_text(code)})"
        if -code in _NO_MEMORY:
            return PARSER_MEMORY.exceeded(f"{how}, probably out of memory", file=self.file)
        return BadInput(how, file=self.file)


class _Watch(threading.Thread):
    """Thread that kills a child for which the parent has waited too long. It counts ticks and reads no clock."""

    def __init__(self, process: subprocess.Popen[bytes], allowed: float) -> None:
        super().__init__(daemon=True)
        self.process, self.allowed = process, allowed
        self.waiting = self.late = False
        self.closed = threading.Event()

    def run(self) -> None:
        waited = 0.0
        while not self.closed.wait(TICK):
            waited += TICK if self.waiting else 0
            if waited > WALL * self.allowed:
                self.late = True
                _kill(self.process)
                return


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the child and its process group."""
    if process.poll() is None:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)


def _end(watch: _Watch) -> None:
    """End the child and release its pipes."""
    watch.closed.set()
    _kill(watch.process)
    watch.process.wait()
    for stream in (watch.process.stdin, watch.process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
