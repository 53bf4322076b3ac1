"""Many mutants, in shares: each is kept in a file when it is done, so that a campaign goes on where it stopped.

The folder's name holds a digest of the code and of what mutants are made of: numbers of another tree are not added.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from cachesim.base.files import write_whole
from tests.hostile.child import forked
from tests.hostile.tally import play
from tests.shared import ROOT

SHARE = 250
STATE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "cachesim-hostile"
MADE_OF = ("cachesim/**/*.py", "tests/hostile/*.py", "scenarios/**/*.toml", "tests/data/**/*.json")


def digest():
    """Eight digits for the code and the inputs."""
    found = sha256()
    for pattern in MADE_OF:
        for path in sorted(ROOT.glob(pattern)):
            found.update(path.read_bytes())
    return found.hexdigest()[:8]


class Campaign:
    """``number`` mutants of a seed, the first ``start`` left out, kept below ``state``."""

    def __init__(self, seed, number, start=0, state=STATE):
        self.seed, self.folder = seed, Path(state) / f"{digest()}-{seed}"
        self.shares = [(first, min(first + SHARE, number)) for first in range(start, number, SHARE)]
        self.folder.mkdir(parents=True, exist_ok=True)

    def file(self, share):
        return self.folder / "{:07}-{}.json".format(*share)

    def left(self):
        """Shares that are not done."""
        return [share for share in self.shares if not self.file(share).exists()]

    def done(self):
        """The counts of the shares that are done."""
        return [json.loads(self.file(share).read_text()) for share in self.shares if self.file(share).exists()]

    def work(self, jobs):
        """Do what is left in so many processes; yields once for every share that is done."""
        todo = self.left()
        workers = [self._worker(todo[i::jobs]) for i in range(min(jobs, len(todo)))]
        told = 0
        try:
            while told < len(todo):
                ended = all(os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) for pid in workers)
                now = len(todo) - len(self.left())
                yield from range(told, now)
                told = now
                if ended:
                    break
                time.sleep(0.2)
        finally:
            for pid in workers:
                with suppress(OSError):
                    os.kill(pid, signal.SIGTERM)
                os.waitpid(pid, 0)

    def _worker(self, shares):
        """A process that does these shares: forked before it has any thread, so that it can fork in its turn."""
        sys.stdout.flush()
        parent, pid = os.getpid(), forked()
        if pid:
            return pid
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for share in shares:
                tally = play(self.seed, *share)
                if os.getppid() != parent:
                    break
                write_whole(self.file(share), json.dumps(tally).encode())
        finally:
            os._exit(0)
