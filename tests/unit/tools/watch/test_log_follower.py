"""A log is read as it grows, through rotations and truncations, in bounded memory."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.base.errors import BadInput
from cachesim.base.untrusted_files import STDIN
from cachesim.tools.watch import log_follower
from cachesim.tools.watch.log_follower import LineSplitter, LogFollower


def follow(path):
    return list(path.lines())


def test_lines_appear_when_they_are_complete(tmp_path):
    file = tmp_path / "log"
    file.write_text("one\ntw")
    log = LogFollower(file)
    assert follow(log) == ["one"]
    with file.open("a") as stream:
        stream.write("o\nthree\n")
    assert follow(log) == ["two", "three"] and follow(log) == []


def test_a_rotated_log_is_read_to_its_end_and_then_the_new_file(tmp_path):
    file = tmp_path / "log"
    file.write_text("one\n")
    log = LogFollower(file)
    assert follow(log) == ["one"]
    with file.open("a") as stream:
        stream.write("two\nrest")
    file.rename(tmp_path / "log.1")
    assert follow(log) == ["two"]                        # the server may still write into the old file
    file.write_text("three\n")
    assert follow(log) == ["rest", "three"] and log.restarts == 1


def test_a_truncated_log_is_read_from_its_start(tmp_path):
    file = tmp_path / "log"
    file.write_text("one\ntwo\n")
    log = LogFollower(file)
    assert follow(log) == ["one", "two"]
    file.write_text("new\n")
    assert follow(log) == ["new"] and log.restarts == 1


def test_a_log_that_something_else_replaces_is_awaited(tmp_path):
    file = tmp_path / "log"
    file.write_text("one\n")
    log = LogFollower(file)
    follow(log)
    file.rename(tmp_path / "log.1")
    file.mkdir()
    for _ in range(3):
        assert follow(log) == [] and not log.has_more and log.restarts == 1
    file.rmdir()
    file.write_text("two\n")
    assert follow(log) == ["two"] and log.restarts == 1


def test_a_deleted_log_may_come_back(tmp_path):
    file = tmp_path / "log"
    file.write_text("one\n")
    log = LogFollower(file)
    follow(log)
    file.unlink()
    assert follow(log) == []
    file.write_text("two\n")
    assert follow(log) == ["two"]


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir(), os.mkfifo])
def test_only_a_regular_file_is_followed(tmp_path, make):
    make(tmp_path / "log")
    with pytest.raises(BadInput, match="log: "):
        LogFollower(tmp_path / "log")


@given(st.lists(st.binary(max_size=12), max_size=8))
def test_the_cuts_of_the_pieces_do_not_matter(pieces):
    split, data = LineSplitter(), b"".join(pieces)
    found = [line for piece in pieces for line in split.lines(piece)] + list(split.last())
    whole = data.decode("utf-8-sig", "replace").split("\n")
    assert found == (whole if whole[-1] else whole[:-1])


def test_a_long_line_is_cut_before_it_ends():
    split = LineSplitter(longest=10)
    assert list(split.lines(b"0123456789ab")) == ["0123456789"]
    assert list(split.lines(b"more" * 100)) == []
    assert list(split.lines(b"end\nnext\n")) == ["next"]


def test_standard_input_ends(monkeypatch):
    read, write = os.pipe()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(os.fdopen(read, "rb")))
    log = LogFollower(STDIN)
    os.write(write, b"one\nlast")
    os.close(write)
    assert log.wait_on() == [read] and follow(log) == ["one"] and not log.ended
    assert follow(log) == [] and log.ended and log.wait_on() == [] and list(log.last()) == ["last"]


@pytest.mark.parametrize("stream", [None, io.StringIO("no descriptor")])
def test_a_closed_standard_input_is_refused(stream, monkeypatch):
    monkeypatch.setattr(sys, "stdin", stream)
    with pytest.raises(BadInput, match="standard input is closed"):
        LogFollower(STDIN)


def test_a_file_without_a_size_is_read_once():
    log = LogFollower(Path("/proc/self/status"))
    lines = follow(log)
    assert lines[0].startswith("Name:") and log.has_more
    while log.has_more:
        lines += follow(log)
    assert [follow(log), log.restarts, sum(line.startswith("Name:") for line in lines)] == [[], 0, 1]


def test_a_short_read_is_not_the_end(tmp_path, monkeypatch):
    (tmp_path / "log").write_text("one\ntwo\nthree\n")
    log, read = LogFollower(tmp_path / "log"), os.read
    monkeypatch.setattr(os, "read", lambda file, size: read(file, 4))
    found = []
    for _ in range(4):
        found += [follow(log), log.has_more]
    assert found == [["one"], True, ["two"], True, [], True, ["three"], True] and follow(log) == [] and not log.has_more


def test_a_log_truncated_to_nothing_is_read_from_its_start(tmp_path):
    (tmp_path / "log").write_text("one\ntwo\n")
    log = LogFollower(tmp_path / "log")
    assert follow(log) == ["one", "two"]
    (tmp_path / "log").write_text("")
    assert follow(log) == [] and log.restarts == 1
    (tmp_path / "log").write_text("a\n")
    assert follow(log) == ["a"] and log.restarts == 1


def test_a_failed_read_is_stated_until_one_succeeds(tmp_path, monkeypatch):
    (tmp_path / "log").write_text("one\n")
    log, read = LogFollower(tmp_path / "log"), os.read
    assert log.failure == ""

    def fails(file, size):
        raise OSError(5, "Input/output error") if size > 1 else OSError()

    monkeypatch.setattr(os, "read", fails)
    assert follow(log) == [] and (log.failure, log.has_more) == ("input/output error", False)
    monkeypatch.setattr(log_follower, "PIECE", 1)
    assert follow(log) == [] and log.failure == "cannot be read"
    monkeypatch.undo()
    assert os.read is read and follow(log) == ["one"] and log.failure == ""


def test_standard_input_has_no_failure_and_no_size(monkeypatch):
    end, other = os.pipe()
    with os.fdopen(end) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        log = LogFollower(STDIN)
        assert (log.failure, log.unread, log.wait_on(), log.ended) == ("", 0, [end], False)
        os.write(other, b"one\ntwo")
        assert follow(log) == ["one"] and not log.has_more
        os.close(other)
        assert follow(log) == [] and log.ended and log.wait_on() == [] and follow(log) == []
        assert list(log.last()) == ["two"]
        log.close()
        assert os.fstat(end)                                     # not this command's to close


def test_unread_bytes_are_those_after_the_last_read(tmp_path):
    (tmp_path / "log").write_text("one\ntwo\n")
    log = LogFollower(tmp_path / "log")
    assert (log.unread, log.name, log.wait_on()) == (8, str(tmp_path / "log"), [])
    follow(log)
    assert log.unread == 0
    (tmp_path / "log").write_text("")
    assert log.unread == 0
    open_files = len(os.listdir("/proc/self/fd"))
    log.close()
    log.close()
    assert log.unread == 0 and len(os.listdir("/proc/self/fd")) == open_files - 1


def test_a_line_of_the_greatest_length_is_complete_at_its_end():
    splitter = LineSplitter(longest=5)
    assert list(splitter.lines(b"abcde")) == [] and list(splitter.lines(b"\nabcd")) == ["abcde"]
    assert list(splitter.lines(b"e")) == [] and list(splitter.last()) == ["abcde"]


def test_a_long_line_in_a_single_piece_is_cut_too():
    splitter = LineSplitter(longest=5)
    assert list(splitter.lines(b"abcdefgh\nij\nklmnop\n")) == ["abcde", "ij", "klmno"]


def test_standard_input_is_not_read_after_its_end(tmp_path, monkeypatch):
    file = tmp_path / "log"
    file.write_text("one\n")
    with file.open() as stream, file.open("a") as more:
        monkeypatch.setattr(sys, "stdin", stream)
        log = LogFollower(STDIN)
        assert follow(log) == ["one"] and follow(log) == [] and log.ended
        more.write("two\n")
        more.flush()
        assert follow(log) == []


def test_a_log_that_was_renamed_is_read_on_until_there_is_a_new_one(tmp_path):
    (tmp_path / "log").write_text("one\n")
    log = LogFollower(tmp_path / "log")
    assert follow(log) == ["one"]
    (tmp_path / "log").rename(tmp_path / "log.1")
    assert follow(log) == follow(log) == [] and log.restarts == 0
    with (tmp_path / "log.1").open("a") as stream:
        stream.write("two\n")
    assert follow(log) == ["two"]


def test_a_path_that_no_file_can_have_is_refused():
    with pytest.raises(BadInput) as refused:
        LogFollower(Path("a\0b"))
    assert str(refused.value).endswith("cannot be read")
