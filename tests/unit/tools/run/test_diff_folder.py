"""``diff FOLDER``: what two rule sets make of many scenarios, in totals and file by file."""

from __future__ import annotations

import json
import shutil

import pytest

from cachesim.base import exits
from cachesim.base.console import as_text
from cachesim.base.pool import CompletedItem, KilledItem
from cachesim.cli.main import main
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load
from cachesim.tools.run import diff_folder
from cachesim.tools.run.diff_folder_report import (
    _style,
    _sums,
    _table_diff_table,
    diff_table,
    file_data,
    totals,
    worst_first,
)
from tests.unit.tools.table_columns import columns

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
    other = next(file for file in files.values() if load(file).engine == "llama_cpp")
    shutil.copy(other, tmp_path)
    return tmp_path


def call(capsys, *argv):
    code = main(["diff", *map(str, argv)])
    got = capsys.readouterr()
    return code, got.out, got.err


@pytest.mark.long
def test_totals_are_those_of_the_files_one_by_one(capsys, folder):
    code, out, _ = call(capsys, folder, "-p", BAD, "-p", GOOD, "--json")
    data = json.loads(out)
    assert (data["schema"], data["a"], data["b"], data["other_engines"], data["failed"]) == (1, BAD, GOOD, 1, 0)
    assert sorted(one["scenario"] for one in data["files"]) == sorted(IK)
    assert data["totals"] == totals(data["files"]) and data["totals"]["files"] == 4
    for one in data["files"]:
        _, alone, _ = call(capsys, one["file"], "-p", BAD, "-p", GOOD, "--json")
        runs = json.loads(alone)
        assert one == {**file_data(one["file"], runs["a"], runs["b"], runs["observed"])}
        assert one["evaluated_a"] == sum(request["prompt_n"] for request in runs["a"]["requests"])
    assert code == (exits.BROKEN if data["totals"]["wrong_a"] or data["totals"]["wrong_b"] else exits.HOLDS)


def test_turned_around_what_was_mended_is_broken(capsys, folder):
    forth, back = (json.loads(call(capsys, folder, "-p", a, "-p", b, "--json", "--provenance")[1])["totals"]
                   for a, b in ((BAD, GOOD), (GOOD, BAD)))  # fmt: skip
    assert forth["mended"] == back["broken"] and forth["broken"] == back["mended"]
    assert (forth["broken"], forth["mended"], forth["files_changed"]) == (1, 1, 3)
    assert (forth["evaluated_a"], forth["wrong_a"]) == (back["evaluated_b"], back["wrong_b"])


def test_one_process_or_two_tell_the_same_within_80_columns(capsys, folder):
    one, two = (call(capsys, folder, "-p", BAD, "-p", GOOD, "--provenance", *more) for more in ((), ("-j", "2")))
    assert one == two
    assert max(map(len, one[1].splitlines())) <= 80
    assert "1 scenario of other engines skipped" in one[1] and "evaluated in all: " in one[1]


def request(i, equal, evaluated):
    return {"i": i, "equal_cold": equal, "prompt_n": evaluated}


def test_the_differences_of_a_scenario_are_those_of_its_requests():
    pairs = [(True, True), (True, False), (True, None), (False, True), (False, False), (False, None), (None, True),
             (None, False), (None, None)]  # fmt: skip
    a = {"scenario": "one", "told": [2], "requests": [request(i, x, 10 + i) for i, (x, _) in enumerate(pairs)]}
    b = {"scenario": "one", "told": [], "requests": [request(i, y, 20 + i) for i, (_, y) in enumerate(pairs)]}
    differ = [{"request": 1, "differs": [{"observable": "answer"}, {"observable": "cache_n"}]}]
    assert file_data("one.toml", a, b, differ) == {
        "file": "one.toml", "scenario": "one", "requests": 9, "changed": 1, "broken": 1, "mended": 1,
        "evaluated_a": 126, "evaluated_b": 216, "wrong_a": 3, "wrong_b": 3,
        "answers": [*({"equal": x, "told": i == 2} for i, (x, _) in enumerate(pairs)),
                    *({"equal": y, "told": False} for _, y in pairs)],
        "observed": [{"request": 1, "observable": "answer"}],
    }  # fmt: skip


@pytest.mark.parametrize(("broken", "mended", "style"), [(1, 0, "bold red"), (1, 1, "bold red"), (0, 1, "green"),
                                                         (0, 0, "")])  # fmt: skip
def test_a_scenario_with_newly_wrong_answers_is_red_and_one_with_fixed_ones_green(broken, mended, style):
    assert _style(row("one", broken=broken, mended=mended)) == style
    sums = totals([row("one", broken=broken, mended=mended)])
    assert _sums(sums).style == ("bold red" if broken else "bold")
    assert ("OK: 0 wrong answers under A" in _sums(sums).plain) == (not broken and not mended)


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
    assert max(map(len, text.splitlines())) <= 80 and "1 scenario not compared" in text and "(+0.00 %)" in text
    assert "first difference of a request: cache_n" in text
    assert "5 of 6 scenarios differ" in text and "3 newly wrong, 1 fixed" in text


def test_a_rule_set_of_another_engine_and_an_empty_folder(capsys, folder, tmp_path):
    code, _, err = call(capsys, folder, "-p", BAD, "-p", "llama_cpp@b10587")
    assert code == exits.BAD_INPUT and "of different engines" in err
    (tmp_path / "none").mkdir()
    code, out, err = call(capsys, tmp_path / "none", "-p", BAD, "-p", GOOD)
    assert (code, out) == (exits.NOTHING, "") and "no scenario of ik_llama found" in err
    assert call(capsys, folder, "-p", BAD)[0] == exits.BAD_INPUT


