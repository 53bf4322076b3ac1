"""The analysis reads copies before a long log, and both to their ends."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path
from threading import Thread

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.untrusted_files import STDIN
from cachesim.tools.watch import analysis, joined_rows, log_follower
from cachesim.tools.watch.analysis import Analysis, Sources
from cachesim.tools.watch.frames import (
    CAUSE,
    CLIENT_ENDS,
    REPLY,
    REQUEST,
    SKIPPED_REQUEST,
    Frame,
    FrameQueue,
    FrameReader,
    packed,
)
from cachesim.tools.watch.joined_rows import TOO_LATE
from cachesim.tools.watch.log_follower import LogFollower
from cachesim.tools.watch.saved_bodies import SavedBodies
from cachesim.tools.watch.watched_exchange import NOT_COPIED
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


def analyzed(exchanges, **sources):
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
    Analysis(Sources(read, log=LogFollower(LOG), **sources), printed).run()
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


def test_after_the_deadline_requests_are_counted_and_not_compared(monkeypatch, tmp_path):
    """The copies are read to their end, because their number is bounded; the log is not."""
    monkeypatch.setattr(log_follower, "PIECE", 1024)
    bodies, file = [b'{"prompt": "question %d"}' % number for number in range(5)], tmp_path / "compared"
    printed = analyzed([(body, SIZED) for body in bodies], saved=SavedBodies(file),
                       is_over=lambda: len(file.read_bytes().splitlines()) == 2)  # fmt: skip
    assert len(file.read_bytes().splitlines()) == 2 and printed.rows.count("client") == 5
    assert printed.totals["left_out"] == [{"why": TOO_LATE, "requests": 3}]
    assert LOG.stat().st_size - 2 * 1024 <= printed.totals["unread_log_bytes"] < LOG.stat().st_size


def test_an_open_request_has_a_row_at_the_end():
    printed = analyzed([(b'{"prompt": "a question"}', b"HTTP/1.1 200 OK\r\n")])
    assert printed.rows.count("client") == 1


def test_bodies_that_cannot_be_saved_end_nothing(capsys):
    saved = SavedBodies(Path("/dev/full"))
    printed = analyzed([(b'{"prompt": "question %d"}' % number, SIZED) for number in range(3)], saved=saved)
    assert printed.rows.count("client") == 3 and printed.totals["unsaved_requests"] == saved.unsaved == 3
    assert capsys.readouterr().err.count("no space left on device") == 1


def once(path):
    """Return the totals of a finished log."""
    printed = Printed()
    Analysis(Sources(log=LogFollower(path), once=True), printed).run()
    return printed.totals


LONG = b"x" * 70_000 + b"\n"
MIDDLE = LOG.read_bytes().index(b"\n", 5_000) + 1
LOGS = {
    "a long first line": LONG + LOG.read_bytes(),
    "a first line of a MiB": b"y" * (1 << 20) + b"\n" + LOG.read_bytes(),
    "long lines between": LOG.read_bytes()[:MIDDLE] + LONG * 3 + LOG.read_bytes()[MIDDLE:],
    "no last line end": LONG + LOG.read_bytes().rstrip(b"\n"),
    "a long last line": LOG.read_bytes() + LONG.rstrip(b"\n"),
    "a first piece without a line end": b"z" * (1 << 16) + b"\n" + LOG.read_bytes(),
}


@pytest.mark.parametrize("name", LOGS)
def test_once_ends_at_the_end_of_the_log(name, tmp_path):
    (tmp_path / "log").write_bytes(LOGS[name])
    totals = once(tmp_path / "log")
    assert (totals["requests"], totals["prompt"]) == (7, 790)


def test_once_reads_a_sparse_log_to_its_end(tmp_path):
    with (tmp_path / "log").open("wb") as file:
        file.truncate(1 << 25)
        file.seek(1 << 25)
        file.write(b"\n" + LOG.read_bytes())
    assert once(tmp_path / "log")["requests"] == 7


def test_once_reports_a_log_that_cannot_be_read_to_its_end(monkeypatch):
    def fail(file, size):
        raise OSError(errno.EIO, "Input/output error")

    log = LogFollower(LOG)
    monkeypatch.setattr(os, "read", fail)
    with pytest.raises(BadInput, match=r"verbosity_4.log: input/output error"):
        Analysis(Sources(log=log, once=True), Printed()).run()


def causes_of(*frames, **sources):
    """Return the causes that the relay gets for these frames."""
    (read, write), (answers, causes) = os.pipe(), os.pipe()
    os.write(write, b"".join(packed(Frame(kind, number, data)) for kind, number, data in frames))
    os.close(write)
    Analysis(Sources(read, causes, **sources), Printed()).run()
    os.close(causes)
    with os.fdopen(answers, "rb") as pipe:
        found = list(FrameReader().read(pipe.read()))
    assert {one.kind for one in found} <= {CAUSE}
    return [(one.connection, one.data.partition(b";")[0]) for one in found]


DATED = [b'{"messages": [{"role": "user", "content": "Today is 2026-01-0%d. What is it?"}]}' % day for day in (1, 2)]


def test_the_relay_gets_the_cause_of_a_request_that_has_no_reply_yet():
    frames = [frame for number, body in enumerate((DATED[0], DATED[1], b"not JSON"))
              for frame in ((REQUEST, number, post(body)), (REPLY, number, SIZED))]  # fmt: skip
    assert causes_of(*frames) == [(0, b"new"), (1, b"date"), (2, b"")]
    early = (REQUEST, 1, post(DATED[0])[:-1]), (REPLY, 1, SIZED), (REQUEST, 1, b"}")
    assert causes_of(*early) == causes_of((REQUEST, 1, post(DATED[0])[:-1]), (CLIENT_ENDS, 1, b"")) == []


def test_a_relay_that_has_ended_gets_no_cause():
    (read, write), (answers, causes) = os.pipe(), os.pipe()
    os.close(answers)
    os.write(write, packed(Frame(REQUEST, 7, post(DATED[0]))))
    os.close(write)
    printed = Printed()
    Analysis(Sources(read, causes), printed).run()
    assert printed.rows == ["client"]


def test_only_bodies_that_were_compared_are_saved(tmp_path):
    analyzed([(DATED[0], SIZED), (b"not JSON", SIZED), (DATED[1], SIZED)], saved=SavedBodies(tmp_path / "saved"))
    assert [json.loads(line)["request"] for line in (tmp_path / "saved").read_bytes().splitlines()] == [
        json.loads(body) for body in DATED]  # fmt: skip


def test_rows_of_other_clients_are_printed_while_the_relay_runs(monkeypatch):
    """Also the last one, when the log falls silent."""
    monkeypatch.setattr(analysis, "TICK", 0.01)
    monkeypatch.setattr(joined_rows, "LOOKS", 2)
    (read, write), printed = os.pipe(), Printed()
    thread = Thread(target=Analysis(Sources(read, log=LogFollower(LOG)), printed).run)
    thread.start()
    until = time.monotonic() + 10
    while len(printed.rows) < 7 and time.monotonic() < until:
        time.sleep(0.01)
    found = list(printed.rows)
    os.close(write)
    thread.join()
    os.close(read)
    assert found == ["log"] * 7 and printed.totals["requests"] == 7


def test_standard_input_is_read_to_its_end(monkeypatch):
    read, write = os.pipe()
    monkeypatch.setattr("sys.stdin", os.fdopen(read))
    os.write(write, LOG.read_bytes())
    os.close(write)
    printed = Printed()
    Analysis(Sources(log=LogFollower(STDIN)), printed).run()
    assert (printed.rows, printed.totals["prompt"]) == (["log"] * 7, 790)


def test_the_last_request_waits_for_three_looks_in_a_row_without_a_new_line(monkeypatch):
    """Each piece that arrives is a look; those of a line that is not over are without a new line."""
    (read, write), printed, seen = os.pipe(), Printed(), []
    pieces = iter([LOG.read_bytes(), b"a", b"b", b"c\n", b"d", b"e", b"f"])

    def look(waits, *rest):
        seen.append(len(printed.rows))
        if piece := next(pieces, b""):
            os.write(write, piece)
        else:
            os.close(write)
        return waits, [], []

    monkeypatch.setattr("sys.stdin", os.fdopen(read))
    monkeypatch.setattr(analysis, "select", look)
    Analysis(Sources(log=LogFollower(STDIN)), printed).run()
    assert seen == [0, *[6] * 6, 7]


def test_dropped_bytes_are_counted_and_others_are_not(monkeypatch):
    read, write = os.pipe()
    head, gap = post(b"x" * 900)[:-900], (900).to_bytes(8, "big")
    frames = [Frame(REQUEST, 1, head), Frame(SKIPPED_REQUEST, 1, gap), Frame(REPLY, 1, SIZED), Frame(CLIENT_ENDS, 1)]
    os.write(write, b"".join(map(packed, frames)))
    os.close(write)
    printed = Printed()
    Analysis(Sources(read), printed).run()
    os.close(read)
    assert printed.totals["dropped_bytes"] == 900 and printed.rows == ["client"]
    assert printed.totals["left_out"] == [{"why": NOT_COPIED, "requests": 1}]


def test_an_analysis_without_a_log_has_totals_of_nothing():
    read, write = os.pipe()
    os.close(write)
    printed = Printed()
    Analysis(Sources(read), printed).run()
    os.close(read)
    assert {name: value for name, value in printed.totals.items() if value} == {}
    assert {name for name, value in printed.totals.items() if value == []} == {
        "at_least", "causes", "log", "first_lines", "left_out"}  # fmt: skip