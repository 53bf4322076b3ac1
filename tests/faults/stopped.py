"""``python -m tests.faults.stopped PLACES WHO SIGNAL ARGV...``: run cachesim, and send a signal within its work. ARGV
may begin with ``-m MODULE``: that module has another ``main``.

The first call of one of the PLACES (MODULE:FUNCTION, separated by commas) sends it. WHO: "main" for a call in the main
process, "worker" for a call in a forked worker, "child" for the processes that the main process has started.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, Callable

MARK = "CACHESIM_STOPPED"        # file that the process with the call creates, so that the signal is sent once


def children() -> list[int]:
    """Return the ids of the child processes of this process."""
    tasks = Path("/proc/self/task").glob("*/children")
    return [int(pid) for task in tasks for pid in task.read_text().split()]


def stopping(function: Callable[..., Any], who: str, number: int, main: int) -> Callable[..., Any]:
    """Return the function with the signal before its first call."""

    def stopped(*args: Any, **options: Any) -> Any:
        if (os.getpid() == main) == (who != "worker"):
            with suppress(FileExistsError):
                os.close(os.open(os.environ[MARK], os.O_CREAT | os.O_EXCL))
                for pid in children() if who == "child" else [os.getpid()]:
                    os.kill(pid, number)
        return function(*args, **options)

    return stopped


def main(argv: list[str]) -> int:
    """Replace the functions, then run the command line."""
    places, who, number, *argv = argv
    for place in places.split(","):
        module, _, path = place.partition(":")
        *way, name = path.split(".")
        holder = reduce(getattr, way, import_module(module))
        setattr(holder, name, stopping(getattr(holder, name), who, int(number), os.getpid()))
    program = "cachesim.cli.main"
    if argv[0] == "-m":
        _, program, *argv = argv
    code: int = import_module(program).main(argv)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
