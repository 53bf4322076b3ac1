"""The analysis reads copies before a long log, and both to their ends."""

from __future__ import annotations

import os

from cachesim.tools.watch import log_follower
from cachesim.tools.watch.analysis import Analysis, Sources
from cachesim.tools.watch.frames import REPLY, REQUEST, FrameQueue
from cachesim.tools.watch.log_follower import LogFollower
from tests.shared import ROOT
from tests.unit.tools.watch.test_exchanges import SIZED, post

LOG = ROOT / "tests/unit/tools/server_logs/verbosity_4.log"


class Printed:
    """Output that keeps the rows."""

    def __init__(self):
        self.rows, self.totals = [], None

    def row(self, row):
        self.rows.append(row["source"])

    def end(self, totals):
        self.totals = totals


def test_copies_do_not_wait_for_a_long_log(monkeypatch):
    monkeypatch.setattr(log_follower, "PIECE", 4096)
    read, write = os.pipe()
    sent = bytearray()
    queue = FrameQueue(sent.extend, lambda: 0)
    queue.put(REQUEST, 1, post(b'{"prompt": "a question"}'))
    queue.put(REPLY, 1, SIZED)
    queue.flush()
    os.write(write, sent)
    os.close(write)
    printed = Printed()
    Analysis(Sources(read, log=LogFollower(LOG)), printed).run()
    os.close(read)
    assert printed.rows == ["client", *["log"] * 7]      # an error needs no log row, so its row came first
    assert printed.totals["log_lines"] == len(LOG.read_text().splitlines())
