"""Tests of the tokens that a repair saves: the number is that of a run, and the work is bounded."""

from __future__ import annotations

import re

import pytest

from cachesim.engines.registry import engine_of
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.advise import saved_tokens as module
from cachesim.tools.advise.client_changes import client_changes
from cachesim.tools.advise.report import saved_report
from cachesim.tools.advise.saved_tokens import RepairCase, saved_tokens
from cachesim.tools.advise.search import AdviceSearch

PROFILE = "llama_cpp@b11549"
DATED = "h30.d2.S90.|u20>a9/h.e2.S.|u.a.|v20>b9/h.f2.S.|u.a.|v.b.|w20"


def case(line, model="GGGA", **more):
    return from_line(line, model=model, profiles=(PROFILE,), server={"parallel": 1}, **more)


def test_the_number_is_that_of_a_run_with_the_change(dated):
    saved = dated[0][0]
    line = "h30.S90.|u20.d2>a9/h.S.|u.a.|v20.e2>b9/h.S.|u.a.|v.b.|w20.f2"
    last = AdviceSearch(module.Setup(case(line), PROFILE)).base
    assert saved["changes"][0] == "changing part last" and saved["client"]
    assert saved["evaluated"] - saved["saved"] == last.outcome.evaluated
    assert (saved["lowest"], saved["highest"]) == (saved["saved"], saved["saved"])


@pytest.fixture(scope="module")
def dated():
    """What is saved in the case with dates of 2 tokens, and in one with longer dates and variants of both lengths."""
    cases = [case(re.sub("([def])2", rf"\g<1>{n}", DATED)) for n in (2, 20)]
    alone = [saved_tokens(RepairCase(one, excluded={"unchanged history"})) for one in cases]
    return alone, saved_tokens(RepairCase(cases[1], "x", tuple(cases), "2 to 20 tokens", {"unchanged history"}))


def test_variants_give_a_range(dated):
    (short, long), varied = dated
    assert (varied["lowest"], varied["saved"], varied["highest"]) == (long["saved"], long["saved"], short["saved"])
    assert long["saved"] < short["saved"] and (varied["assumes"], varied["varied"]) == ("x", "2 to 20 tokens")


def test_nothing_is_said_if_nothing_is_saved():
    assert saved_tokens(RepairCase(case("A40>a2/A.a.B9"))) is None
    assert list(saved_report(None, "x.log")) == []


SAVED = {"too_slow": False, "client": True, "saved": 1500, "evaluated": 3000, "share": 0.5, "text": "client: send it",
         "profile": "p@1", "model": "GA", "assumes": "", "lowest": 1500, "highest": 1500, "varied": ""}  # fmt: skip


@pytest.mark.parametrize(("changed", "about", "shown"), [
    ({}, "", ["1,500", "3,000", "50%", "send it", "p@1", "GA"]),
    ({"client": False, "text": "-np 2"}, "about ", ["about 1,500", "about 3,000", "50%", "-np 2"]),
    ({"assumes": "x", "lowest": 1000, "varied": "2 to 9"}, "", ["1,500", "3,000", "x", "2 to 9", "1,000", "1,500"]),
    ({"highest": 2000, "varied": "2"}, "", ["1,500", "3,000", "2", "1,500", "2,000"]),
])  # fmt: skip
def test_saved_tokens_are_shown_with_what_they_rest_on(changed, about, shown):
    text = " ".join(line.plain for line in saved_report(SAVED | changed, "cachesim advise x", about))
    assert re.search(".*".join(map(re.escape, [*shown, "cachesim advise x"])), text)


@pytest.mark.parametrize(("limit", "least"), [("TOKENS", 40), ("SENT", 2), ("ROUNDS", 5000 + 2 * (40 // module.PART))])
def test_a_case_is_too_slow_if_not_even_a_change_can_be_tried(monkeypatch, limit, least):
    """The unchanged case is run first."""
    line = RepairCase(case("A40>a2500" if limit == "ROUNDS" else "A40"))
    for value in (least - 1, least):
        monkeypatch.setattr(module, limit, value)
        saved = saved_tokens(line)
        assert (saved == {"too_slow": True}) is (value < least)
    *_, command = saved_report({"too_slow": True}, "cachesim advise x")
    assert command.plain.strip() == "cachesim advise x"


def test_with_room_for_few_changes_those_of_the_client_are_tried(monkeypatch, dated):
    """The best of all is not among them."""
    monkeypatch.setattr(module, "TOKENS", 550)
    saved = saved_tokens(RepairCase(case(DATED), excluded={"unchanged history"}))
    assert saved is None or (saved["client"] and saved["saved"] < dated[0][0]["saved"])


def test_a_client_change_that_does_not_apply_is_not_suggested(monkeypatch):
    excluded = {one.name for one in client_changes(engine_of(PROFILE).manual)}
    saved = saved_tokens(RepairCase(case("S40.A60/B80/S.C50/S.A.D5", "GA"), "x", (), "2 to 20 tokens", excluded))
    assert saved["saved"] and (saved["client"], saved["assumes"], saved["varied"]) == (False, "", "")
    monkeypatch.setattr(module, "ROUNDS", 20)                       # too few for the flag that saves most
    few = saved_tokens(RepairCase(case("S40.A60/B80/S.C50/S.A.D5", "GA"), excluded=excluded))
    assert few is None or few["saved"] < saved["saved"]
