"""Tests of the fields of the data of a run."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from cachesim.engines.base import Answer
from cachesim.engines.inspection import StoredObject
from cachesim.engines.registry import engine_named
from cachesim.engines.rule import Role
from cachesim.engines.shared.slot_events import PcState
from cachesim.events import Aborted, Decided, Lost
from cachesim.judging.fault_kinds import FaultKind
from cachesim.judging.judged_run import ExpectationMismatch, run_judged
from cachesim.judging.judgement import SlotAtLaunch
from cachesim.judging.run_data import not_summed, preemptions, run_data, stored_mib
from cachesim.judging.verdict import undecided
from cachesim.judging.why_data import answer_data
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.scenarios.schema import Action, Expect, Lives
from tests.shared import altered
from tests.unit.tools.run.made import BROKEN, HEAD, UNDECIDED, judgement, run


def test_every_count_of_a_request_is_its_own():
    one = judgement(cache_n=4, prompt_n=6, tokens_cached=13, id_slot=2, predicted_n=5, draft_n=8, draft_n_accepted=3,
                    deciding="R.1")  # fmt: skip
    (data,) = run_data(run(one))["requests"]
    wanted = {
        "prompt": 10, "kept": 4, "restored": 0, "computed": 6, "cache_n": 4, "prompt_n": 6, "tokens_cached": 13,
        "id_slot": 2, "draft_n": 8, "draft_n_accepted": 3, "rule": "R.1", "checkpoints": [4, 7], "entries": 2,
        "best": 9, "held": 8, "completions": 1, "i": 0,
    }  # fmt: skip
    assert {name: data[name] for name in wanted} == wanted


def test_what_came_back_was_not_kept():
    (data,) = run_data(run(judgement(cache_n=4, prompt_n=6, source="checkpoint")))["requests"]
    assert (data["kept"], data["restored"], data["computed"]) == (0, 4, 6)


def test_who_is_broken_refused_and_told():
    made = run(judgement(), judgement(BROKEN), judgement(UNDECIDED, refused=True), judgement(UNDECIDED, refused=True),
               told=[3])  # fmt: skip
    data = run_data(made)
    assert (data["holds"], data["broken"], data["refused"], data["told"]) == (False, [1], [2, 3], [3])
    assert [one["equal_cold"] for one in data["requests"]] == [True, False, None, None]
    assert [one["rung"] for one in data["requests"]] == ["", "bits", "", ""]


def test_a_file_without_expectations_is_neither_met_nor_missed():
    assert run_data(run(judgement()))["as_expected"] is None


def test_what_was_lost_and_what_is_armed_have_their_request():
    stored = StoredObject("entry", 1, tuple(range(7)), 7, (), None)
    first = judgement(charges=[(0, 3, "erased", "R.1", -1, "checkpoint")])
    second = judgement(charges=[(1, 2, "evicted", "R.2", 0, "entry")], armed=[(stored, BROKEN)])
    data = run_data(run(first, second))
    assert [(one["request"], one["tokens"], one["rule"], one["at"]) for one in data["lost"]] == [
        (0, 3, "R.1", -1), (1, 2, "R.2", 0),
    ]  # fmt: skip
    assert [(one["request"], one["kind"], one["owner"], one["tokens"]) for one in data["armed"]] == [(1, "entry", 1, 7)]


@pytest.mark.parametrize(("profile", "n"), [("llama_cpp@b10587", 1), ("llama_cpp@pr24143-on-b10587", 0)])
def test_a_proposal_is_none_of_the_versions_in_which_a_bug_exists(profile, n):
    run = run_judged(load(corpus_files()["llama-24143-unusable-entry-removed-hybrid"]), profile, "provenance")
    assert len(run_data(run)["lives"]) == n


def changed(made, step=0, **fields):
    """Return a run with other fields of a step of its scenario."""
    steps = list(made.scenario.steps)
    steps[step] = altered(steps[step], **fields)
    made.scenario = replace(made.scenario, steps=tuple(steps))
    return made


@pytest.mark.parametrize(("mismatches", "as_expected"), [
    ([], True), ([ExpectationMismatch(0, "cache_n", 1, 0)], False),
])  # fmt: skip
def test_a_run_without_a_mismatch_is_as_expected(mismatches, as_expected):
    made = run(judgement(), wrong=mismatches)
    made.scenario = replace(made.scenario, expect={HEAD: Expect()})
    assert run_data(made)["as_expected"] is as_expected


def test_a_fault_lives_to_its_last_version_or_to_the_newest():
    made = run(judgement())
    made.scenario = replace(made.scenario, lives=(Lives(0, "b8000", "b9000"), Lives(0, "b8000", "")))
    newest = engine_named("llama_cpp").line[-1]
    assert run_data(made)["lives"] == [
        {"request": 0, "first": "b8000", "last": "b9000", "in_newest": False},
        {"request": 0, "first": "b8000", "last": newest, "in_newest": True},
    ]


@pytest.mark.parametrize(("fields", "reason"), [
    ({"prompt_n": 6}, ""),
    ({"prompt_n": 6, "status": 500}, ""),
    ({"prompt_n": 5, "status": 500}, "error"),
    ({"prompt_n": 5, "died": True}, "died"),
    ({"prompt_n": 5, "died": True, "status": 500}, "died"),
    ({"prompt_n": 5, "cancelled": True}, "cancelled"),
    ({"prompt_n": 5, "done": False}, "not answered"),
    ({"prompt_n": 4, "prompt": (1,) * 8}, "shortened"),
    ({"prompt_n": 9, "prompt": (1,) * 13}, "system prompt"),
    ({"prompt_n": 7}, "begun again"),
    ({"prompt_n": 7, "repeated_n": 1}, "counted twice"),
    ({"prompt_n": 5}, "unknown"),
])  # fmt: skip
def test_why_the_parts_of_a_prompt_do_not_add_up(fields, reason):
    """Four of ten tokens were kept."""
    one = judgement(cache_n=4)
    one.answer = replace(one.answer, **fields)
    assert not_summed(one) == reason


def test_an_action_is_no_completion_and_an_answer_has_its_children():
    one = judgement(children=[Answer(0), Answer(0)])
    assert run_data(run(one))["requests"][0]["completions"] == 3
    (data,) = run_data(changed(run(judgement()), action=Action("save", 0, "a")))["requests"]
    assert (data["completions"], data["reason"], data["how"]) == (0, "save", "save")


def test_requests_sent_together_say_so():
    data = run_data(changed(run(judgement(), judgement()), step=1, together=True))
    assert [one["how"] for one in data["requests"]] == ["completion", "together"]


def test_the_slot_at_the_launch_is_that_of_the_request():
    launched, waiting = judgement(), judgement()
    launched.slot = SlotAtLaunch(held=9, lcp=3)
    data = run_data(run(launched, waiting))["requests"]
    assert [(one["slot_held"], one["lcp"], one["reason"]) for one in data] == [
        (9, 3, "LCP 3, nothing reused"), (None, None, ""),
    ]  # fmt: skip


@pytest.mark.parametrize(("together", "reason"), [(False, "no cached prefix"), (True, "nothing reused")])
def test_only_a_request_that_was_alone_is_known_to_have_no_prefix(together, reason):
    first, last = judgement(), judgement()
    last.slot, last.ledger = SlotAtLaunch(held=0, lcp=0), last.ledger._replace(best=0)
    made = run(first, last, profile="vllm@0.33.0")
    made.scenario = replace(made.scenario, engine="vllm")
    assert run_data(changed(made, step=1, together=together))["requests"][1]["reason"] == reason


def test_an_answer_is_wrong_itself_or_leaves_a_wrong_state():
    data = run_data(run(judgement(BROKEN), judgement(state=BROKEN)))["requests"]
    assert [(one["output_wrong"], one["verdict"]) for one in data] == [(True, "WRONG OUTPUT"), (False, "CORRUPT STATE")]


def test_only_conversations_that_a_load_removed_are_consumed():
    made = run(judgement())
    made.log.events += [
        Lost(0, ("entry", 0, 1), "consumed", "R"), Lost(0, ("entry", 0, 2), "evicted", "R"),
        Lost(0, ("entry", 0, 3), "evicted", "R"), Lost(0, ("checkpoint", 0, 4), "consumed", "R"),
        Lost(0, ("slot", 0, 5), "consumed", "R"), Aborted("assertion"),
    ]  # fmt: skip
    assert run_data(made)["requests"][0]["entries_consumed"] == 1


def test_preemptions_are_decisions_of_their_rules():
    events = [Decided(None, "VL-SCHED-PREEMPT", 1, {}), Decided(0, "LC-NPAST-ONE", 1, {}),
              Decided(0, "LC-NPAST-LCP", 1, {}), Aborted("assertion")]  # fmt: skip
    assert [preemptions(events), preemptions(events[1:])] == [1, 0]


def test_the_size_of_the_prompt_cache_is_that_of_its_last_update():
    first, last = (PcState(1, size, 8192.0, 1024, 1024) for size in (1.5, 2.5))
    assert stored_mib([first, last, Aborted("assertion")]) == 2.5
    assert stored_mib([Aborted("assertion")]) is None


@pytest.mark.parametrize(("number", "wrong"), [(1, False), (2, True), (3, True)])
def test_the_failure_is_that_of_the_request_and_of_the_run_that_of_the_first(number, wrong):
    made = run_judged(load(corpus_files()["llama-one-token-checkpoint-hybrid"]), HEAD, "provenance")
    why = answer_data(made, number)
    assert (why["equal_cold"], why["known_bug"], why["told"]) == (not wrong, wrong, False)
    assert (why["failure"] or {}).get("request") == (number if wrong else None)
    assert run_data(made)["failure"]["request"] == 2
    made.reader = None
    assert run_data(made)["failure"] is None


def test_without_expectations_no_bug_is_known():
    assert answer_data(run(judgement(BROKEN)), 0)["known_bug"] is False


def test_a_refused_request_whose_status_the_file_expects_was_told():
    made = run(judgement(UNDECIDED, refused=True), judgement(UNDECIDED, refused=True), told=[1])
    assert [answer_data(made, number)["told"] for number in (0, 1)] == [False, True]


def test_only_a_request_that_depends_on_unwritten_numbers_is_in_doubt():
    doubt = undecided(FaultKind.UNWRITTEN, cases="cache_n 1 or 2")
    made = run(judgement(doubt), judgement(doubt), unsettled=[1])
    assert [answer_data(made, number)["doubt"] for number in (0, 1)] == [
        "", "depends on an uninitialised value of the server: cache_n 1 or 2",
    ]  # fmt: skip


def test_decisions_have_a_sentence_and_their_values_as_json_can_hold_them():
    made = run(judgement())
    because = {"n_past": 4, "n_tokens": 10, "nested": ((1, (2,)), 0.5, True, None, "text"), "other": Fraction(1, 2)}
    made.log.events += [
        Decided(0, "LC-NPAST-ONE", 4, because),
        Decided(0, "LC-NPAST-LCP", 3, {"lcp": 3, "cache_prompt": True}),
        Lost(0, ("slot", 0, 0), "erased", ""),
        Aborted("assertion"),
    ]
    quiet, loud, end = answer_data(made, 0)["decisions"]
    assert (quiet["says"], quiet["dull"], quiet["value"]) == ("n_past = 4 of 10", True, 4)
    assert quiet["because"] == {**because, "nested": [[1, [2]], 0.5, True, None, "text"], "other": "1/2"}
    assert (loud["says"], loud["dull"]) == ("n_past = 3 (common prefix of slot and prompt)", False)
    assert (loud["role"], loud["grade"]) == (Role.PREFIX, "recorded")
    assert end == {
        "rule": "", "role": None, "says": "the server stops: assertion", "dull": False, "value": None, "because": {},
        "grade": None,
    }  # fmt: skip


def test_the_grade_of_a_decision_is_that_of_its_case():
    """The last token of a generation was recorded, another one was only read."""
    made = run_judged(from_line("A4>2"), HEAD, "provenance")
    ends = [one for one in answer_data(made, 0)["decisions"] if one["rule"] == "LC-END"]
    assert [(one["value"], one["grade"]) for one in ends] == [(["", False], "read"), (["limit", False], "recorded")]
