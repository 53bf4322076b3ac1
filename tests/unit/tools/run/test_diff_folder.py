"""``diff FOLDER``: what two rule sets make of many scenarios, in totals and file by file."""

from __future__ import annotations

import json
import shutil

import pytest

from cachesim.base import exits
from cachesim.base.console import as_text
from cachesim.cli.main import main
from cachesim.scenarios.corpus import corpus_files
from cachesim.tools.run.diff_folder_report import (
    diff_table,
    file_data,
    totals,
    worst_first,
)

BAD, GOOD = "ik_llama@1889-base", "ik_llama@main"
IK = ("ik-2105-blank-skipped-in-comparison", "ik-2105-last-token-evaluated-twice-hybrid", "ik-context-shift",
    "ik-1889-compacted-window-deepseek4")
"""One that broke, one that was mended, one that is the same, one that evaluates more."""


@pytest.fixture
def folder(tmp_path):
    """Create four scenarios of ik_llama.cpp, in two folders, and a scenario of llama.cpp."""
    files = corpus_files()
    (tmp_path / "below").mkdir()
    for i, name in enumerate(IK):
        shutil.copy(files[name], tmp_path / "below" if i % 2 else tmp_path)
    shutil.copy(files["llama-lesson-hybrid"], tmp_path)
    return tmp_path


def call(capsys, *argv):
    code = main(["diff", *map(str, argv)])
    got = capsys.readouterr()
    return code, got.out, got.err


@pytest.mark.long
def test_totals_are_those_of_the_files_one_by_one(capsys, folder):
    code, out, _ = call(capsys, folder, "-p", BAD, "-p", GOOD, "--json", "--provenance")
    data = json.loads(out)
    assert (data["schema"], data["a"], data["b"], data["other_engines"], data["failed"]) == (1, BAD, GOOD, 1, 0)
    assert sorted(one["scenario"] for one in data["files"]) == sorted(IK)
    assert data["totals"] == totals(data["files"]) and data["totals"]["files"] == 4
    for one in data["files"]:
        _, alone, _ = call(capsys, one["file"], "-p", BAD, "-p", GOOD, "--json", "--provenance")
        runs = json.loads(alone)
        assert one == {**file_data(one["file"], runs["a"], runs["b"], runs["observed"])}
        assert one["evaluated_a"] == sum(request["prompt_n"] for request in runs["a"]["requests"])
    assert code == (exits.BROKEN if data["totals"]["wrong_a"] or data["totals"]["wrong_b"] else exits.HOLDS)


def test_turned_around_what_was_mended_is_broken_and_two_processes_tell_the_same(capsys, folder):
    command = folder, "--json", "--provenance"
    one, two = (call(capsys, *command, "-p", BAD, "-p", GOOD, *more) for more in ((), ("-j", "2")))
    assert one == two
    forth = json.loads(one[1])["totals"]
    back = json.loads(call(capsys, *command, "-p", GOOD, "-p", BAD)[1])["totals"]
    assert forth["mended"] == back["broken"] and forth["broken"] == back["mended"]
    assert (forth["broken"], forth["mended"], forth["files_changed"]) == (1, 1, 3)
    assert (forth["evaluated_a"], forth["wrong_a"]) == (back["evaluated_b"], back["wrong_b"])
    assert (forth["evaluated_a"], forth["evaluated_b"]) == (1207, 1912)


def row(name, changed=1, broken=0, mended=0, more=0):
    return {"scenario": name, "file": name, "requests": 2, "changed": changed, "broken": broken, "mended": mended,
            "evaluated_a": 100, "evaluated_b": 100 + more, "wrong_a": mended, "wrong_b": broken,
            "answers": [], "observed": [{"request": 0, "observable": "cache_n"}] * changed}  # fmt: skip


def test_the_worst_come_first_and_what_is_equal_is_left_out():
    rows = [row("mended", mended=1), row("less", more=-9), row("equal", changed=0), row("broken", broken=1),
            row("more", more=9), row("worse", broken=2)]  # fmt: skip
    assert [one["scenario"] for one in worst_first(rows)] == ["worse", "broken", "more", "less", "mended"]
    sums = totals(rows)
    assert (sums["files_changed"], sums["broken"], sums["mended"], sums["evaluated_b"]) == (5, 3, 1, 600)
    data = {"a": "a" * 30, "b": "b", "folder": "f", "other_engines": 0, "failed": 1, "totals": sums,
            "files": [{**one, "scenario": one["scenario"] * 20} for one in rows]}  # fmt: skip
    text = as_text(diff_table(data))
    assert max(map(len, text.splitlines())) <= 80 and "(+0.00 %)" in text
    assert "cache_n" in text and "5 of 6" in text and "600 -> 600" in text


