"""Tests of the sections of the suite and of the report in all its forms."""

from __future__ import annotations

from dataclasses import replace
from xml.etree.ElementTree import fromstring

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance import Finding, Report, Result, conform, junit
from cachesim.tools.conformance.ci_reports import summary
from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.corpus import DrawBounds
from cachesim.tools.conformance.properties import PROPERTIES
from cachesim.tools.conformance.protocol import ABILITIES
from cachesim.tools.conformance.report import MEMBERS, SECTIONS, STATES, basic_lines, floor_lines
from tests.conformance.naive import FixedCache, NaiveCache

pytestmark = pytest.mark.long

ALL = frozenset(SECTIONS)


def test_every_property_has_its_section_in_the_order_of_the_report():
    assert list(MEMBERS) == list(SECTIONS)
    assert [name for names in MEMBERS.values() for name in names] == list(PROPERTIES)


@pytest.mark.parametrize("near", [(), (16,), (64, 100)])
def test_the_basic_histories_are_longer_than_two_blocks(near):
    space = DrawBounds(6, 256, near, frozenset(ABILITIES))
    lines = [*basic_lines(ALL, space), *floor_lines(space).values()]
    moved = [line for line in lines if ".A.C8" in line]
    lines = [line for line in lines if line not in moved]
    assert (len(lines), len(moved)) == (14, 2 * len(near))
    assert all(len(parse_history(line).scenario.steps[0].request.prompt) > 2 * max(near, default=0) for line in lines)


def test_what_does_not_fit_is_not_played():
    assert list(basic_lines(ALL, DrawBounds(1, 256, (), frozenset(ABILITIES)))) == []
    assert floor_lines(DrawBounds(2, 256, (), frozenset())).keys() == {"extension", "regenerate"}
    assert floor_lines(DrawBounds(6, 13, (), frozenset())) == {}
    able = "".join(basic_lines(ALL, DrawBounds(6, 256, (), frozenset({"cancel_answer"}))))
    assert "cancel_after=1" in able and "!" not in able and "together" not in able and "cancel_after=0" not in able


@pytest.mark.parametrize("near, expected", [
    ((4,), ["A4.B4/B.A.C8", "A4.B8/A.A.C8"]), ((), []), ((1, 130), []),
    ((9, 4, 4), ["A4.B4/B.A.C8", "A4.B8/A.A.C8", "A9.B9/B.A.C8", "A9.B8/A.A.C8"]),
])
def test_text_moves_by_each_size_that_fits(near, expected):
    space = DrawBounds(6, 256, near, frozenset())
    assert [line for line in basic_lines(frozenset({"isolation"}), space) if ".A.C8" in line] == expected
    assert [line for line in basic_lines(frozenset({"same"}), space) if ".A.C8" in line] == []
    assert not any(".A.C8" in line for line in basic_lines(ALL, space._replace(most_requests=1)))


class BlocksByOwnTokens:
    """Finds a block of four tokens by its own tokens alone; a number per token stands for its K/V row."""

    def __init__(self):
        self.blocks = {}

    def complete(self, prompt, n_predict):
        rows, cached = [], 0
        while cached + 4 < len(prompt) and tuple(prompt[cached : cached + 4]) in self.blocks:
            rows += self.blocks[tuple(prompt[cached : cached + 4])]
            cached += 4
        for token in prompt[cached:]:
            rows.append(hash((token, *rows)))
        for at in range(0, len(prompt) - 3, 4):
            self.blocks.setdefault(tuple(prompt[at : at + 4]), rows[at : at + 4])
        return {"tokens": [rows[-1] % 1000] * n_predict, "cached": cached, "evaluated": len(prompt) - cached}


def test_blocks_that_are_found_by_their_own_tokens_are_found():
    report = conform(BlocksByOwnTokens, near=[4], max_examples=20, check=False)
    assert {one.name: one.finding.line for one in report.failing} == {
        "new": "A4.B4/B.A", "branch": "A4/A.A.B1", "unseen": "A4/A.A.B1"}  # fmt: skip


def test_sections_can_be_selected():
    report = conform(NaiveCache, only=["books", "drawn"], max_examples=40, check=False)
    assert {one.section for one in report.results if one.state != "skipped"} == {"books"}
    assert report.section("drawn") == "skipped" or report["repeat"].state == "skipped"
    assert set(report.counts) == {"same", "drawn"} and report.counts["drawn"].histories == 40
    for bad in (["bocks"], "books"):
        with pytest.raises(BadInput, match=r"did you mean 'books'|only: expected a list of sections"):
            conform(NaiveCache, only=bad)


def test_a_section_is_as_good_as_what_fails_in_its_histories():
    report = conform(NaiveCache, corpus="any", max_examples=40, check=False)
    assert {name: report.section(name) for name in SECTIONS} == {
        "noise": "ok", "same": "failed", "known": "failed", "drawn": "failed", "reuse": "missed", "isolation": "ok",
        "books": "ok", "faults": "ok", "parallel": "unsupported",
    }  # fmt: skip
    assert report.counts["known"].names == ("repeat",) and report.counts["known"].histories > 80


