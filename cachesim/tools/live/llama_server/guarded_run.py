"""A program of somebody else, run to its end under limits of its environment, time and output.

It works in a folder of its own, so that no file of the current folder is imported or executed in place of a module or
program, and sees only a few environment variables. It runs in a process group under a shell that kills the group when
the pipe to this process breaks: nothing of it is left if this process is killed.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.pool import blocked_signals

MOST_PRINTED = 1 << 20      # bytes of each output that a program may print
POLL = 0.1                  # seconds between two looks at a silent program

OF_THE_SYSTEM = (
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH",
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS",
    "http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
)  # fmt: skip
OF_PIP = (
    "PIP_CERT", "PIP_CLIENT_CERT", "PIP_PROXY", "PIP_TRUSTED_HOST", "PIP_CONFIG_FILE",
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX", "PIP_FIND_LINKS",
)  # fmt: skip
"""Variables that say where pip finds packages; others change what it installs, and where."""

_GUARD = """
ulimit -c 0
exec 3<&0 </dev/null
(read line <&3; kill -9 0) 2>/dev/null &
guard=$!
"$@" 3<&-
code=$?
kill $guard 2>/dev/null
exit $code
"""


class Ended(NamedTuple):
    """How a program ended. ``returncode`` is 128 + the number of a signal."""

    returncode: int
    output: str
    errors: str


def kept_environment() -> dict[str, str]:
    """Return the environment variables that a program sees."""
    return {name: os.environ[name] for name in (*OF_THE_SYSTEM, *OF_PIP) if name in os.environ}


def run_guarded(words: Sequence[str], folder: Path, seconds: float, most: int = MOST_PRINTED) -> Ended:
    """Run a program in a folder and return how it ended. ``words``: its absolute path and its arguments; ``seconds``:
    how long it may take; ``most``: bytes of each output.

    Raise BadInput if it cannot be started, takes longer or prints more. Whatever ends this call, an interrupt among
    it, ends the program and all that it has started.
    """
    if not os.access(words[0], os.X_OK):
        raise BadInput("not an executable file", file=words[0])
    guarded = ["/bin/sh", "-c", _GUARD, "sh", *words]
    started = subprocess.Popen(guarded, cwd=folder, env=kept_environment(), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)  # fmt: skip
    try:
        output, errors = _read(started, words[0], seconds, most)
    finally:
        _end(started)
    return Ended(started.returncode, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace"))


def _read(started: subprocess.Popen[bytes], program: str, seconds: float, most: int) -> list[bytes]:
    """Return both outputs when the program has ended. Raise BadInput if it takes too long or prints too much."""
    end = time.monotonic() + seconds
    streams: list[IO[bytes]] = [stream for stream in (started.stdout, started.stderr) if stream is not None]
    printed = {stream: bytearray() for stream in streams}
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(POLL)
            for key, _ in ready:
                stream = key.fileobj                                     # type: ignore[assignment]
                piece = os.read(key.fd, 1 << 16)
                if not piece:
                    selector.unregister(stream)
                printed[stream] += piece
                if len(printed[stream]) > most:
                    raise BadInput(f"it printed more than {most:,} bytes", file=program)
            if not ready and _has_ended(started):                 # what it has started still holds the output
                break
            if time.monotonic() > end:
                raise BadInput(f"it took longer than {seconds:g} s", file=program)
    while not _has_ended(started):
        if time.monotonic() > end:
            raise BadInput(f"it took longer than {seconds:g} s", file=program)
        time.sleep(POLL / 10)
    return [bytes(one) for one in printed.values()]


def _has_ended(started: subprocess.Popen[bytes]) -> bool:
    """True if a program has ended. An interrupt waits for the answer, see ``blocked_signals``."""
    with blocked_signals():
        return started.poll() is not None


def _end(started: subprocess.Popen[bytes]) -> None:
    """Kill the process group, and release the pipes."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    for stream in (started.stdin, started.stdout, started.stderr):
        if stream is not None:
            stream.close()
