"""The analysis reads copies before a long log, and both to their ends."""

from __future__ import annotations

import os

from cachesim.tools.watch import analysis, joined_rows, log_follower
from cachesim.tools.watch.analysis import Analysis, Sources
from cachesim.tools.watch.frames import REPLY, REQUEST, FrameQueue
from cachesim.tools.watch.log_follower import LogFollower
from tests.shared import ROOT
from tests.unit.tools.watch.test_exchanges import SIZED, post
from tests.unit.tools.watch.test_log_rows import rows_of

LOG = ROOT / "tests/unit/tools/server_logs/verbosity_4.log"


REPLY_HEAD, COUNTS = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", ("evaluated", "reused", "generated")


class Printed:
    """Output that keeps the rows."""

    def __init__(self):
        self.rows, self.totals = [], None

    def row(self, row):
        self.rows.append(row["source"])

    def end(self, totals):
        self.totals = totals


def analyzed(exchanges):
    """Return what is printed for copies of these request bodies and replies, and for the log."""
    read, write = os.pipe()
    sent = bytearray()
    queue = FrameQueue(sent.extend, lambda: 0)
    for number, (body, reply) in enumerate(exchanges):
        queue.put(REQUEST, number, post(body))
        queue.put(REPLY, number, reply)
        queue.flush()
    os.write(write, sent)
    os.close(write)
    printed = Printed()
    Analysis(Sources(read, log=LogFollower(LOG)), printed).run()
    os.close(read)
    return printed


def test_the_log_is_read_before_more_replies_wait_than_are_kept(monkeypatch):
    """Without that the oldest replies would be printed without the log's part of their rows."""
    monkeypatch.setattr(joined_rows, "HALVES", 4)
    monkeypatch.setattr(analysis, "PIECE", 256)
    rows = rows_of(LOG.read_text().splitlines())[1]
    body = b'{"timings": {"prompt_n": %(evaluated)d, "cache_n": %(reused)d, "predicted_n": %(generated)d}}'
    exchanges = []
    for number, row in enumerate(rows):
        said = body % {key.encode(): row[key] for key in COUNTS}
        exchanges.append((b'{"prompt": "question %d"}' % number, REPLY_HEAD % len(said) + said))
    printed = analyzed(exchanges)
    assert printed.rows == ["both"] * 7


def test_copies_do_not_wait_for_a_long_log(monkeypatch):
    monkeypatch.setattr(log_follower, "PIECE", 4096)
    printed = analyzed([(b'{"prompt": "a question"}', SIZED)])
    assert printed.rows == ["client", *["log"] * 7]      # an error needs no log row, so its row came first
    assert printed.totals["log_lines"] == len(LOG.read_text().splitlines())