def test_what_is_accepted_does_not_spoil_its_section():
    reasons = {"repeat": "known", "prefix": "known", "regenerate": "only appends"}
    report = conform(NaiveCache, max_examples=80, accepted=reasons, strict=True)
    assert {report.section(name) for name in ("same", "drawn", "reuse")} == {"accepted"}


def test_a_missed_floor_fails_only_if_strict():
    def states(**how):
        return {one.name for one in conform(FixedCache, only=["reuse"], check=False, **how).failing}

    assert states() == set() and states(strict=True) == {"regenerate"}
    found = conform(FixedCache, only=["reuse"], check=False)["regenerate"].finding
    assert (found.line, found.got) == ("A24>a4/A", "0 of 24 tokens cached")


def test_what_is_reused_may_be_told_by_what_was_evaluated():
    class Evaluates(FixedCache):
        def complete(self, prompt, n_predict):
            return {**super().complete(prompt, n_predict), "cached": None}

    report = conform(Evaluates, only=["reuse"], check=False)
    assert [report.state(name) for name in MEMBERS["reuse"]] == ["ok", "ok", "missed"]


def test_the_text():
    text = str(conform(NaiveCache, max_examples=80, check=False))
    assert "\n2 same        FAILED       7 histories\n" in text.replace(", 1 failed: repeat", "")
    assert '\n      again: histories=["A1>a2/A.a[:1]"]\n' in text
    assert text.splitlines()[-1] == "FAILED: 2 failed, 1 missed, 13 ok, 3 unsupported; 87 histories"


def test_the_data():
    data = conform(NaiveCache, max_examples=80, check=False).data()
    assert [(one["number"], one["name"]) for one in data["sections"]] == list(enumerate(SECTIONS, 1))
    assert {one["state"] for one in data["properties"]} <= set(STATES)
    assert data["sections"][2]["why"] == 'run with corpus="any"'


def test_the_xml():
    report = conform(NaiveCache, max_examples=80, check=False)
    root = fromstring(junit(report).partition("\n")[2])
    assert [one.get("name") for one in root] == [f"{number} {name}" for number, name in enumerate(SECTIONS, 1)]
    assert sum(int(one.get("failures")) for one in root) == len(root.findall(".//failure")) == 1
    assert root.find(".//testcase[@name='prefix']/failure").text.startswith("A1>a2/A.a[:1]\nrequest 1: expected ")
    repeat = root.find(".//testcase[@name='repeat']/skipped")                             # equal faults count once
    assert repeat.get("message") == "failed: same fault as prefix: A2/A"
    assert repeat.text.startswith("A2/A\nrequest 1: expected ")
    drawn = root.find(".//testcase[@name='histories'][@classname='cachesim.drawn']/skipped").get("message")
    assert drawn.endswith("of 80 histories failed: prefix, repeat")
    properties = {*PROPERTIES} - {"key", "adapter", "base", "image", "drafts"}            # no keys, no server
    assert {one.get("name") for one in root.iter("testcase")} == {*properties, "histories"}


def test_undecided_is_an_error_in_the_xml_with_its_reason():
    results = (Result("burst", "parallel", "a sentence", "undecided", why="too little"),)
    root = fromstring(junit(Report(results)).partition("\n")[2])
    assert root.find(".//testcase[@name='burst']/error").get("message") == "undecided: too little"
    assert root.find(".//testsuite[@name='9 parallel']").get("errors") == "1"


@pytest.mark.parametrize("state, shown", [("failed", True), ("undecided", True), ("ok", True), ("skipped", False)])
def test_the_summary_has_a_row_for_each_judged_property(state, shown):
    finding = Finding("A5/A", 1, "tokens 1", "tokens 2\n# x", notes=("a note",)) if state == "failed" else None
    text = summary(Report((Result("burst", "parallel", "s", state, 3, why="<b>|*", finding=finding),)), "OK", "u_r")
    lines = text.splitlines()
    assert lines[0] == "### cachesim check u\\_r: OK" and lines[2].startswith("| section |")
    assert ((f"| parallel | burst | {state} | 3 checks; &lt;b>\\|\\* |") in lines) is shown
    assert ("    A5/A" in lines and "    got tokens 2\\n# x" in lines) is (state == "failed")
    assert all(not line.startswith("#") for line in lines[1:])


def test_the_xml_is_well_formed_for_any_text():
    text, report = "a\x1b[31m\0\ud800\uffff<&\"", conform(NaiveCache, max_examples=80, check=False)
    found = tuple(replace(one, why=text) for one in report.results)
    root = fromstring(junit(replace(report, results=found), text).partition("\n")[2])
    assert root.get("name") == root.find(".//failure").get("message") == r'a\x1b[31m\x00\ud800\uffff<&"'
