"""A server process on the loopback: start, supervision and termination; and the reader of its log.

All its output goes to a file, which is read by offset. It runs in its own process group under a shell that kills it
when the pipe to this process breaks, so it does not survive even if this process is killed. The shell then removes the
server's temporary folder, too. A context manager. """

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from abc import abstractmethod
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Self, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.pool import blocked_signals
from cachesim.engines.llama_cpp.log_events import Entry, entries, numbered, read_event
from cachesim.tools.live.llama_server.guarded_run import run_guarded

# Reader of a growing log.

class Logbook:
    """Messages of a log file. A line counts once its end has been written."""

    def __init__(self, file: Path) -> None:
        self.file, self.offset = file, 0

    def read(self) -> Iterator[Entry]:
        """Yield the messages written since the last call."""
        with self.file.open("rb") as stream:
            stream.seek(self.offset)
            data = stream.read()
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        for line in whole.decode("utf-8", "replace").split("\n")[:-1]:
            yield from entries(line)


def events_of(said: Iterable[Entry], one_slot: bool) -> list[dict[str, Any]]:
    """Return the events that messages report, in the format of a recording's step."""
    return numbered([event for event in map(read_event, said) if event is not None], one_slot)


HOST = "127.0.0.1"
MEDIA_MARKER = "<__media__>"        # text that stands for an image in a prompt
POLL = 0.002                # seconds between two polls
GUARD_WITHIN = 3.0          # seconds in which the guard should have killed the server
END_WITHIN = 10.0           # seconds until a killed group must have ended
VERSION_WITHIN = 60.0       # seconds in which a program must print its version
VERSION_BYTES = 1 << 16     # bytes that it may print then

seconds = time.monotonic    # the clock

_GUARD = f"""
ulimit -c 0
export GGML_NO_BACKTRACE=1 LLAMA_MEDIA_MARKER='{MEDIA_MARKER}'
exec 3<&0 </dev/null
folder=$1
shift
"$@" 3<&- &
server=$!
(read line <&3 || test -z "$folder" || rm -rf "$folder"; kill -9 $server) 2>/dev/null &
guard=$!
trap 'kill -TERM $server 2>/dev/null' TERM
wait $server 2>/dev/null
code=$?
while kill -0 $server 2>/dev/null; do
wait $server 2>/dev/null
code=$?
done
kill $guard 2>/dev/null
wait $guard 2>/dev/null
exit $code
"""


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """The end of a process that ended by itself. ``returncode`` is negative for a signal; ``fatal``: log lines with the
    cause."""

    returncode: int
    fatal: tuple[str, ...]


class StoppedAtEnd(AbstractContextManager["StoppedAtEnd"]):
    """A context manager whose ``stop`` is always called at the end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    def stop(self) -> None:
        """End what was started. May be called again."""


class Process(StoppedAtEnd):
    """A running server. ``log``: the file with all its output; ``folder``: temporary folder that is removed if this
    process is killed."""

    def __init__(
        self, command: Callable[[int], Sequence[str]], log: Path, port: int = 0, folder: Path | None = None
    ) -> None:
        """Start ``command(port)``, without ``port`` on a free one. Raise BadInput if it cannot be executed."""
        self.port = port or free_port()
        self.log = log
        program, *words = map(str, command(self.port))
        if not os.access(program, os.X_OK):
            raise BadInput("not an executable file", file=program)
        temporary = os.path.abspath(folder) if folder else ""
        program = os.path.abspath(program)          # not a bare name: no PATH
        guarded = ["/bin/sh", "-c", _GUARD, "sh", temporary, program, *words]
        with log.open("wb") as stream:
            self._popen = subprocess.Popen(guarded, stdin=subprocess.PIPE, stdout=stream, stderr=stream,
                                           start_new_session=True)  # fmt: skip

    @property
    def group(self) -> int:
        """The id of its process group."""
        return self._popen.pid

    @property
    def url(self) -> str:
        """The URL on which it listens."""
        return f"http://{HOST}:{self.port}"

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative for the signal that ended it."""
        with blocked_signals():
            code = self._popen.poll()
        return code if code is None or code <= 128 else 128 - code

    def wait(self, until: Callable[[], bool], seconds: float, what: str) -> None:
        """Poll until ``until()`` holds. Raise ``ServerEnded`` if the process ends first, BadInput after ``seconds``."""
        stop = time.monotonic() + seconds
        while not until():
            if self.returncode is not None:
                if until():
                    return
                raise ServerEnded(self.died())
            if time.monotonic() > stop:
                raise BadInput(f"{what} took longer than {seconds:g} s", file=str(self.log))
            time.sleep(POLL)

    def died(self) -> ProcessEnd:
        """Return how the process ended. For a process that still runs the return code is 0."""
        return ProcessEnd(self.returncode or 0, fatal_lines(self.log))

    def terminate(self) -> None:
        """Send SIGTERM to the server and wait until it has ended by itself, so that its log is complete; then stop."""
        self._popen.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(END_WITHIN)
        self.stop()

    def stop(self) -> None:
        """End the whole process group and wait for it. May be called again."""
        group = self.group
        if self._popen.stdin is not None:
            with suppress(OSError, ValueError):
                self._popen.stdin.write(b"stop\n")     # else the guard takes this process for killed
            with suppress(OSError):
                self._popen.stdin.close()       # the guard kills the server; the shell reaps both
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(GUARD_WITHIN)
        stop = time.monotonic() + END_WITHIN
        while _kill(group) and _is_running(group) and time.monotonic() < stop:
            self._popen.poll()
            time.sleep(POLL)
        self._popen.wait(END_WITHIN)


_FATAL = re.compile(r"^(?:\S*/)?([\w.+-]+\.(?:c|cc|cpp|cu|h|hpp|m):\d+): (.*\S)\s*$", re.M)
TAIL = 1 << 20              # bytes at the end of a log that are searched for failure messages


class ServerEnded(Exception):
    """Raised if a server process ended by itself."""

    def __init__(self, died: ProcessEnd) -> None:
        self.died = died
        super().__init__(f"the server ended with {died.returncode}: {' / '.join(died.fatal) or 'no message'}")


def fatal_lines(log: Path) -> tuple[str, ...]:
    """Return the messages of failed assertions in a log: `file.cpp:line: message`, without the folder."""
    with log.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - TAIL))
        text = stream.read().decode("utf-8", "replace")
    return tuple(f"{found[1]}: {found[2]}" for found in _FATAL.finditer(text))


def _kill(group: int) -> bool:
    """Kill a process group; return False if it has ended already."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _is_running(group: int) -> bool:
    """True if a process of the group still runs, or if that is not known. One that has ended stays in its group until
    the system's first process has read how."""
    processes = Path("/proc")
    if not (processes / "self/stat").exists():
        return True
    for process in processes.glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, of_group = process.read_text("utf-8", "replace").rpartition(")")[2].split()[:3]
            if int(of_group) == group and state not in "ZX":
                return True
    return False


def version_text(binary: Path) -> str:
    """Return the output of ``--version``. Raise BadInput."""
    words = [str(binary.absolute()), "--version"]
    try:
        done = run_guarded(words, binary.absolute().parent, VERSION_WITHIN, VERSION_BYTES)
    except (BadInput, OSError) as error:
        cause = error.cause if isinstance(error, BadInput) else str(error)
        raise BadInput(f"cannot be run: {cause}", file=str(binary)) from None
    return done.output + done.errors


def free_port() -> int:
    """Return a free port of the loopback."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
