"""Child process that parses foreign data under limits: the child's side, started by ``bounded_child``.

Before the process reads its first byte, it limits its CPU time, address space and files, asks the kernel to be killed
with its parent, and blocks the import of sockets. Then it imports a parser module with a function
``open_parser(first, data)``, which parses the data and returns a function from a request to a result. A parser
raises BadInput for data that it rejects, and ImportError for a missing package. The process ends with its input.
The imports of this module are part of the start-up time of every child, so they are few.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, BinaryIO, Callable, Mapping

SECONDS_PER_MIB = 4          # CPU seconds allowed for each MiB of requests, besides the limit of the process
FILES = 64                   # open files
NETWORK = ("_socket", "socket", "_ssl", "ssl", "http", "http.client", "urllib.request", "asyncio")
PR_SET_PDEATHSIG = 1         # Linux, <sys/prctl.h>

Answer = Callable[[Mapping[str, Any]], Any]


def to_line(value: Any) -> bytes:
    """Return a value as a line of JSON. Lone surrogates are kept."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"


def from_line(line: bytes) -> Any:
    """Return the value in a line of JSON."""
    return json.loads(line.decode("utf-8", "surrogatepass"))


class CPULimit:
    """CPU limit of this process, which grows with the requests. The kernel ends the process with SIGXCPU."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._set()

    def add(self, size: int) -> None:
        """Allow time for a request of ``size`` bytes."""
        before, self.seconds = self.seconds, self.seconds + SECONDS_PER_MIB * size / (1 << 20)
        if int(before) != int(self.seconds):
            self._set()

    def _set(self) -> None:
        with suppress(ImportError, ValueError, OSError):         # not available on Windows
            import resource

            signal.signal(signal.SIGXCPU, signal.SIG_DFL)
            hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
            soft = int(self.seconds) if hard == resource.RLIM_INFINITY else min(int(self.seconds), hard)
            resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def bound(mebibytes: int, file_bytes: int = 0) -> None:
    """Limit address space [MiB] and the size of written files [bytes] of this process. A limit that the system does not
    have is left out."""
    try:
        import resource
    except ImportError:                          # not available on Windows
        return
    for name, value in (("RLIMIT_AS", mebibytes << 20), ("RLIMIT_CORE", 0), ("RLIMIT_FSIZE", file_bytes),
                        ("RLIMIT_NOFILE", FILES)):  # fmt: skip
        with suppress(AttributeError, ValueError, OSError, OverflowError):
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (value, value))


def end_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends. Other systems than Linux: the input ends."""
    if not sys.platform.startswith("linux"):
        return
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:                   # it ended before the call
        os._exit(1)


def block_network() -> None:
    """Make every import of a network module fail."""
    for name in NETWORK:
        sys.modules[name] = None                 # type: ignore[assignment]


def serve(module: str, cpu: CPULimit, stdin: BinaryIO, stdout: BinaryIO) -> None:
    """Answer requests until the input ends. The first request carries the data; its result is None."""
    answer: Answer | None = None
    while line := stdin.readline():
        cpu.add(len(line))
        try:
            request = from_line(line)
            if answer is None:
                parser = import_module(module)
                answer = parser.open_parser(request, stdin.read(request["bytes"]))
                reply = to_line({"result": None})
            else:
                reply = to_line({"result": answer(request)})
        except BaseException as error:           # also a panic of Rust code, which is not an Exception
            reply = to_line(error_reply(error))
        stdout.write(reply)
        stdout.flush()


def error_reply(error: BaseException) -> dict[str, Any]:
    """Return the reply for an exception of a parser."""
    from cachesim.base.errors import BadInput

    if isinstance(error, BadInput):
        return {"refused": error.cause, "hint": error.hint}
    if isinstance(error, ImportError):
        return {"missing": error.name or str(error)}
    if isinstance(error, MemoryError):
        return {"memory": True}
    return {"failed": f"{type(error).__name__}: {error}"[:300]}


def main(argv: list[str]) -> None:
    """Limit this process, then parse. ``argv``: parser module, parent's process id, CPU seconds, MiB."""
    module, (parent, seconds, mebibytes) = argv[0], map(int, argv[1:])
    cpu = CPULimit(seconds)
    bound(mebibytes)
    end_with_parent(parent)
    block_network()
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    serve(module, cpu, sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main(sys.argv[1:])
