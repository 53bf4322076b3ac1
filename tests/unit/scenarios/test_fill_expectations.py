"""Tests of added expectations: missing keys are added, existing text is kept."""

from __future__ import annotations

import os
import tomllib

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.load import load
from cachesim.scenarios.toml_writer import complete
from tests.unit.scenarios.samples import GOOD

HEAD, OTHER = "llama_cpp@b10587", "llama_cpp@other"
FOUND = {"cache_n": [0, 40], "prompt_n": [100, 5], "broken": [], "checkpoints": [[], [40]]}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "good.toml"
    path.write_text(GOOD)
    return path


def test_a_new_table(file):
    before = load(file).expect[HEAD]
    assert complete(file, OTHER, FOUND)
    text = file.read_text()
    assert text.startswith(GOOD)
    expect = load(file).expect[OTHER]
    assert (expect.cache_n, expect.prompt_n, expect.broken) == (((0,), (40,)), ((100,), (5,)), ())
    assert expect.checkpoints == ((), (40,)) and expect.completed
    assert load(file).expect[HEAD] == before


def test_missing_keys_of_a_table(file):
    before = load(file).expect[HEAD]
    assert complete(file, HEAD, FOUND)
    after = load(file).expect[HEAD]
    assert (after.cache_n, after.checkpoints) == (before.cache_n, before.checkpoints)
    assert after.prompt_n == ((100,), (5,)) and after.completed
    added = [line for line in file.read_text().splitlines() if line not in GOOD.splitlines()]
    assert added == ["prompt_n = [100, 5]", "completed = true"]
    assert [line for line in file.read_text().splitlines() if line not in added] == GOOD.splitlines()


def test_what_is_broken_is_written_only_where_there_is_some(file):
    complete(file, OTHER, {**FOUND, "broken": [0]})
    assert load(file).expect[OTHER].broken == (0,)


@pytest.mark.parametrize(("status", "written"), [([200, 400], True), ([500, 500], True), ([200, 200], False)])
def test_a_status_is_written_only_where_there_is_an_error(file, status, written):
    complete(file, OTHER, {**FOUND, "status": status})
    assert ("status" in file.read_text()) is written
    assert load(file).expect[OTHER].status == (tuple((one,) for one in status) if written else None)


def test_a_second_time_nothing_is_written(file):
    complete(file, HEAD, FOUND)
    text, stat = file.read_text(), os.stat(file)
    assert not complete(file, HEAD, FOUND)
    assert (file.read_text(), os.stat(file).st_mtime_ns) == (text, stat.st_mtime_ns)


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\n\n# the end", "\n[expect.'llama_cpp@last']"])
def test_line_ends_and_comments_stay(file, ending):
    text = GOOD.rstrip("\n").replace("\n", "\r\n" if ending == "\r\n" else "\n") + ending
    for profile in (HEAD, OTHER, "llama_cpp@last"):
        file.write_bytes(text.encode())
        assert complete(file, profile, FOUND)
        new = file.read_bytes().decode()
        assert tomllib.loads(new)["expect"][profile]["prompt_n"] == [100, 5]
        kept = iter(new.splitlines())
        assert all(line in kept for line in text.splitlines())        # in order
        if ending == "\r\n":
            assert new.count("\n") == new.count("\r\n")


def test_a_form_that_cannot_be_added_to_is_left_alone(file):
    text = GOOD.partition("[expect")[0]
    text = text.replace("[server]", f'expect = {{ "{HEAD}" = {{ cache_n = [0, 0] }} }}\n[server]')
    file.write_text(text)
    for profile in (HEAD, OTHER):
        with pytest.raises(BadInput, match="cannot add expectations"):
            complete(file, profile, FOUND)
    assert file.read_text() == text
    assert os.listdir(file.parent) == ["good.toml"]


def test_a_failed_write_leaves_the_old_file(file, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(BadInput, match="disk full"):
        complete(file, OTHER, FOUND)
    assert file.read_text() == GOOD
    assert os.listdir(file.parent) == ["good.toml"]


def test_mode_and_link_are_kept(file):
    file.chmod(0o640)
    link = file.parent / "link.toml"
    link.symlink_to(file.name)
    assert complete(link, OTHER, FOUND)
    assert link.is_symlink() and os.stat(file).st_mode & 0o777 == 0o640
    assert "prompt_n" in file.read_text()


def test_whether_the_file_was_changed_is_returned(file):
    assert complete(file, OTHER, FOUND) is True
    assert complete(file, OTHER, FOUND) is False
    assert complete(file, "llama_cpp@third", {"broken": [], "status": [200, 200]}) is False
