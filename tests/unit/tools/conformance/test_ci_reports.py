"""Reports for CI: which tag a state becomes, and the whole texts."""

from __future__ import annotations

from dataclasses import replace
from xml.etree.ElementTree import fromstring

import pytest

from cachesim.tools.conformance.ci_reports import junit, summary
from cachesim.tools.conformance.report import Finding, Report, Result, SectionCount

FINDING = Finding("A2/A", 1, "x", "y", ((1, 2),), ("a note",))
BASE = Result("append", "same", "an answer is that of a cold run", "ok", checked=4)


def report(*results, **more):
    return Report(results=tuple(results), **more)


@pytest.mark.parametrize(("state", "more", "strict", "tag"), [
    ("ok", {}, False, None), ("failed", {"fault": "wrong answer"}, False, "failure"), ("undecided", {}, True, "error"),
    ("missed", {}, False, "skipped"), ("missed", {}, True, "failure"), ("accepted", {}, True, "skipped"),
    ("unsupported", {}, False, "skipped"), ("skipped", {}, False, "skipped"),
    ("failed", {"like": "repeat"}, True, "skipped"),
])  # fmt: skip
def test_each_state_has_a_tag(state, more, strict, tag):
    root = fromstring(junit(report(replace(BASE, state=state, why="because", **more), strict=strict)))
    suite = next(one for one in root if one.get("name") == "2 same")
    assert [found.tag for case in suite for found in case] == ([tag] if tag else [])
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "1", "failures": str(int(tag == "failure")), "errors": str(int(tag == "error")),
        "skipped": str(int(tag == "skipped"))}  # fmt: skip
    message = [found.get("message") for case in suite for found in case]
    assert message == ([] if tag is None else ["because" if tag == "failure" else f"{state}: because"])


def test_a_failure_has_its_history_and_the_rules_behind_it():
    text = junit(report(replace(BASE, state="failed", fault="wrong answer", finding=FINDING)), "mine",
                 {"append": ["a rule"]})  # fmt: skip
    root = fromstring(text)
    assert text.startswith("<?xml version='1.0' encoding") and text.endswith(" />\n</testsuites>\n")
    assert text.count("\n  <testsuite ") == 9
    assert (root.get("name"), len(root)) == ("mine", 9)
    (case,) = root.iter("testcase")
    (failure,) = case
    assert case.attrib == {"classname": "cachesim.same", "name": "append"}
    assert failure.get("message") == "wrong answer"
    failed = report(replace(BASE, state="failed", fault="wrong answer", finding=FINDING))
    other = junit(failed, "mine", {"repeat": ["r"]})
    assert other == text.replace("\na rule<", "<"), "without a rule the rest is the same"
    assert failure.text == 'A2/A\nrequest 1: expected x\ngot y\na note\nagain: histories=["A2/A"]\na rule'


@pytest.mark.parametrize(("count", "unfinished", "tag", "message"), [
    (SectionCount(), {}, None, None), (SectionCount(histories=3, decisive=1), {}, "", None),
    (SectionCount(histories=3), {}, "error", "undecided: histories of known faults"),
    (SectionCount(histories=3, failed=1, names=("append",)), {}, "skipped",
     "skipped: 1 of 3 histories failed: append"),
    (SectionCount(histories=3, failed=1, names=("append",)), {"known": "stopped"}, "error",
     "undecided: 1 of 3 histories failed: append; stopped"),
    (SectionCount(), {"known": "stopped"}, "error", "undecided: stopped"),
])  # fmt: skip
def test_a_section_without_properties_has_a_case_for_its_histories(count, unfinished, tag, message):
    root = fromstring(junit(report(BASE, counts={"known": count}, unfinished=unfinished)))
    (suite,) = (one for one in root if one.get("name") == "3 known")
    cases = [*suite]
    assert [case.attrib for case in cases] == ([] if tag is None else [
        {"classname": "cachesim.known", "name": "histories"}])  # fmt: skip
    assert [(one.tag, one.get("message")) for case in cases for one in case] == ([(tag, message)] if tag else [])


def test_the_summary_has_a_row_for_each_judged_property_and_the_failures_in_full():
    found = report(BASE, replace(BASE, name="repeat", state="failed", fault="wrong | answer", finding=FINDING),
                   replace(BASE, name="prefix", state="undecided", checked=0, why="stopped"),
                   replace(BASE, name="burst", state="unsupported"), replace(BASE, name="new", state="skipped"),
                   replace(BASE, name="branch", state="failed", like="repeat", finding=FINDING))  # fmt: skip
    assert summary(found, "1 fault", "a_b", {"repeat": ["a rule"]}).splitlines() == [
        r"### cachesim check a\_b: 1 fault", "", "| section | property | state | |", "| --- | --- | --- | --- |",
        "| same | append | ok | 4 checks |", r"| same | repeat | failed | 4 checks; wrong \| answer |",
        "| same | prefix | undecided | stopped |",
        "| same | branch | failed | 4 checks; same fault as repeat: A2/A |",
        "", r"**repeat**: wrong \| answer", "", "    A2/A", "    request 1: expected x", "    got y", "    a note",
        '    again: histories=["A2/A"]', "    a rule",
        "", "**branch**: same fault as repeat: A2/A", "", "    A2/A", "    request 1: expected x", "    got y",
        "    a note", '    again: histories=["A2/A"]',
    ]  # fmt: skip


def test_a_cell_has_neither_markup_nor_line_ends():
    text = summary(report(replace(BASE, state="undecided", why="a|b <i> & `c`\n*d* [e](f) #!~{g}_\\")), "", "", {})
    assert r"a\|b &lt;i> &amp; \`c\`\\n\*d\* \[e\]\(f\) \#\!\~\{g\}\_" + "\\\\ |" in text
