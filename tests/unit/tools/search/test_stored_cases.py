"""Tests of stored cases: they run first, and their failures are not shrunk again."""

from __future__ import annotations

import json
import re

import pytest

from cachesim.base import exits
from tests.unit.tools.search.test_fuzz_command import BAD, call

SHORT = (*BAD[:-1], "40")
PLAIN = (*BAD[:-1], "1")


@pytest.fixture
def kept(capsys, tmp_path, request):
    """A folder with the files of an earlier search; a parameter replaces its arguments."""
    call(capsys, *getattr(request, "param", SHORT), "--no-shrink", "--out", tmp_path)
    assert list(tmp_path.glob("fuzz-*.toml"))
    return tmp_path


@pytest.mark.parametrize("kept", [BAD], ids=["few"], indirect=True)
def test_what_they_show_is_not_shrunk_again(capsys, kept):
    code, out, err = call(capsys, *BAD, "--corpus", kept, "--json")
    data = json.loads(out)
    files = sorted(map(str, kept.glob("fuzz-*.toml")))
    assert (code, err, data["corpus"]["files"]) == (exits.BROKEN, "", len(files))
    assert sorted(one["file"] for one in data["corpus"]["failing"]) == files
    assert {one["known"] for one in data["failures"]} <= set(files) and data["failures"]
    assert not any(one["shrunk"] for one in data["failures"])


@pytest.mark.long
def test_any_number_of_processes_says_the_same(capsys, kept):
    argv = (*PLAIN, "--corpus", kept, "--json")
    assert call(capsys, *argv, "-j", "2")[1] == call(capsys, *argv)[1]


@pytest.mark.parametrize("kept", [BAD], ids=["not shrunk"], indirect=True)
def test_one_that_fails_is_enough_to_fail(capsys, kept):
    """The exit code is that of stored cases if drawn conversations do not fail."""
    argv = ("fuzz", "-p", "ik_llama@1889-base", "--property", "survives", "--examples", "1", "--corpus", str(kept))
    code, out, _ = call(capsys, *argv)
    assert code == exits.HOLDS and " run, 0 fail" in out
    code, out, _ = call(capsys, *argv, "--property", "warm-equals-cold", "--json")
    assert (code, json.loads(out)["failures"]) == (exits.BROKEN, [])


@pytest.mark.long
def test_one_that_cannot_be_played_is_named(capsys, kept):
    file = next(kept.glob("fuzz-*.toml"))
    file.write_text(re.sub(r'(?m)^prompt = ".+"$', 'prompt = ""', file.read_text()))
    code, out, _ = call(capsys, *PLAIN, "--corpus", kept)
    assert code != exits.HOLDS and f"notrun:{file}:" in "".join(out.split())


def test_folders_without_cases_for_the_engine_are_refused(capsys, tmp_path):
    assert "the folder contains no scenario for ik_llama" in call(capsys, *PLAIN, "--corpus", tmp_path)[2]
    assert "no such file" in call(capsys, *PLAIN, "--corpus", tmp_path / "none")[2]
    (tmp_path / "x.toml").write_text("spoilt")
    code, out, err = call(capsys, *PLAIN, "--corpus", tmp_path)
    assert (code, out, err.count("\n")) == (exits.BAD_INPUT, "", 1)