def test_a_file_that_is_none_and_a_crash_are_told_and_the_others_compared(capsys, folder, monkeypatch):
    (folder / "broken.toml").write_text("id = 3\n")
    code, out, err = call(capsys, folder, "-p", BAD, "-p", GOOD, "--provenance", "--json")
    assert code in (exits.BROKEN, exits.BAD_INPUT) and "broken.toml" in err
    assert (json.loads(out)["failed"], json.loads(out)["totals"]["files"]) == (1, 4)
    (folder / "broken.toml").unlink()
    plain = diff_folder._compared

    def fails(pair):
        if pair.scenario.id == IK[0]:
            raise IndexError("as a test")
        return plain(pair)

    monkeypatch.setattr(diff_folder, "_compared", fails)
    code, out, err = call(capsys, folder, "-p", BAD, "-p", GOOD, "--provenance", "--json")
    assert code == exits.CRASH and "IndexError: as a test (a fault of cachesim)" in err
    assert json.loads(out)["totals"]["files"] == 3


def test_a_killed_worker_is_reported_and_an_interrupt_keeps_the_order(capsys, monkeypatch):
    pairs = [diff_folder.ScenarioPair(load(corpus_files()[name]), BAD, GOOD, "provenance") for name in IK[:3]]

    def results(work, shares, jobs):
        yield CompletedItem(2, shares[2], {"n": 2})
        yield CompletedItem(1, shares[1], KilledItem("killed by SIGKILL"))
        yield CompletedItem(0, shares[0], {"n": 0})
        raise stop

    stop = KeyboardInterrupt()
    monkeypatch.setattr(diff_folder, "finished", results)
    assert diff_folder._compare(pairs, 2) == ([{"n": 0}, {"n": 2}], [exits.CRASH], stop)
    assert capsys.readouterr().err == f"cachesim: {pairs[1].scenario.file}: killed by SIGKILL, twice\n"


def test_an_interrupted_comparison_prints_its_part(capsys, folder, monkeypatch):
    monkeypatch.setattr(diff_folder, "_compare", lambda pairs, jobs: ([row("one")], [], KeyboardInterrupt()))
    code, out, err = call(capsys, folder, "-p", BAD, "-p", GOOD)
    assert code == exits.INTERRUPTED and "interrupted: compared 1 of 4 scenarios" in err and "one" in out


def test_the_exit_code_is_that_of_the_answers(capsys, folder, monkeypatch):
    codes = []
    for answers in ([], [{"equal": None, "told": True}], [{"equal": None, "told": False}],
                    [{"equal": None, "told": False}, {"equal": False, "told": False}]):  # fmt: skip
        found = {**row("one"), "answers": answers}
        monkeypatch.setattr(diff_folder, "_compare", lambda pairs, jobs, found=found: ([found], [], None))
        codes.append(call(capsys, folder, "-p", BAD, "-p", GOOD)[0])
    assert codes == [exits.HOLDS, exits.HOLDS, exits.UNDECIDED, exits.BROKEN]


def test_the_log_is_compared_on_request(capsys, folder, monkeypatch):
    seen = []
    monkeypatch.setattr(diff_folder, "_compare", lambda pairs, jobs: (seen.append(pairs[0].log), ([], [], None))[1])
    for words in ([], ["--log"]):
        call(capsys, folder, "-p", BAD, "-p", GOOD, *words)
    assert seen == [False, True]


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


def test_a_folder_without_a_difference():
    assert report([row("one", changed=0)]) == [
        "f", "  A x@1  B x@2", "  all requests are equal", "  0 of 1 scenario differ, 0 of 2 requests",
        "  evaluated in all: 100 -> 100 tokens (+0.00 %)",
        "  OK: 0 wrong answers under A, 0 under B; 0 newly wrong, 0 fixed"]  # fmt: skip


def test_a_table_of_changed_scenarios_and_the_sums():
    assert report([row("one", broken=1, more=5), row("two", mended=1)], other_engines=2, failed=3) == [
        "f", "  A x@1  B x@2", "scenario requests newly wrong fixed  evaluated",
        "one        1 of 2           1     · 100 -> 105", "two        1 of 2           ·     1 100 -> 100",
        "  2 scenarios of other engines skipped", "  3 scenarios not compared",
        "  first difference of a request: cache_n (2)", "  2 of 2 scenarios differ, 2 of 4 requests",
        "  evaluated in all: 200 -> 205 tokens (+2.50 %)",
        "  WRONG OUTPUT: 1 wrong answer under A, 1 under B; 1 newly wrong, 1 fixed"]  # fmt: skip


def test_numbers_are_aligned_and_ids_wrap_anywhere():
    file = {"scenario": "s", "changed": 2, "requests": 5, "broken": 0, "mended": 3, "evaluated_a": 9, "evaluated_b": 7}
    table = _table_diff_table([file], 80)
    assert columns(table) == [("scenario", "folded"), ("requests", "number"), ("newly wrong", "number"),
                              ("fixed", "number"), ("evaluated", "number")]  # fmt: skip
    assert [str(*column.cells) for column in table.columns] == ["s", "2 of 5", "·", "3", "9 -> 7"]
    assert [row.style for row in table.rows] == ["green"] and table.padding == (0, 1, 0, 0)
