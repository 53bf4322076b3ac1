"""Reports on real servers: each cell and each sentence as it is printed."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, Group
from rich.table import Table

from cachesim.tools.live.llama_server.images import draw_png, tokenize
from cachesim.tools.live.real_report import (
    LEGEND,
    between_builds,
    change_sentence,
    changed_requests,
    comparisons_report,
    history_report,
    list_report,
    real_report,
    search_report,
    verdict,
)
from cachesim.tools.run.real_option import ShownRun
from tests.unit.tools.table_columns import FOLDED, NUMBER, TEXT, columns


def side(status=200, cache_n=3, prompt_n=2, equal=True):
    return {"status": status, "cache_n": cache_n, "prompt_n": prompt_n, "equal": equal}


def row(number=0, same=True, first="", why="", ours=None, theirs=None):
    return {"number": number, "text": f"A{number + 1}", "ours": ours or side(), "theirs": theirs or side(),
            "same": same, "first": first, "why": why}  # fmt: skip


def compared(*rows, same=True, **more):
    return {"scenario": "case", "model": "A", "profile": "e@1", "build": "b9", "log_read": True, "same": same,
            "requests": list(rows), "notes": [], "left_out": "", **more}  # fmt: skip


def printed(report):
    out = io.StringIO()
    Console(file=out, width=120).print(report)
    return [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]


@pytest.mark.parametrize(("data", "sentence"), [
    (compared(), "answers and decisions are equal on the real b9"),
    (compared(log_read=False), "answers are equal on the real b9"),
    (compared(row(0), row(1, False), row(2, False), same=False), "DIFFERS on the real b9, first in request 1"),
    (compared(row(0, None), same=None), "undecided on the real b9"),
])  # fmt: skip
def test_the_result_of_a_comparison(data, sentence):
    assert verdict(data) == sentence


@pytest.mark.parametrize(("values", "cell"), [
    ({}, "3 + 2, correct"), ({"equal": False}, "3 + 2, WRONG"), ({"equal": None}, "3 + 2, ?"),
    ({"status": 0}, "process ended"), ({"status": -1}, "never answered"), ({"status": 400}, "HTTP 400"),
    ({"prompt_n": None}, "-"), ({"status": None, "prompt_n": None}, "-"), ({"prompt_n": 0}, "3 + 0, correct"),
])  # fmt: skip
def test_a_side_of_a_request(values, cell):
    lines = printed(real_report(compared(row(ours=side(**values), theirs=side(9, 9, 9)))))
    assert lines[0] == "case  A  e@1 | real b9" and lines[1].split() == ["#", "request", "simulated", "real"]
    assert " ".join(lines[2].split()) == f"0 A1 {cell} HTTP 9 equal" and lines[3:] == [
        "  => answers and decisions are equal on the real b9"]  # fmt: skip


def test_differences_notes_and_gaps_stand_below():
    data = compared(row(0, False, "cache_n"), row(1, None, why="no log"), same=False, notes=["n"], left_out="no flag")
    assert printed(real_report(data))[-5:] == [
        "  request 0: first difference: cache_n", "  request 1: undecided: no log", "  note: n",
        "  not run on b9: no flag", "  => DIFFERS on the real b9, first in request 0"]  # fmt: skip
    assert printed(real_report(compared(same=None))) == ["case  A  e@1 | real b9", "  => undecided on the real b9"]


def styles(report):
    """Return the lines of a report outside its tables, each with the style of its beginning."""
    lines = [line for line in report.renderables if not isinstance(line, Table)]
    return [(line.plain, str(line.style or (line.spans and line.spans[0].style) or "")) for line in lines]


def test_columns_fit_their_contents():
    [_, table, _] = real_report(compared(row())).renderables
    assert columns(table) == [
        ("#", NUMBER), ("request", FOLDED), ("simulated", TEXT), ("real", TEXT), ("", TEXT)]  # fmt: skip


def test_lines_are_coloured_by_what_they_report():
    rows = row(0, False, "cache_n"), row(1, None, why="late")
    more = {"notes": ["n"], "left_out": "no flag", "same": False}
    head, *below = styles(real_report(compared(*rows, **more)))
    assert head == ("case  A  e@1 | real b9", "bold") and [style for _, style in below] == [
        "red", "yellow", "dim", "yellow", ""]  # fmt: skip
    data = {"runs": [compared(*rows, **more)], "not_run": [{"build": "b7", "left_out": "no flag"}], "first_new": ""}
    assert [style for _, style in styles(history_report(data))] == ["bold", "yellow", "red", "yellow", "dim", "dim"]
    here = {"build": "b9", "package": "p", "installed": False, "log_read": True, "folder": "/f"}
    assert styles(list_report([here])) == [("  /f", "dim")] and styles(list_report([{**here, "folder": ""}])) == []


def test_without_runs_a_history_has_no_table():
    report = history_report({"runs": [], "not_run": [], "first_new": ""})
    assert [str(line) for line in report.renderables] == [
        "real builds: fewer than two could be compared", f"  {LEGEND}"]  # fmt: skip


def test_two_requests_change_and_one_changes():
    for changed, sentence in (((), "no request changes between b9 and b10"), ((0,), "request 0 changes"),
                              ((0, 1), "requests 0, 1 change")):  # fmt: skip
        newer = [row(n, theirs=side(cache_n=4 if n in changed else 3)) for n in range(2)]
        runs = [compared(row(0), row(1)), compared(*newer, build="b10")]
        said = change_sentence({"runs": runs, "first_new": "b10" if changed else ""})
        assert said == f"real builds: {sentence}" + " between b9 and b10" * bool(changed)


def test_builds_are_listed_with_their_size():
    built = {"build": "b9", "package": "p", "installed": True, "log_read": True, "bytes": 3 << 20, "folder": "/f"}
    lines = printed(list_report([built, {**built, "build": "b8", "installed": False, "log_read": False, "folder": ""}]))
    assert [" ".join(line.split()) for line in lines] == [
        "build package installed compared", "b9 p 3 MiB answers and log", "b8 p no answers", "/f"]  # fmt: skip


RUNS = [compared(row(0), row(1)), compared(row(0), row(1, theirs=side(cache_n=4)), build="b10"),
        compared(row(0), row(1, theirs=side(cache_n=4)), build="b11")]  # fmt: skip


def test_neighbouring_builds_are_compared():
    assert [str(line) for line in between_builds([*RUNS, compared(row(), scenario="other"), compared()])] == [
        "case: the real b9 and b10 differ in request 1", "case: the real b10 and b11 give equal results"]  # fmt: skip


@pytest.mark.parametrize(("runs", "first_new", "sentence", "changed"), [
    (RUNS, "b10", "real builds: request 1 changes between b9 and b10", [1]),
    (RUNS[1:], "", "real builds: no request changes between b10 and b11", []),
    (RUNS[:1], "", "real builds: fewer than two could be compared", []),
    ([], "", "real builds: fewer than two could be compared", []),
])  # fmt: skip
def test_the_change_between_builds(runs, first_new, sentence, changed):
    data = {"runs": runs, "not_run": [{"build": "b7", "left_out": "no flag"}], "last_old": "b9", "first_new": first_new}
    assert (change_sentence(data), changed_requests(data)) == (sentence, changed)
    lines = printed(history_report(data))
    assert lines[0] == sentence and "  not run on b7: no flag" in lines
    if changed:
        assert [" ".join(line.split()) for line in lines[1:5]] == [
            "real request 1 simulator", "b9 3 + 2, correct equal", "b10 4 + 2, correct equal",
            "b11 4 + 2, correct equal"]


def test_a_search_ends_with_its_numbers():
    data = {"build": "b9", "conversations": 1, "requests": 1_200, "equal": 1_100,
            "differences": [{"number": 4, "line": "A2/A", "model": "A", "server": {"n": 3},
                             "comparison": compared(row())}],
            "undecided": [{"requests": 2, "why": "late"}, {"requests": 1, "why": "no log"}],
            "left_out": [{"conversations": 1, "why": "no flag"}]}  # fmt: skip
    lines = printed(search_report(data))
    assert lines[0] == "conversation 4 differs: cachesim run 'A2/A' --model A --set n=3 --real b9"
    assert lines[-4:] == [
        "real b9: 1 conversation, 1200 requests: 1,100 equal; 1 conversation differs, 3 requests undecided",
        "  undecided: 2 requests: late", "  undecided: 1 request: no log", "  not run: 1 conversation: no flag"]
    assert printed(search_report({**data, "differences": [], "undecided": [], "left_out": []})) == [
        "real b9: 1 conversation, 1200 requests: 1,100 equal; 0 conversations differ, 0 requests undecided"]


def test_an_image_is_drawn_from_its_number():
    data = draw_png(1, 3, 2)
    assert data[:33].hex() == ("89504e470d0a1a0a0000000d49484452000000030000000208020000" "0012" "16f14d")
    assert data == draw_png(1, 3, 2) != draw_png(2, 3, 2) and data.endswith(b"IEND\xaeB`\x82")
    assert tokenize("") == ()


def test_a_change_of_several_requests_is_named_and_only_three_have_columns():
    def outcome(build, *changed, **more):
        rows = [row(n, theirs=side(cache_n=4 if n in changed else 3)) for n in range(5)]
        return compared(*rows, build=build, **more)

    runs = [outcome("b9"), outcome("b10", 0, 1, 3, 4, notes=["n"]), outcome("b11", 0, 1, notes=["n"])]
    data = {"runs": runs, "not_run": [], "last_old": "b9", "first_new": "b10"}
    assert change_sentence(data) == (
        "real builds: requests 0, 1, 3, 4 change between b9 and b10, and again between b10 and b11")
    assert printed(history_report(data))[1].split() == [
        "real", "request", "0", "request", "1", "request", "3", "simulator"]  # fmt: skip
    assert printed(history_report(data))[-2] == "  b10, b11: note: n"
    same = {**data, "runs": [outcome("b9"), outcome("b10")], "first_new": ""}
    assert printed(history_report(same))[1].split() == [
        "real", "request", "0", "request", "1", "request", "2", "simulator"]  # fmt: skip


def test_rows_of_a_history_name_their_build():
    runs = [compared(row(0, False, "cache_n"), build="b9", same=False), compared(row(0, None, why="late"), build="b10")]
    lines = printed(history_report({"runs": runs, "not_run": [], "last_old": "", "first_new": ""}))
    assert lines[-3:] == ["  b9:  request 0: first difference: cache_n", "  b10:  request 0: undecided: late",
                          f"  {LEGEND}"]  # fmt: skip


def test_a_shorter_run_is_compared_as_far_as_it_goes():
    runs = [compared(row(0), row(1), build="b9"), compared(row(0, theirs=side(404)), build="b10")]
    assert changed_requests({"runs": runs}) == [0]
    assert [str(line) for line in between_builds(runs)] == ["case: the real b9 and b10 differ in request 0"]


def test_several_differences_of_a_search_each_have_their_conversation():
    found = {"number": 4, "line": "A2 / A", "model": "W8 A", "server": {}, "comparison": compared(row())}
    data = {"build": "b9", "conversations": 2, "requests": 1, "equal": 0, "undecided": [], "left_out": [],
            "differences": [found, {**found, "number": 5}]}  # fmt: skip
    lines = printed(search_report(data))
    assert [line for line in lines if "cachesim run" in line] == [
        f"conversation {number} differs: cachesim run 'A2 / A' --model 'W8 A' --real b9" for number in (4, 5)]
    assert lines[-1] == "real b9: 2 conversations, 1 request: 0 equal; 2 conversations differ, 0 requests undecided"


def test_simulated_numbers_stand_once():
    """A table of equal numbers below the run's own, or below that of another build, tells a reader nothing new."""
    equal, differing = compared(row(0), row(1)), compared(row(0), row(1, False), same=False)
    numbers = ShownRun("case", ((3, 2, 200, True),) * 2)
    other = ShownRun("other", numbers.numbers)
    for shown, runs, rows in (([], [equal], 2), ([numbers], [equal], 0), ([], [equal, {**equal, "build": "b10"}], 2),
                              ([numbers], [differing], 1), ([other], [equal], 2)):  # fmt: skip
        lines = printed(Group(*comparisons_report(runs, shown)))
        assert sum("3 + 2, correct" in line for line in lines) == rows
        assert (f"  {LEGEND}" in lines) is bool(rows)
