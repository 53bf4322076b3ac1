"""Tests of damaged state files: ``fuzz --resume``, ``workload --resume`` and ``merge`` refuse each in a line.

Without a bounded reader a link to /dev/zero takes all memory. The limit of the address space ends such a test early.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from tests.unit.tools.search.test_fuzz_command import call

FUZZ = ("fuzz", "-p", "ik_llama@1889-base", "--property", "survives", "--model", "GA", "--examples", "1")
WORKLOAD = ("workload", "tests/workloads/data", "--scale", "16", "--detail", "counts", "--sessions", "2")
MADE = {"campaign": FUZZ, "workload": WORKLOAD}
ROOM = 1 << 30              # address space for a test [bytes]
TOO_LARGE = (1 << 26) + 1   # bytes


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return by kind a folder with a valid state file, and its name."""
    found = {}
    for kind, argv in MADE.items():
        folder = tmp_path_factory.mktemp(kind)
        assert main([*argv, "--out", str(folder), "-q"]) == exits.HOLDS
        [file] = folder.iterdir()
        found[kind] = folder, file.name
    return found


@contextmanager
def bounded_memory():
    """Limit the address space to what the process has, and ``ROOM`` more."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


DAMAGES = {
    "a link to a device": (lambda file: file.symlink_to("/dev/zero"), "not a regular file"),
    "a FIFO": (os.mkfifo, "not a regular file"),
    "a link to a FIFO": (lambda file: (os.mkfifo(file.parent / "fifo"), file.symlink_to("fifo")), "not a regular file"),
    "a link to itself": (lambda file: file.symlink_to(file.name), "too many levels of symbolic links"),
    "a link to nothing": (lambda file: file.symlink_to("nothing"), "no such file or directory"),
    "a folder": (Path.mkdir, "found a folder"),
    "deep": (lambda file: file.write_text('{"cachesim": ' + "[" * 100_000 + "\n"), "nested deeper than 32 levels"),
    "empty": (Path.touch, ""),
    "not UTF-8": (lambda file: file.write_bytes(b'{"cachesim": "\xff"}\n'), "not UTF-8 text"),
    "a number": (lambda file: file.write_text("5\n"), ""),
    "null": (lambda file: file.write_text("null\n"), ""),
    "a list": (lambda file: file.write_text("[[1]]\n"), ""),
    "another object": (lambda file: file.write_text('{"cachesim": {}, "form": [], "jobs": 1, "plan": 2}\n'), ""),
    "many digits": (lambda file: file.write_text('{"cachesim": ' + "9" * 5000 + "}\n"), "too many digits"),
    "not a number": (lambda file: file.write_text('{"cachesim": NaN}\n'), "NaN is not a JSON number"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", MADE)
def test_a_damaged_state_file_is_refused_in_a_line(capsys, folders, tmp_path, kind, damage):
    folder, name = folders[kind]
    file = tmp_path / name
    write, told = DAMAGES[damage]
    write(file)
    for argv in (("merge", tmp_path), ("merge", folder, tmp_path), ("merge", folder, "--out", tmp_path),
                 (*MADE[kind], "--resume", "--out", tmp_path)):  # fmt: skip
        with bounded_memory():
            code, out, err = call(capsys, *argv)
        assert (code, out, err.count("\n")) == (exits.BAD_INPUT, "", 1), argv
        assert err.startswith(f"cachesim: {file}:") and f"not a {kind}: " in err and told in err
        assert "--limit" not in err


@pytest.mark.parametrize("kind", MADE)
def test_a_state_file_that_is_too_large_is_refused_in_a_line(capsys, folders, tmp_path, kind):
    with (tmp_path / folders[kind][1]).open("wb") as stream:
        stream.truncate(TOO_LARGE)
    with bounded_memory():
        code, out, err = call(capsys, "merge", tmp_path)
    assert (code, out, err.count("\n")) == (exits.BAD_INPUT, "", 1)
    assert "67,108,864 bytes" in err and "--limit" not in err


@pytest.mark.parametrize("kind", MADE)
def test_a_state_file_under_two_names_counts_once(capsys, folders, tmp_path, kind):
    folder, name = folders[kind]
    shutil.copy(folder / name, tmp_path / name)
    (tmp_path / name.replace(".json", "-again.json")).symlink_to(name)
    once, twice = (call(capsys, "merge", place) for place in (folder, tmp_path))
    assert once == twice and once[0] == exits.HOLDS and "1 file, " in once[1]


@pytest.mark.parametrize("kind", MADE)
def test_a_folder_that_is_not_a_folder_is_refused_in_a_line(capsys, folders, tmp_path, kind):
    folder, _ = folders[kind]
    (tmp_path / "itself").symlink_to("itself")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").touch()
    for name in ("itself", "fifo", "file", "missing", "x" * 300, "file/below", "a\0b", "/dev/zero"):
        path = tmp_path / name
        for argv in (("merge", path), ("merge", path, "--out", folder), ("merge", folder, "--out", path),
                     (*MADE[kind], "--resume", "--out", path)):  # fmt: skip
            code, _, err = call(capsys, *argv)
            if name == "missing" and argv[1] != path:
                shutil.rmtree(path)                  # created: it is where the result belongs
                assert code == exits.HOLDS
                continue
            assert (code, err.count("\n")) == (exits.BAD_INPUT, 1) and err.startswith("cachesim: "), (argv, err)


@pytest.mark.parametrize("scaled", [{"n": [1]}, {"n": [1, 2, 3]}, {"n": []}, {"n": 1}, {"n": [1, "2"]}])
def test_a_scaled_option_has_two_numbers(capsys, folders, tmp_path, scaled):
    folder, name = folders["workload"]
    head, line = (folder / name).read_text().splitlines()
    stored = json.loads(line)
    stored["line"]["scaled"] = scaled
    (tmp_path / name).write_text(f"{head}\n{json.dumps(stored)}\n")
    code, _, err = call(capsys, "merge", tmp_path)
    assert (code, err.count("\n")) == (exits.BAD_INPUT, 1) and f"{name}:2: not a workload: line.scaled.n" in err
