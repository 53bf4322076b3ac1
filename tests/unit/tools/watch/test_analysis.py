"""The analysis reads copies before a long log, and both to their ends."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.untrusted_files import STDIN
from cachesim.tools.watch import analysis, joined_rows, log_follower
from cachesim.tools.watch.analysis import Analysis, Sources
from cachesim.tools.watch.cause_header import header_value
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
from cachesim.tools.watch.recent_bodies import RecentBodies
from cachesim.tools.watch.report import totals_text
from cachesim.tools.watch.saved_bodies import SavedBodies
from cachesim.tools.watch.watched_exchange import NOT_COPIED, WatchedExchange
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


def test_after_the_deadline_requests_are_counted_and_not_compared(monkeypatch):
    """The copies are read to their end, because their number is bounded; the log is not."""
    monkeypatch.setattr(log_follower, "PIECE", 1024)
    compared, added = [], RecentBodies.add

    def add(self, url, raw):
        compared.append(raw)
        return added(self, url, raw)

    monkeypatch.setattr(RecentBodies, "add", add)
    bodies = [b'{"prompt": "question %d"}' % number for number in range(5)]
    printed = analyzed([(body, SIZED) for body in bodies], is_over=lambda: len(compared) == 2)
    assert compared == bodies[:2] and printed.rows.count("client") == 5
    assert printed.totals["left_out"] == [{"why": TOO_LATE, "requests": 3}]
    read = printed.totals["unread_log_bytes"]
    assert LOG.stat().st_size - 2 * 1024 <= read < LOG.stat().st_size
    assert "3  left out: the relay was ending" in totals_text(printed.totals)
    assert f"{read:,} bytes of the log were not read" in totals_text(printed.totals)


def test_an_open_request_has_a_row_at_the_end():
    printed = analyzed([(b'{"prompt": "a question"}', b"HTTP/1.1 200 OK\r\n")])
    assert printed.rows.count("client") == 1


def test_bodies_that_cannot_be_saved_end_nothing(capsys):
    saved = SavedBodies(Path("/dev/full"))
    printed = analyzed([(b'{"prompt": "question %d"}' % number, SIZED) for number in range(3)], saved=saved)
    assert printed.rows.count("client") == 3 and printed.totals["unsaved_requests"] == saved.unsaved == 3
    assert capsys.readouterr().err.count("no space left on device") == 1
    assert "3 requests were not saved" in totals_text(printed.totals)


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


def made(log=True, copies=None):
    """An analysis whose idle log has two rows; a row of the log becomes two printed rows."""
    printed = Printed()
    found = Analysis(Sources(copies, log=LogFollower(LOG) if log else None), printed)
    asked = []

    def logged(row, is_alone):
        asked.append((row["source"], is_alone))
        return row, {"source": "more"}

    found._lines = SimpleNamespace(idle=lambda: ({"source": "a"}, {"source": "b"}))
    found._joined = SimpleNamespace(logged=logged)
    return found, printed, asked


def test_rows_of_an_idle_log_are_printed():
    found, printed, asked = made()
    found._idle()
    assert printed.rows == ["a", "more", "b", "more"] and asked == [("a", True), ("b", True)]
    found, printed, asked = made(copies=3)
    found._idle()
    assert asked == [("a", False), ("b", False)]
    found, printed, _ = made(log=False)
    found._idle()
    assert printed.rows == []


class Causes:
    """Analysis whose comparison finds a row for each request, and whose answers to the relay go into a pipe."""

    def __init__(self, found, saved=None):
        self.ends = os.pipe()
        self.made = Analysis(Sources(causes=self.ends[1], saved=saved), Printed())
        self.made._joined = SimpleNamespace(sent=lambda exchange: found)

    def answer(self, **fields):
        """Return the frames that are written for a request that was read."""
        one = WatchedExchange("POST", "/x?y", 7, is_sent=True)
        one.take_request(b"body")
        for name, value in fields.items():
            setattr(one, name, value)
        self.made._sent(one)
        os.set_blocking(self.ends[0], False)
        try:
            data = os.read(self.ends[0], 1 << 16)
        except BlockingIOError:
            data = b""
        return [(one.kind, one.connection, one.data) for one in FrameReader().read(data)]


ROW = {"cause": "date", "harmless": False, "path": "messages[0].content", "character": 5}


def test_the_relay_gets_the_cause_of_a_request_that_has_no_reply_yet():
    assert Causes([ROW, {}]).answer() == [(CAUSE, 7, header_value(ROW))] and header_value(ROW)
    assert Causes([]).answer() == [(CAUSE, 7, b"")]
    assert Causes([ROW]).answer(is_sent=False) == Causes([ROW]).answer(status=200) == []


def test_a_relay_that_has_ended_gets_no_cause():
    causes = Causes([ROW])
    os.close(causes.ends[0])
    causes.made._sent(WatchedExchange("POST", "/x", 7, is_sent=True))


@pytest.mark.parametrize("found", [[ROW], []])
def test_a_body_that_was_compared_is_saved(found):
    kept = []
    Causes(found, SimpleNamespace(add=lambda *given: kept.append(given))).answer()
    assert kept == ([("/x", b"body")] if found else [])


def test_standard_input_is_read_to_its_end(monkeypatch):
    read, write = os.pipe()
    monkeypatch.setattr("sys.stdin", os.fdopen(read))
    os.write(write, LOG.read_bytes())
    os.close(write)
    printed = Printed()
    Analysis(Sources(log=LogFollower(STDIN)), printed).run()
    assert (printed.rows, printed.totals["prompt"]) == (["log"] * 7, 790)


def test_halves_wait_for_looks_at_the_end_of_the_log(monkeypatch):
    looks = []
    monkeypatch.setattr(joined_rows.JoinedRows, "read_to_end", lambda self, is_quiet: looks.append(is_quiet) or ())
    printed = analyzed([], once=True)
    assert looks and printed.totals["dropped_bytes"] == 0 and printed.totals["log_lines"] > 100


def test_a_look_at_the_log_is_not_quiet_while_copies_are_read(monkeypatch):
    looks = []
    monkeypatch.setattr(joined_rows.JoinedRows, "read_to_end", lambda self, is_quiet: looks.append(is_quiet) or ())
    read, write = os.pipe()
    log = SimpleNamespace(has_more=False, failure="", wait_on=list, lines=list)
    found = Analysis(Sources(read, log=log), Printed())
    os.write(write, packed(Frame(REQUEST, 1, post(b"one"))))
    monkeypatch.setattr(analysis, "TICK", 0)
    assert found._step() and found._step()
    log.has_more = True
    assert found._step()
    os.close(write)
    os.close(read)
    assert looks == [False, True], "a log that has more is not read to its end"


def test_compared_requests_and_copied_connections_share_a_limit():
    found = Analysis(Sources(), Printed())
    found._connections.read(Frame(REQUEST, 1, post(b'{"prompt": "a question"}')))
    assert found._connections._held.kept > 0


@pytest.mark.parametrize(("has_more", "waits", "once", "seconds"), [
    (False, [], False, analysis.TICK), (True, [], False, 0), (False, [], True, 0), (False, [5], True, analysis.TICK),
    (True, [5], False, 0),
])  # fmt: skip
def test_a_step_waits_for_bytes_unless_a_file_has_more_or_is_read_once(monkeypatch, has_more, waits, once, seconds):
    asked, log = [], SimpleNamespace(has_more=has_more, failure="", wait_on=lambda: waits, lines=list, ended=False)
    monkeypatch.setattr(analysis, "select", lambda *given: asked.append(given) or ([], [], []))
    Analysis(Sources(log=log, once=once), Printed())._step()
    assert asked == [(waits, [], [], seconds)]


def test_a_step_reads_all_copies_that_have_arrived(monkeypatch):
    select, waits, frame = analysis.select, [], packed(Frame(REQUEST, 1, post(b"one")))
    monkeypatch.setattr(analysis, "PIECE", len(frame) // 2 + 1)
    monkeypatch.setattr(analysis, "select", lambda *given: waits.append(given[3]) or select(*given))
    read, write = os.pipe()
    os.write(write, frame)
    assert Analysis(Sources(read), Printed())._step()
    os.close(write)
    os.close(read)
    assert waits == [analysis.TICK, 0, 0], "before each half, and after the second"


def test_a_log_is_idle_after_a_silence_or_after_some_looks_that_found_no_line(monkeypatch):
    log = SimpleNamespace(has_more=False, failure="", wait_on=lambda: [5], lines=list, ended=False)
    found, idle, quiet = Analysis(Sources(log=log), Printed()), [], []
    monkeypatch.setattr(found, "_idle", lambda: idle.append(found._quiet))
    for ready in (*[[5]] * analysis.QUIET, []):
        monkeypatch.setattr(analysis, "select", lambda *given, ready=ready: (ready, [], []))
        found._step()
        quiet.append(found._quiet)
    assert quiet == [*range(1, analysis.QUIET + 1), 2 * analysis.QUIET] and idle == quiet[-2:]


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


def test_the_last_request_has_a_row_after_a_look_without_a_new_line(tmp_path, monkeypatch):
    """While lines arrive, the server may still write lines of the request."""
    monkeypatch.setattr(analysis, "TICK", 0)
    lines = LOG.read_text().splitlines(keepends=True)
    end = max(number for number, line in enumerate(lines) if "total time" in line)
    file = tmp_path / "log"
    file.write_text("".join(lines[:end]))
    printed = Printed()
    log = LogFollower(file)
    found = Analysis(Sources(log=log), printed)
    for number in range(3):
        assert found._step() and (found._quiet > 0, log.has_more) == (number == 2, number == 0)
    before = len(printed.rows)
    with file.open("a") as stream:
        stream.write("".join(lines[end:end + 3]))
    assert found._step() and (len(printed.rows), found._quiet) == (before, 0)
    assert found._step() and found._step() and len(printed.rows) == before + 1