def test_a_rule_set_of_another_engine_and_an_empty_folder(capsys, folder, tmp_path):
    code, _, err = call(capsys, folder, "-p", BAD, "-p", "llama_cpp@b10587")
    assert code == exits.BAD_INPUT and BAD in err and "llama_cpp@b10587" in err
    (tmp_path / "none").mkdir()
    code, out, err = call(capsys, tmp_path / "none", "-p", BAD, "-p", GOOD)
    assert (code, out) == (exits.NOTHING, "") and "ik_llama" in err
    assert call(capsys, folder, "-p", BAD)[0] == exits.BAD_INPUT


def test_a_file_that_is_none_is_told_and_the_others_compared(capsys, folder):
    (folder / "below" / "broken.toml").write_text("id = 3\n")
    code, out, err = call(capsys, folder / "below", "-p", BAD, "-p", GOOD, "--provenance", "--json")
    assert code in (exits.BROKEN, exits.BAD_INPUT) and "broken.toml" in err
    assert (json.loads(out)["failed"], json.loads(out)["totals"]["files"]) == (1, 2)


def test_an_invalid_file_decides_the_exit_code_if_all_answers_are_correct(capsys, tmp_path):
    right = corpus_files()["ik-no-checkpoint-of-image-alone-hybrid"]
    shutil.copy(right, tmp_path)
    command = (tmp_path, "-p", GOOD, "-p", BAD, "--provenance", "-q")
    assert call(capsys, *command)[0] == exits.HOLDS
    (tmp_path / "broken.toml").write_text("id = 3\n")
    assert call(capsys, *command)[0] == exits.BAD_INPUT


def answered(i, equal, prompt_n):
    return {"i": i, "equal_cold": equal, "prompt_n": prompt_n}


def test_the_differences_of_a_file_are_counted():
    a = {"scenario": "s", "told": [2], "requests": [
        answered(0, True, 5), answered(1, False, 6), answered(2, None, 7), answered(3, False, 1)]}  # fmt: skip
    b = {"scenario": "s", "told": [], "requests": [
        answered(0, False, 4), answered(1, True, 3), answered(2, False, 2), answered(3, False, 1)]}  # fmt: skip
    seen = [{"request": 1, "differs": [{"observable": "cache_n"}, {"observable": "text"}]}]
    data = file_data("f", a, b, seen)
    assert data.pop("answers") == [
        {"equal": True, "told": False}, {"equal": False, "told": False}, {"equal": None, "told": True},
        {"equal": False, "told": False}, {"equal": False, "told": False}, {"equal": True, "told": False},
        {"equal": False, "told": False}, {"equal": False, "told": False}]  # fmt: skip
    assert data == {"file": "f", "scenario": "s", "requests": 4, "changed": 1, "broken": 1, "mended": 1,
                    "evaluated_a": 19, "evaluated_b": 10, "wrong_a": 2, "wrong_b": 3,
                    "observed": [{"request": 1, "observable": "cache_n"}]}  # fmt: skip


def report(files, **more):
    return as_text(diff_table({"a": "x@1", "b": "x@2", "folder": "f", "other_engines": 0, "failed": 0,
                               "totals": totals(files), "files": files, **more})).splitlines()  # fmt: skip


def test_a_table_has_the_changed_scenarios_and_the_sums_come_last():
    lines = report([row("one", broken=1, more=5), row("two", mended=1)], other_engines=2, failed=3)
    rows = {line.split()[0]: line.split()[4:] for line in lines if line.startswith(("one", "two"))}
    assert rows == {"one": ["1", "·", "100", "->", "105"], "two": ["·", "1", "100", "->", "100"]}
    assert "WRONG" in lines[-1] and "200 -> 205" in lines[-4]
    assert [line.split()[:2] for line in lines[-3:-1]] == [["A", "200"], ["B", "205"]]
    assert "OK" in report([row("one", changed=0)])[-1]
