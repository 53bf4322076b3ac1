"""Tests of the reported bugs: the table is whole, each strict claim is true, and the page is current."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cachesim.scenarios.schema import STRICT
from tests.conformance.wrong_keys import KINDS
from tests.scenarios.bugs_page import PAGE, KeyReport, key_reports, page
from tests.scenarios.reported_bugs import LATER, NOT, OUT, Shown, bugs, complaints, drawn, first_named, is_named, shown
from tests.scenarios.whole import corpus
from tests.shared import SHARED, needs

CATALOGUE = SHARED / "spec" / "bug_catalogue.md"
BUGS, REPORTS = bugs(), shown()
CLAIMS = [case for some in REPORTS.values() for case in some if case.report.claim == STRICT]
strict = pytest.mark.parametrize("case", CLAIMS, ids=lambda case: f"{case.report.entry}-{case.scenario.id}")
ONE_OF = 20              # of so many reports one is explained; ``-m slow``: all

some_explained = pytest.mark.parametrize("case", [
    pytest.param(case, id=f"{case.report.entry}-{case.scenario.id}", marks=[pytest.mark.slow] * bool(number % ONE_OF))
    for number, case in enumerate(CLAIMS)
])


@needs(CATALOGUE)
def test_the_table_has_each_entry_of_the_catalogue_once() -> None:
    """A TOML file cannot have an entry twice. Further reports of vLLM and SGLang come from their specifications and
    from public threads."""
    entries = re.findall(r"^### ([A-Z]+-\d+) ", CATALOGUE.read_text("utf-8"), re.M)
    assert [name for name in BUGS if name in entries or not name.startswith(("SG-", "VL-"))] == entries


@needs(CATALOGUE)
def test_titles_are_our_own_words() -> None:
    titles = re.findall(r"^### [A-Z]+-\d+ · (.*)", CATALOGUE.read_text("utf-8"), re.M)
    assert {bug.title.lower() for bug in BUGS.values()}.isdisjoint(title.lower() for title in titles)


def test_a_report_is_of_an_entry() -> None:
    assert set(REPORTS) <= set(BUGS)


def test_an_entry_is_shown_or_has_a_class_and_a_reason() -> None:
    for entry, bug in BUGS.items():
        if entry in REPORTS:
            assert (bug.kind, bug.why) == ("", ""), f"a scenario shows {entry}: remove class and why from bugs.toml"
        else:
            assert bug.kind in (NOT, LATER, OUT) and bug.why.endswith("."), f"{entry} needs a class and a sentence"
        assert bug.threads and all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", thread) for thread in bug.threads), entry


@pytest.mark.part(3)
@strict
def test_a_strict_report_is_true(case: Shown) -> None:
    assert list(complaints(case)) == []


@pytest.mark.part(3)
@some_explained
def test_why_names_the_rule_first(case: Shown) -> None:
    assert is_named(first_named(case), case.report), f"why names {first_named(case) or 'no rule'}"


def changed(entry: str, **values: Any) -> Shown:
    """Return a strict report of this entry with other values."""
    one = next(case for case in REPORTS[entry] if case.report.claim == STRICT)
    return Shown(one.scenario, one.report._replace(**values))


@pytest.mark.parametrize("entry, values, said", [
    ("LC-01", {"request": 0}, "expects the same"),
    ("LC-01", {"rule": "LC-CKPT-PICK"}, "no other variant"),
    ("LC-01", {"fault": "llama_cpp@b8450", "fixed": "llama_cpp@b8392"}, "is broken under llama_cpp@b8392"),
    ("LC-39", {"rule": "LC-CKPT-SPACING"}, "leaves the fault"),
    ("LC-36", {"fault": "llama_cpp@b9765", "fixed": "llama_cpp@b9518"}, "why names"),
])
def test_a_false_claim_is_found(entry: str, values: dict[str, Any], said: str) -> None:
    case = changed(entry, **values)
    if said == "why names":                  # the search takes longer than all that a report claims otherwise
        assert not is_named(first_named(case), case.report)
    else:
        found = list(complaints(case))
        assert any(said in one for one in found), found


@pytest.mark.parametrize("report", key_reports(), ids=lambda report: report.threads[0])
def test_a_report_about_a_key_names_what_shows_it(report: KeyReport) -> None:
    found = {one.id: one for one in corpus() if one.id in report.scenarios}
    assert list(found) == sorted(report.scenarios, key=list(found).index) and set(report.kinds) <= set(KINDS)
    assert all(report.threads[0] in one.source for one in found.values())
    assert report.scenarios or report.kinds or report.why
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", thread) for thread in report.threads)


def test_each_kind_of_wrong_key_was_reported_but_one() -> None:
    assert set(KINDS) - {kind for report in key_reports() for kind in report.kinds} == {"salt"}


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "python -m tests.scenarios.bugs_page"


def test_a_draw_is_reproducible_and_without_repetition() -> None:
    some = [case.report.entry for case in drawn(30, seed=7)]
    assert some == [case.report.entry for case in drawn(30, seed=7)]
    assert len(set(some)) == len(some) == min(30, len({case.report.entry for case in CLAIMS}))
