"""Tests of the tokens that a repair saves: the number is that of a run, and the work is bounded."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.advise import saved_tokens as module
from cachesim.tools.advise.client_changes import ClientChange
from cachesim.tools.advise.report import saved_report
from cachesim.tools.advise.saved_tokens import RepairCase, saved_tokens
from cachesim.tools.advise.search import AdviceSearch
from cachesim.tools.advise.setup_changes import ChangeKind, SetupChange

PROFILE = "llama_cpp@b11549"
DATED = "h30.d2.S400.|u20>a9/h.e2.S.|u.a.|v20>b9/h.f2.S.|u.a.|v.b.|w20"


def case(line, model="GGGA", **more):
    return from_line(line, model=model, profiles=(PROFILE,), server={"parallel": 1}, **more)


def test_the_number_is_that_of_a_run_with_the_change():
    saved = saved_tokens(RepairCase(case(DATED), excluded={"unchanged history"}))
    line = "h30.S400.|u20.d2>a9/h.S.|u.a.|v20.e2>b9/h.S.|u.a.|v.b.|w20.f2"
    last = AdviceSearch(module.Setup(case(line), PROFILE)).base
    assert saved["changes"][0] == "changing part last" and saved["client"]
    assert saved["evaluated"] - saved["saved"] == last.outcome.evaluated
    assert (saved["lowest"], saved["highest"]) == (saved["saved"], saved["saved"])


def test_variants_give_a_range():
    longer = case(DATED.replace("d2", "d20").replace("e2", "e20").replace("f2", "f20"))
    saved = saved_tokens(RepairCase(case(DATED), "x", (longer,), "2 to 20 tokens", {"unchanged history"}))
    assert saved["lowest"] < saved["highest"] == saved["saved"] and saved["assumes"] == "x"
    text = " ".join(line.plain for line in saved_report(saved, "x.log"))
    assert f"{saved['saved']:,} of {saved['evaluated']:,} evaluated tokens" in text and text.startswith("Simulated: ")
    assert f"holds only if x (2 to 20 tokens: {saved['lowest']:,} to {saved['highest']:,} saved)" in text


def test_nothing_is_said_if_nothing_is_saved():
    assert saved_tokens(RepairCase(case("A40>a2/A.a.B9"))) is None
    assert list(saved_report(None, "x.log")) == []


SAVED = {"too_slow": False, "client": True, "saved": 1500, "evaluated": 3000, "share": 0.5, "text": "client: send it",
         "profile": "p@1", "model": "GA", "assumes": "", "lowest": 1500, "highest": 1500, "varied": ""}  # fmt: skip


@pytest.mark.parametrize(("changed", "about", "first", "second"), [
    ({}, "", "another client would have saved 1,500 of 3,000 evaluated tokens (50%): send it", ""),
    ({"client": False, "text": "-np 2"}, "about ",
     "other flags would have saved about 1,500 of about 3,000 evaluated tokens (50%): -np 2", ""),
    ({"assumes": "x", "lowest": 1000, "varied": "2 to 9"}, "",
     "another client would have saved 1,500 of 3,000 evaluated tokens (50%): send it",
     "; holds only if x (2 to 9: 1,000 to 1,500 saved)"),
    ({"highest": 2000, "varied": "2"}, "", "another client would have saved 1,500 of 3,000 evaluated tokens (50%): "
                                           "send it", " (2: 1,500 to 2,000 saved)"),
])  # fmt: skip
def test_saved_tokens_are_two_sentences(changed, about, first, second):
    found = [(line.plain, line.style) for line in saved_report(SAVED | changed, "cachesim advise x", about)]
    assert found == [(f"Simulated: {first}.", "bold yellow"),
                     (f"Under p@1, model GA{second}. All suggestions: cachesim advise x", "dim")]  # fmt: skip


def test_a_case_that_is_too_slow_is_a_sentence():
    assert [line.plain for line in saved_report({"too_slow": True}, "cachesim advise x")] == [
        "Savings by another client or other flags are not computed here (too slow): cachesim advise x"]  # fmt: skip


@pytest.mark.parametrize(("limit", "value", "tries"), [
    ("TOKENS", 40 * 3, 3), ("TOKENS", 40, 1), ("TOKENS", 39, 0), ("SENT", 4, 3), ("SENT", 2, 1), ("SENT", 1, 0)])
def test_the_trials_are_bounded_by_what_they_send(monkeypatch, limit, value, tries):
    """The unchanged case is run first; it is one of the runs that send requests."""
    tried = []
    monkeypatch.setattr(module, limit, value)
    monkeypatch.setattr(AdviceSearch, "attempt", lambda self, changes: tried.append(len(changes)))
    assert saved_tokens(RepairCase(case("A40"))) == ({"too_slow": True} if not tries else None)
    assert tried == [1] * tries


def test_changes_of_the_client_are_tried_before_those_of_flags(monkeypatch):
    kinds = []
    monkeypatch.setattr(AdviceSearch, "attempt", lambda self, changes: kinds.extend(one.kind for one in changes))
    assert saved_tokens(RepairCase(case("A40/A.B4"))) is None
    assert kinds == sorted(kinds, reverse=True) and {*kinds} == {ChangeKind.FLAG, ChangeKind.CLIENT}


@pytest.mark.parametrize("made", [BadInput("cannot run"), {"saved": 0}, {"saved": -5}])
def test_a_case_that_cannot_run_or_whose_best_change_saves_nothing_says_nothing(monkeypatch, made):
    def best(*_):
        if isinstance(made, BadInput):
            raise made
        return made

    monkeypatch.setattr(AdviceSearch, "attempt", lambda self, _: None)
    monkeypatch.setattr(module, "choose_best", best)
    monkeypatch.setattr(module, "piece_data", lambda *_: made)
    assert saved_tokens(RepairCase(case("A40"))) is None


@pytest.mark.long
@pytest.mark.parametrize(("rounds", "played"), [(50, 0), (10**4, 3)])
def test_the_work_is_bounded_by_the_tokens_that_are_generated(monkeypatch, rounds, played):
    made = []
    monkeypatch.setattr(module, "ROUNDS", rounds)
    monkeypatch.setattr(AdviceSearch, "attempt", lambda self, _: made.append(self.found.append(self.base)))
    saved = saved_tokens(RepairCase(case("A40>a2500")))
    assert len(made) == played
    assert (saved == {"too_slow": True}) == (not played)
    if saved:
        assert "too slow" in next(saved_report(saved, "x.log")).plain


@pytest.mark.parametrize(("rounds", "tries"), [(2, 1), (3, 2), (4, 3)])
def test_each_trial_costs_as_much_as_the_unchanged_case(monkeypatch, rounds, tries):
    made = []
    monkeypatch.setattr(module, "ROUNDS", rounds)
    monkeypatch.setattr(AdviceSearch, "attempt", lambda self, _: made.append(self.found.append(self.base)))
    saved_tokens(RepairCase(case("A40>1")))
    assert len(made) == tries


@pytest.mark.parametrize(("rounds", "is_too_slow"), [(5000, False), (4999, True)])
def test_a_case_is_too_slow_if_not_even_two_runs_are_allowed(monkeypatch, rounds, is_too_slow):
    line = "A40>a2500"
    cost = 2500 + 40 // module.PART
    monkeypatch.setattr(module, "ROUNDS", rounds + 2 * (cost - 2500))
    monkeypatch.setattr(AdviceSearch, "attempt", lambda self, _: self.found.append(self.base))
    assert (saved_tokens(RepairCase(case(line))) == {"too_slow": True}) is is_too_slow


def flags(**options):
    return SetupChange(ChangeKind.FLAG, options=options)


def other_client(name, **options):
    return SetupChange(ChangeKind.CLIENT, options=options, client=ClientChange(name, name, lambda line: None))


@pytest.mark.parametrize(("change", "applies"), [
    (flags(parallel=2), True), (other_client("a"), True), (other_client("b"), False),
    (other_client("a", parallel=2), False),
    (SetupChange(ChangeKind.BUILD, profile="x"), False), (SetupChange(ChangeKind.PROPOSAL, profile="x"), False),
])  # fmt: skip
def test_flags_and_client_changes_that_are_not_excluded_apply(change, applies):
    assert module._applies(RepairCase(case("A5"), excluded={"b"}), change) is applies


def test_a_variant_is_run_with_and_without_all_changes(monkeypatch):
    tried = []

    def run(setup):
        tried.append(setup)
        return SimpleNamespace(outcome=SimpleNamespace(evaluated=100 - 10 * len(setup.scenario.server)))

    monkeypatch.setattr(module, "run_trial", run)
    scenario = case("A5/A")
    both = SimpleNamespace(changes=(flags(cache_ram=0), flags(kv_unified=True)))
    assert module._saved(scenario, both) == 20
    assert [one.scenario.server for one in tried] == [
        {"parallel": 1}, {"parallel": 1, "cache_ram": 0, "kv_unified": True}]  # fmt: skip
    none = SimpleNamespace(changes=(other_client("a"), flags(cache_ram=0)))
    assert module._saved(scenario, none) == 0 and len(tried) == 2
