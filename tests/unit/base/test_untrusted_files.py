"""Tests of readers for untrusted files: bytes or a single-line BadInput, without blocking."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from cachesim.base import limits
from cachesim.base.errors import BadInput
from cachesim.base.limits import Limit
from cachesim.base.untrusted_files import (
    FILE,
    FOLDER,
    OTHER,
    STDIN,
    argument_path,
    file_size,
    file_stamp,
    files_in,
    kind,
    open_lines,
    parse_json,
    path_of,
    read_bytes,
    read_json,
    read_start,
    read_text,
    real_path,
    too_deep,
)
from tests.shared import ROOT

TEN = Limit("ten", 10, "bytes", "a test", limits.MACHINE)


def refusal(path, limit=TEN):
    with pytest.raises(BadInput) as caught:
        read_bytes(path, limit, "test file")
    line = str(caught.value)
    assert "\n" not in line and len(line) < 500
    return line


def test_up_to_the_bound_and_no_further(tmp_path):
    (tmp_path / "a").write_bytes(b"0123456789")
    (tmp_path / "b").write_bytes(b"0123456789+")
    assert read_bytes(tmp_path / "a", TEN) == b"0123456789"
    told = "test file is larger than allowed, at most 10 bytes are allowed"
    assert refusal(tmp_path / "b") == f"{tmp_path / 'b'}: {told}"


def test_a_file_larger_than_a_chunk_is_whole(tmp_path):
    data = bytes(range(256)) * (1 << 13)
    (tmp_path / "a").write_bytes(data)
    assert read_bytes(tmp_path / "a", limits.TRACE_BYTES) == data


def test_paths_that_are_not_regular_files(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "socket"))
    (tmp_path / "link").symlink_to(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path / "socket", tmp_path / "link", "/dev/zero", "/dev/null"):
        assert refusal(path) == f"{path}: not a regular file"
        assert kind(path) == OTHER
    server.close()
    assert refusal(tmp_path) == f"{tmp_path}: expected a test file, found a folder"


def test_what_cannot_be_found(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("x")
    assert "no such file" in refusal(tmp_path / "nowhere")
    assert "not a directory" in refusal(tmp_path / "file" / "below")
    assert "symbolic links" in refusal(tmp_path / "loop")
    assert "file name too long" in refusal(tmp_path / ("x" * 300))
    assert "file name too long" in refusal(tmp_path / ("x/" * 5000))
    assert "contains a NUL" in refusal(tmp_path / "a\0b")


@pytest.mark.parametrize(("name", "what"), [("", FOLDER), ("file", FILE), ("nowhere", ""), ("x" * 300, ""),
                                            ("a\0b", ""), ("file/below", ""), ("\udc80", "")], ids=ascii)  # fmt: skip
def test_the_kind_of_a_path_never_raises(tmp_path, name, what):
    (tmp_path / "file").write_text("x")
    assert kind(tmp_path / name) == what
    assert kind(f"{tmp_path}/{name}") == what


def test_an_endless_stream_that_calls_itself_a_file_is_cut_off(monkeypatch):
    monkeypatch.setattr("cachesim.base.untrusted_files.stat.S_ISREG", lambda mode: True)
    assert "at most 10 bytes" in refusal("/dev/zero")


@pytest.mark.parametrize(("data", "told"), [
    (b"", ": the file is empty"), (b" \n ", ": the file is empty"), (b"a\n\xff", ":2: not UTF-8 text"),
])  # fmt: skip
def test_text(tmp_path, data, told):
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(BadInput, match=told):
        read_text(tmp_path / "a", TEN, "scenario file")


def json_refusal(data):
    with pytest.raises(BadInput) as caught:
        parse_json(data, "f", "recording")
    return str(caught.value)


JSON = {
    "4301 digits": (b"9" * 4301, "f: broken JSON: a number has too many digits"),
    "4301 digits inside": (b'{"a":[' + b"9" * 4301 + b"]}", "too many digits"),
    "Infinity": (b'{"a":Infinity}', "f: broken JSON: Infinity is not a JSON number"),
    "-Infinity": (b"[-Infinity]", "-Infinity is not a JSON number"),
    "NaN": (b"[NaN]", "NaN is not a JSON number"),
    "1e999": (b"[1e999]", "f: broken JSON: a number is too large"),
    "-1E+0999": (b"[-1E+0999]", "a number is too large"),
    "digits and an exponent": (b"[" + b"9" * 250 + b"e99]", "a number is too large"),
    "400 digits": (b"[" + b"9" * 400 + b".0]", "a number is too large"),
    "33 levels": (b"[" * 33 + b"]" * 33, "f: nested deeper than 32 levels"),
    "33 levels never closed": (b"[" * 33, "nested deeper than 32"),
    "33 levels of objects": (b'{"a":' * 33 + b"1" + b"}" * 33, "nested deeper than 32"),
    "33 levels behind others": (b"[" + b"[]," * 50 + b"[" * 32 + b"]" * 33, "nested deeper than 32"),
    "32 levels never closed": (b"[" * 32, "f:1: broken or truncated JSON"),
    "32 levels never closed behind others": (b"[[]," * 32, "f:1: broken or truncated JSON"),
    "closed only": (b"]" * 1000, "f:1: broken or truncated JSON"),
    "a text never closed": (b'{"a":"\\"', "f:1: broken or truncated JSON: Unterminated string"),
    "the line": (b'{"a":\n"b":}', "f:2: broken"),
    "a BOM": ("\ufeff{}".encode(), "broken or truncated JSON"),
}


@pytest.mark.parametrize(("data", "told"), JSON.values(), ids=list(JSON))
def test_broken_json(data, told):
    assert told in json_refusal(data)


@pytest.mark.parametrize(("data", "value"), [
    (b"[" * 32 + b"]" * 32, None), (b'["[{[{", "\\"[[", "\\\\"]', ["[{[{", '"[[', "\\"]),
    (b'{"a": 1e100, "a": 1.5e308}', {"a": 1.5e308}), (b"[" + b"9" * 4300 + b"]", [int("9" * 4300)]),
    (b"[1e-999]", [0.0]),
], ids=["32 levels", "brackets in texts", "twice", "4300 digits", "small"])  # fmt: skip
def test_json(data, value):
    assert value is None or parse_json(data) == value


def test_an_error_of_too_deep_nesting_has_its_place():
    assert str(too_deep("f", 3)) == "f:3: nested deeper than 32 levels"
    assert str(too_deep("f")) == "f: nested deeper than 32 levels"


def test_too_many_values_are_refused_before_they_are_made():
    told = json_refusal(b"[" + b"[]," * 2_000_000 + b"1]")
    assert told == "f: recording: 4,000,001 values, at most 4,000,000 values are allowed (--limit values=N allows more)"


@pytest.mark.parametrize("data", [b'"' + b'\\"' * 200_000, b"[" * 1_000_000, b"]" * 1_000_000, b'"",' * 260_000],
                         ids=["quotes", "opening", "closing", "texts"])  # fmt: skip
def test_the_work_is_in_proportion_to_the_text(data):
    """Check linear time: quadratic work would take minutes."""
    assert json_refusal(data)


@pytest.mark.parametrize("data", [b"[" + b'"\\""\\' * 100_000, "[\U0001f600".encode() + b'""' * 250_000],
                         ids=["narrow", "wide"])  # fmt: skip
def test_many_short_texts_take_less_memory_than_ten_times_their_size(data):
    tracemalloc.start()
    try:
        assert json_refusal(data).startswith("f:1: broken or truncated JSON")
        assert tracemalloc.get_traced_memory()[1] < 10 * len(data)
    finally:
        tracemalloc.stop()


def test_a_file_of_json(tmp_path):
    (tmp_path / "a").write_text("[1]")
    assert read_json(tmp_path / "a") == [1]
    (tmp_path / "a").write_bytes(b"\xff")
    with pytest.raises(BadInput, match="a:1: not UTF-8"):
        read_json(tmp_path / "a")


def test_files_of_a_folder_that_is_removed_meanwhile(tmp_path, monkeypatch):
    for name in ("b.json", "a.json", "a.toml", "in/c.json", "gone/d.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "in" / "round").symlink_to(tmp_path)
    assert files_in(tmp_path, ".json") == [tmp_path / name for name in ("a.json", "b.json", "gone/d.json", "in/c.json")]
    look = os.scandir

    def scandir(path):
        if str(path).endswith("gone"):
            raise FileNotFoundError(path)
        return look(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert files_in(tmp_path, ".json") == [tmp_path / name for name in ("a.json", "b.json", "in/c.json")]


def test_size_and_stamp_of_what_is_no_readable_file(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"0123")
    os.utime(file, ns=(5, 7))
    assert (file_size(file), file_stamp(file)) == (4, (7, 4))
    assert file_size(tmp_path) is None                       # a folder
    for name in (tmp_path / "none", "a\0b"):
        assert (file_size(name), file_stamp(name)) == (None, (0, 0))


def test_names_of_files(tmp_path):
    (tmp_path / "a").touch()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert real_path(tmp_path / "link") == real_path(tmp_path / "a")
    assert real_path(tmp_path / "loop") == str(tmp_path / "loop") and real_path(Path("a\0b")) == "a\0b"
    assert argument_path("-") is STDIN and argument_path("a") == path_of("a") == Path("a")
    with pytest.raises(BadInput, match="empty file name"):
        path_of("")


@pytest.mark.parametrize("data, lines", [
    (b"one\ntwo", ["one", "two"]), (b"\xef\xbb\xbfone\n\n", ["one", ""]), (b"", []),
    ("one\ntwo\n".encode("utf-16"), ["one", "two"]), (b"a\xffb\n", ["a\ufffdb"]),
    (b"0123456789\n0123\n", ["0123456", "0123"]), (b"0123456\n89", ["0123456", "89"]),
])  # fmt: skip
def test_lines_are_decoded_and_cut(tmp_path, data, lines):
    (tmp_path / "a").write_bytes(data)
    assert [*open_lines(tmp_path / "a", longest=7)] == lines


def test_a_line_is_cut_at_65536_characters(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 65536 + b"\n" + b"x" * 65537 + b"\ny\n")
    assert [len(line) for line in open_lines(tmp_path / "a")] == [65536, 65536, 1]


def test_the_start_of_a_file_has_no_bound(tmp_path):
    (tmp_path / "a").write_bytes(b"0123456789+")
    assert read_start(tmp_path / "a", 4) == b"0123"


@pytest.mark.parametrize(("data", "exit_code"), [(b"[" + b" " * 98 + b"]", 0), (b"[" + b" " * 99 + b"]", 2)])
def test_standard_input_is_read_up_to_its_bound(data, exit_code):
    """Standard input is read once in a process."""
    program = ("import sys\nfrom cachesim.base import limits\nlimits.lift({'bytes': 100})\n"
               "from cachesim.base.untrusted_files import STDIN, open_lines, read_bytes\n"
               "from cachesim.base.errors import BadInput\n"
               "try:\n    first = read_bytes(STDIN, limits.TRACE_BYTES)\nexcept BadInput:\n    sys.exit(2)\n"
               "sys.exit(not [line.encode() for line in open_lines(STDIN)] == [first])")  # fmt: skip
    assert subprocess.run([sys.executable, "-c", program], input=data, cwd=ROOT).returncode == exit_code
