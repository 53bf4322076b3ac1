"""Campaign of many mutants, in shares. Each finished share is stored in a file, so that a campaign can be continued.

The folder name contains a digest of the code and of the inputs, so that results of different trees are not mixed.
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
from tests.hostile.child import adopt_orphans, forked
from tests.hostile.tally import play
from tests.shared import ROOT

SHARE = 1000                 # mutants: about 40 of each kind, which run together
STATE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "cachesim-hostile"
MADE_OF = ("cachesim/**/*.py", "tests/hostile/*.py", "scenarios/**/*.toml", "tests/data/**/*.json")


def digest():
    """Return an 8-digit digest of the code and the inputs."""
    found = sha256()
    for pattern in MADE_OF:
        for path in sorted(ROOT.glob(pattern)):
            found.update(path.read_bytes())
    return found.hexdigest()[:8]


class Campaign:
    """Mutants ``start`` to ``number`` of a seed; results are stored below ``state``."""

    def __init__(self, seed, number, start=0, state=STATE):
        self.seed, self.folder = seed, Path(state) / f"{digest()}-{seed}"
        self.shares = [(first, min(first + SHARE, number)) for first in range(start, number, SHARE)]
        self.folder.mkdir(parents=True, exist_ok=True)

    def file(self, share):
        return self.folder / "{:07}-{}.json".format(*share)

    def left(self):
        """Return the shares that are not done."""
        return [share for share in self.shares if not self.file(share).exists()]

    def done(self):
        """Return the counts of the finished shares."""
        return [json.loads(self.file(share).read_text()) for share in self.shares if self.file(share).exists()]

    def work(self, jobs):
        """Run the remaining shares in ``jobs`` processes; yield once per finished share."""
        todo = self.left()
        workers = [self._worker(todo[i::jobs]) for i in range(min(jobs, len(todo)))]
        reported = 0
        try:
            while reported < len(todo):
                ended = all(os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) for pid in workers)
                now = len(todo) - len(self.left())
                yield from range(reported, now)
                reported = now
                if ended:
                    break
                time.sleep(0.2)
        finally:
            for pid in workers:
                with suppress(OSError):
                    os.kill(pid, signal.SIGTERM)
                os.waitpid(pid, 0)

    def _worker(self, shares):
        """Start a process that runs these shares. It is forked before it has threads, so that it can fork in turn."""
        sys.stdout.flush()
        parent, pid = os.getpid(), forked()
        if pid:
            return pid
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        adopt_orphans()
        try:
            for share in shares:
                tally = play(self.seed, *share)
                if os.getppid() != parent:
                    break
                write_whole(self.file(share), json.dumps(tally).encode())
        finally:
            os._exit(0)
