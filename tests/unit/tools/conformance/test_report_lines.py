"""What a report says about a property: the fault, what it expected, or how much was checked."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.corpus import DrawBounds
from cachesim.tools.conformance.report import (
    SECTIONS,
    Finding,
    Nonconforming,
    Report,
    Result,
    SectionCount,
    basic_lines,
    chosen,
    floor_lines,
)

OK = Result("answers", "cold", "every answer is that of a cold run", "ok")

FINDING = Finding("A2/A", None, "x", "y", ((1,),), ())
OK = Result("answers", "cold", "every answer is that of a cold run", "ok")


ABLE = frozenset({"cache", "burst", "cancel_prompt", "cancel_answer"})


def space(most_requests=6, most_prompt=256, near=(), abilities=ABLE):
    return DrawBounds(most_requests, most_prompt, near, abilities)


@pytest.mark.parametrize(("bounds", "extension"), [
    (space(), "A24>a4/A.a.B8"), (space(near=(16, 64)), "A130>a4/A.a.B8"), (space(near=(11,)), "A24>a4/A.a.B8"),
    (space(near=(12,)), "A26>a4/A.a.B8"), (space(most_prompt=30), "A18>a4/A.a.B8"),
    (space(most_prompt=14), "A2>a4/A.a.B8"), (space(most_prompt=13), None), (space(most_requests=2), "A24>a4/A.a.B8"),
    (space(most_requests=1), None),
])  # fmt: skip
def test_the_first_prompt_exceeds_twice_the_largest_size_if_it_fits(bounds, extension):
    assert floor_lines(bounds).get("extension") == extension


def test_sections_have_the_histories_that_the_implementation_is_able_to_run():
    assert list(basic_lines(frozenset({"same"}), space())) == [
        "A24>a4/A.a.B8", "A24>a4/A[:12].B8", "A24>a4/A[:12]", "A24>a4/A", "A24>a4/A.a.B8!"]  # fmt: skip
    assert list(basic_lines(frozenset({"noise"}), space())) == list(basic_lines(frozenset({"same", "books"}), space()))
    assert list(basic_lines(frozenset({"faults"}), space(abilities=ABLE - {"cancel_prompt"}))) == [
        "A24>4{cancel_after=1}/A.B8"]
    assert list(basic_lines(frozenset({"parallel"}), space(most_requests=3))) == ["A24/B12{together}"]
    assert list(basic_lines(frozenset({"parallel", "same"}), space(abilities=frozenset()))) == [
        "A24>a4/A.a.B8", "A24>a4/A[:12].B8", "A24>a4/A[:12]", "A24>a4/A"]  # fmt: skip
    assert list(basic_lines(frozenset({"drawn"}), space())) == []


@pytest.mark.parametrize(("bounds", "sizes"), [
    (space(near=(8, 4, 8)), [4, 8]), (space(near=(1, 2)), [2]), (space(near=(8,), most_prompt=28), [8]),
    (space(near=(8,), most_prompt=27), []), (space(near=(8,), most_requests=1), []),
])  # fmt: skip
def test_text_at_another_place_is_sent_for_every_size(bounds, sizes):
    lines = [line for line in basic_lines(frozenset({"isolation"}), bounds) if "A.C8" in line and ".B" in line]
    assert lines == [line for n in sizes for line in (f"A{n}.B{n}/B.A.C8", f"A{n}.B8/A.A.C8")]


@pytest.mark.parametrize(("only", "known", "found"), [
    ((), True, {*SECTIONS}), ((), False, {*SECTIONS} - {"known"}), (("known", "same"), False, {"known", "same"}),
])  # fmt: skip
def test_sections_are_all_of_them_by_default(only, known, found):
    assert chosen(only, known) == found


@pytest.mark.parametrize(("name", "hint"), [("sam", "same"), ("zzzzzz", ", ".join(SECTIONS))])
def test_an_unknown_section_is_refused_with_a_hint(name, hint):
    with pytest.raises(BadInput, match=f"only: unknown section '{name}'") as bad:
        chosen((name,), True)
    assert hint in bad.value.hint


FAILED = Finding("A2/A", 11, "1 there", "2 here", ((1, 2), (1,)), ("a note", "another"))


def test_a_report_as_text():
    results = (Result("append", "same", "s", "failed", finding=FAILED, fault="another answer", common="all have it"),
               Result("repeat", "same", "s", "failed", finding=FAILED, fault="x", like="append"),
               Result("prefix", "same", "s", "skipped"), Result("burst", "parallel", "s", "ok", 2, 2))  # fmt: skip
    counts = {"same": SectionCount(3, 2, ("append", "repeat"), 4), "drawn": SectionCount(1, 0, (), 1)}
    text = str(Report(results, counts, {"known": "run with it"}, ("note: late",), False, {"parallel": "stopped"}))
    assert text.splitlines() == [
        "1 noise       UNDECIDED", "2 same        FAILED       3 histories, 2 failed: append, repeat",
        "  append      FAILED       another answer", "      A2/A", "      request 11: expected 1 there",
        "                  got      2 here", "                  a note", "                  another",
        "      all have it", f"      again: {FAILED.again}",
        "  repeat      FAILED       same fault as append: A2/A", "3 known       SKIPPED      run with it",
        "4 drawn       OK           1 histories", "5 reuse       UNDECIDED", "6 isolation   UNDECIDED",
        "7 books       UNDECIDED", "8 faults      UNDECIDED", "9 parallel    UNDECIDED    stopped",
        "  burst       OK           2 checks", "note: late",
        "FAILED: 2 failed, 1 ok, 1 skipped; 4 histories"]  # fmt: skip


def test_a_finding_that_has_nothing_in_common_with_others_has_no_line_for_it():
    found = replace(OK, section="same", state="failed", finding=replace(FAILED, notes=()))
    lines = str(Report((found,))).splitlines()
    at = lines.index("                  got      2 here")
    assert lines[at + 1] == f"      again: {FAILED.again}" and all(map(str.strip, lines))


@pytest.mark.parametrize(("results", "strict", "unfinished", "verdict"), [
    ([OK], False, {}, "OK: 1 ok"), ([OK], False, {"drawn": "late"}, "UNDECIDED: 1 ok"),
    ([replace(OK, state="missed")], False, {}, "OK: 1 missed"),
    ([replace(OK, state="missed")], True, {}, "FAILED: 1 missed"),
    ([replace(OK, state="undecided"), OK], False, {}, "UNDECIDED: 1 undecided, 1 ok"),
])  # fmt: skip
def test_the_last_line_is_the_verdict(results, strict, unfinished, verdict):
    found = Report(tuple(results), strict=strict, unfinished=unfinished)
    assert str(found).splitlines()[-1] == verdict and found.conforms is verdict.startswith("OK")


def test_properties_that_a_run_did_not_reach_are_one_row():
    """A check that ends early says once what it did not reach, and counts no histories if it ran none."""
    ends = "stopped after 50 requests"
    late = replace(OK, state="undecided", checked=0, decisive=0, why=f"not run: {ends}")
    undone = (replace(late, name="new", section="isolation"), replace(late, name="burst", section="parallel", why=ends))
    left = {"drawn": f"{ends} before all histories were run", "parallel": f"{ends} before all histories were run"}
    lines = str(Report((OK, *undone), unfinished=left)).splitlines()
    row = [line for line in lines if ends in line]
    assert len(row) == 1 and row[0].startswith("not reached   UNDECIDED    2 properties of 2 sections")
    assert not any(word in line for line in lines for word in ("isolation", "drawn", "parallel", "0 histories"))
    assert "2 undecided, 1 ok" in lines[-1]


def test_control_characters_of_an_implementation_are_not_printed():
    found = replace(OK, state="failed", finding=replace(FAILED, got="\x1b[31m"))
    assert "\x1b" not in str(Report((found,)))
    error = Nonconforming(Report((found,)))
    assert "\x1b" not in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.report, str(again)) == (Nonconforming, error.report, str(error))


def test_a_report_as_data():
    counts = {"same": SectionCount(3, 1, ("answers",), 2)}
    data = Report((replace(OK, state="failed", finding=FAILED),), counts, {"known": "left out"}, ("a note",),
                  unfinished={"drawn": "late"}).data()  # fmt: skip
    assert (data["conforms"], data["histories"], data["notes"]) == (False, 3, ["a note"])
    by_name = {one["name"]: one for one in data["sections"]}
    assert by_name["same"] == {"number": 2, "name": "same", "state": "failed", "why": "", "histories": 3, "failed": 1,
                               "names": ("answers",), "decisive": 2}  # fmt: skip
    assert (by_name["known"]["why"], by_name["drawn"]["why"], by_name["drawn"]["number"]) == ("left out", "late", 4)
    [one] = data["properties"]
    assert one["finding"] == {"line": "A2/A", "request": 11, "expected": "1 there", "got": "2 here",
                              "notes": ["a note", "another"], "prompts": [[1, 2], [1]]}  # fmt: skip


def test_only_the_first_failure_is_the_headline():
    results = (replace(OK, state="undecided", why="late"), replace(OK, name="append", state="failed", fault="wrong"),
               replace(OK, name="prefix", state="failed", fault="wrong, too"))  # fmt: skip
    report = Report(results)
    assert str(Nonconforming(report)).splitlines() == ["append: wrong", *str(report).splitlines()]


LINE = Result("append", "same", "an answer is that of a cold run", "ok")


@pytest.mark.parametrize("fields, text", [
    ({"checked": 1, "decisive": 1}, "1 check"),
    ({"checked": 3, "decisive": 1, "reused": 2}, "3 checks, 1 of them could fail, 2 with reuse"),
    ({"checked": 3, "decisive": 3, "why": "few"}, "3 checks; few"), ({"why": "nothing to check"}, "nothing to check"),
    ({"state": "unsupported", "checked": 3, "why": "no burst"}, "no burst"),
    ({"state": "failed"}, LINE.sentence), ({"state": "missed", "why": "too short"}, "(too short)"),
    ({"state": "failed", "fault": "another answer", "like": "stored"}, "another answer"),
    ({"state": "failed", "fault": "another answer", "like": "stored", "finding": FINDING}, "stored: A2/A"),
])  # fmt: skip
def test_a_property_has_a_line_with_its_counts_or_its_fault(fields, text):
    (line,) = (one for one in str(Report((replace(LINE, **fields),))).splitlines() if one.startswith(f"  {LINE.name} "))
    assert line.endswith(text)
