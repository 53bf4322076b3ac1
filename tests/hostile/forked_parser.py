"""Bounded child of cachesim, forked instead of started: a start costs more CPU time than most mutants.

The forked process runs ``parser_process`` with its limits. The address space that it inherits is added to the limit.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from cachesim.base import bounded_child, parser_process


class ForkedParser:
    """Stand-in for ``subprocess.Popen`` with the part of its interface that ``bounded_child`` uses."""

    def __init__(self, words, **_):
        module, parent, seconds, mebibytes = words[words.index(str(bounded_child.CHILD)) + 1 :]
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        mebibytes = str(int(mebibytes) + (pages * resource.getpagesize() >> 20))
        ours, theirs = os.pipe(), os.pipe()
        self.returncode, self.pid = None, os.fork()
        if not self.pid:
            _parse([module, parent, seconds, mebibytes], ours[0], theirs[1])
        os.close(ours[0])
        os.close(theirs[1])
        self.stdin, self.stdout = os.fdopen(ours[1], "wb"), os.fdopen(theirs[0], "rb")

    def poll(self):
        """Return the exit code, None while it is running."""
        if self.returncode is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if found else None
        return self.returncode

    def wait(self):
        """Wait for the end and return the exit code."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def kill(self):
        """Kill the process."""
        os.kill(self.pid, 9)


def _parse(argv, stdin, stdout):
    """Run the parser in this process, then end it."""
    code = 1
    try:
        os.setsid()
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.closerange(3, 256)
        sys.stdin, sys.stdout = (SimpleNamespace(buffer=os.fdopen(n, mode)) for n, mode in enumerate(("rb", "wb")))
        parser_process.main(argv)
        code = 0
    finally:
        os._exit(code)


def fork_parsers():
    """Let this process fork its bounded children."""
    bounded_child.subprocess = SimpleNamespace(Popen=ForkedParser, PIPE=subprocess.PIPE, DEVNULL=subprocess.DEVNULL)
