"""Tests of the report of ``why``: verdict and sources of the tokens."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cachesim.base import exits
from cachesim.base.console import ProgressBar
from cachesim.cli.main import main
from cachesim.engines.rule import Role
from cachesim.judging.evidence import Grade
from cachesim.judging.foreign_reads import ForeignContent
from cachesim.judging.run_data import why_data
from cachesim.judging.verdict import CORRECT
from cachesim.tools.run.why_report import _decisions, _ranges, _reasons, _tokens, reasons_report
from tests.unit.tools.run.made import BROKEN, UNDECIDED, judgement, run, shown, why_report
from tests.unit.tools.table_columns import columns


def told(*requests, number=0, others=(), **more):
    return why_data(run(*requests, **more), number, others)


@pytest.mark.parametrize(("answer", "state", "wrong", "what"), [
    (BROKEN, CORRECT, True, "wrong answer"), (CORRECT, BROKEN, False, "corrupt state left behind"),
    (BROKEN, BROKEN, True, "wrong answer"), (CORRECT, CORRECT, False, "correct answer"),
    (UNDECIDED, CORRECT, False, "undecided"),
])  # fmt: skip
def test_an_answer_and_what_it_left_behind_are_told_apart_and_first(answer, state, wrong, what):
    data = told(judgement(answer, state))
    assert data["output_wrong"] is wrong
    assert shown(why_report(data))[1] == f"{what}, 0 tokens re-evaluated"


def test_the_verdict_has_the_answer_and_the_cost():
    one = judgement(cache_n=2, prompt_n=8, charges=[(0, 4, "erased", "R.1", 0, "checkpoint")])
    assert shown(why_report(told(one)))[1] == "correct answer, 4 tokens re-evaluated"


def test_rule_sets_with_equal_outcomes_share_a_block_and_the_title_stands_once():
    one = {**told(judgement()), "scenario": "a", "title": "the title", "why": "a reason"}
    same, other = {**one, "profile": "llama_cpp@b1"}, {**one, "profile": "llama_cpp@b2", "kept": 1}
    lines = shown(why_report(one, other, same))
    assert lines[:3] == ["a request 0 A", f"{one['profile']} (same under b1)", "correct answer, 0 tokens re-evaluated"]
    assert lines.index("the title") + 1 == lines.index("a reason")
    assert lines.count("the title") == 1 and lines.count("correct answer, 0 tokens re-evaluated") == 2
    assert "llama_cpp@b2" in lines
    assert shown(why_report(one, same))[0].endswith(f"{one['profile']} (same under b1)")


def test_decisions_without_an_effect_are_counted_until_all_are_wanted():
    step = {"rule": "R.1", "role": "pick", "says": "does", "value": 1, "because": {}, "grade": None}
    data = {**told(judgement()), "decisions": [{**step, "dull": False}, {**step, "says": "nothing", "dull": True}]}
    assert shown(why_report(data))[-2:] == ["R.1  does", "1 more decision (-v)"]
    assert shown(why_report(data, verbose=1))[-2:] == ["R.1  does", "R.1  nothing"]


def test_what_was_read_instead_follows_the_verdict():
    data = told(judgement(), judgement(BROKEN), number=1, reads={1: [ForeignContent("rows", 0, 7, 9, 0, 7)]})
    assert "it reads K/V rows 7..8 of tokens 7..8 of request 0 in place of its own" in shown(why_report(data))[2:4]


@pytest.mark.parametrize(("cache_n", "text"), [
    (9, "at most 8 reusable with a correct answer; 9 evaluated before"), (8, "at most 8 reusable; 9 evaluated before"),
])  # fmt: skip
def test_a_wrong_answer_may_reuse_more_than_a_correct_one_could(cache_n, text):
    assert text in shown(why_report(told(judgement(BROKEN, cache_n=cache_n, prompt_n=10 - cache_n))))


def test_a_known_bug_is_said_to_be_one():
    data = {**told(judgement(BROKEN)), "known_bug": True}
    assert shown(why_report(data))[1].endswith("(known bug, as expected)")


@pytest.mark.parametrize("fields", [{"refused": True}, {"died": True}, {"refused": True, "died": True}])
def test_a_request_that_is_refused_or_ends_the_server_has_no_tokens(fields):
    data = told(judgement())
    assert [line for line in shown(_reasons(data, 0)) if "new tokens" in line] == ["0..9  new tokens"]
    assert shown(_reasons({**data, **fields}, 0)) == ["no decisions with an effect"]


def test_title_and_reasons_of_a_scenario_and_of_a_request():
    data = {**told(judgement()), "scenario": "a", "title": "the title", "why": "a reason", "request_why": "another"}
    lines = shown(why_report(data))
    assert lines[1:5] == ["correct answer, 0 tokens re-evaluated", "the title", "a reason", "another"]


def test_the_doubt_is_that_of_this_request():
    assert told(judgement(UNDECIDED), judgement(UNDECIDED), unsettled=[1])["doubt"] == ""
    assert "other outcomes are possible here" not in shown(why_report(told(judgement(UNDECIDED))))
    data = {**told(judgement(UNDECIDED), unsettled=[0]), "doubt": "why"}
    assert "other outcomes are possible here" in shown(why_report(data))


def test_the_client_that_received_the_refusal():
    refused = [judgement(UNDECIDED, refused=True), judgement(UNDECIDED, refused=True)]
    assert [told(*refused, number=i, told=[1])["told"] for i in (0, 1)] == [False, True]


def test_every_range_of_evaluated_tokens_has_its_first_and_last():
    one = judgement(cache_n=2, prompt_n=8, charges=[(0, 4, "erased", "R.1", 0, "checkpoint")])
    lines = shown(why_report(told(one, others=[("llama_cpp@other", 6)])))
    assert "10 tokens = 2 kept + 0 restored + 0 loaded + 8 evaluated (LCP 0, 2 moved)" in lines
    assert "2..5  checkpoint erased (at request 0, R.1)" in lines
    assert "reused under llama_cpp@other" in lines
    assert "6..9  new tokens" in lines
    assert "at most 8 reusable; 9 evaluated before" in lines


LOSS = "A60/B60/A", "2", "--model", "A", "--set", "parallel=1", "--set", "cache_ram=0"


def test_the_answer_is_printed_before_the_search(capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("cachesim.judging.request_cost.observed_runs", interrupted)
    assert main(["why", *LOSS]) == exits.INTERRUPTED
    out, err = capsys.readouterr()
    assert out.splitlines()[1] == "correct answer, 59 tokens re-evaluated" and "kept" not in out
    assert "interrupted" in err


def test_the_search_names_what_it_does(monkeypatch):
    shown = []
    monkeypatch.setattr(ProgressBar, "show", lambda self, what, done=0, total=None: shown.append((what, done, total)))
    assert main(["why", *LOSS, "-q"]) == exits.HOLDS
    steps = {what for what, _, _ in shown}
    assert steps == {"comparing versions", "exchanging rules"}
    assert all(0 <= done < total for _, done, total in shown)


STEP = {"rule": "R.1", "role": Role.PICK, "value": 1, "says": "it is picked", "grade": "seen", "dull": False}


def decisions(*steps, verbose=0):
    return shown(_decisions({"decisions": [{**STEP, **step} for step in steps]}, verbose))


@pytest.mark.parametrize(("steps", "verbose", "found"), [
    ([], 0, ["no decisions with an effect"]), ([{}], 0, ["R.1 it is picked"]),
    ([{"grade": Grade.READ}, {"grade": Grade.OURS}], 0, ["R.1 it is picked [read]", "R.1 it is picked [ours]"]),
    ([{"dull": True}], 0, ["no decisions with an effect", "1 more decision (-v)"]),
    ([{"dull": True}], 1, ["R.1 it is picked"]),
    ([{"role": Role.CREATE}], 0, ["R.1 it is picked"]),
    ([{"role": Role.ENABLE, "value": 0, "says": "off"}, {"role": Role.CREATE}, {}], 0,
     ["R.1 it is picked", "2 more decisions (-v)"]),
    ([{"role": Role.ENABLE, "value": 1, "says": "on"}, {"role": Role.CREATE}], 0,
     ["R.1 it is picked", "1 more decision (-v)"]),
])  # fmt: skip
def test_decisions_without_effect_are_counted_only(steps, verbose, found):
    """Decisions about checkpoints have none where checkpoints are disabled."""
    assert [" ".join(line.split()) for line in decisions(*steps, verbose=verbose)] == found


TOKENS = {"kept": 3, "restored": 0, "loaded": 1, "prompt_n": 6, "reason": "", "cache_n": 4, "prompt": 10, "best": 0,
          "held": 4}  # fmt: skip


@pytest.mark.parametrize(("fields", "found"), [
    ({}, ["10 tokens = 3 kept + 0 restored + 1 loaded + 6 evaluated"]),
    ({"reason": "it extends"}, ["10 tokens = 3 kept + 0 restored + 1 loaded + 6 evaluated (it extends)"]),
    ({"prompt_n": 5}, ["9 of 10 tokens = 3 kept + 0 restored + 1 loaded + 5 evaluated"]),
    ({"prompt_n": 7}, ["10 tokens, some more than once: 3 kept + 0 restored + 1 loaded + 7 evaluated =",
                       "11"]),
    ({"best": 8}, ["10 tokens = 3 kept + 0 restored + 1 loaded + 6 evaluated",
                   "at most 4 reusable; 8 evaluated before"]),
    ({"best": 8, "held": 3}, ["10 tokens = 3 kept + 0 restored + 1 loaded + 6 evaluated",
                              "at most 3 reusable with a correct answer; 8 evaluated before"]),
])  # fmt: skip
def test_the_prompt_is_the_sum_of_its_sources(fields, found):
    assert shown(_tokens({**TOKENS, **fields})) == found


def test_a_report_has_the_answer_then_the_reasons_and_no_empty_line():
    right, wrong = told(judgement(prompt_n=10)), told(judgement(BROKEN, prompt_n=10))
    head = f"try request 0 A  {right['profile']}"
    tokens = ["10 tokens = 0 kept + 0 restored + 0 loaded + 10 evaluated", "at most 8 reusable; 9 evaluated before",
              "0..9  new tokens"]  # fmt: skip
    assert shown(why_report({**right, "unused": None})) == [
        head, "correct answer, 0 tokens re-evaluated", *tokens, "no decisions with an effect"]  # fmt: skip
    wrong = {**wrong, "failure": None, "unused": [], "fault": "it differs", "rung": "rows", "predicted": []}
    assert shown(why_report(wrong)) == [
        head, "wrong answer, 0 tokens re-evaluated", "it differs", *tokens,
        "when the request came, no restore point shared more tokens with it than it", "reused",
        "no decisions with an effect"]  # fmt: skip
    for rung, mark in {"bits": " [bits]", "argmax": " [argmax]", "": ""}.items():
        assert shown(why_report({**wrong, "rung": rung}))[2] == f"it differs{mark}"


def test_the_id_of_a_rule_is_never_wrapped_and_its_sentence_keeps_its_column():
    step = {**STEP, "rule": "R." + "x" * 40, "says": "it is picked because of these many words"}
    assert decisions(step, {**step, "says": "short"}) == [
        f"{step['rule']}  it is picked because of these many", "words", f"{step['rule']}  short"]  # fmt: skip
    console = Console(width=80, file=io.StringIO(), force_terminal=True, color_system="standard", no_color=False)
    console.print(_decisions({"decisions": [STEP]}, 0))
    assert "\x1b[2mR.1\x1b[0m" in console.file.getvalue()


def test_rules_are_never_wrapped_and_positions_are_aligned():
    step = {"role": Role.CREATE, "value": 1, "dull": False, "grade": Grade.READ, "rule": "R.1", "says": "cut"}
    (table,) = _decisions({"decisions": [step]}, 0).renderables
    assert columns(table) == [("", "whole"), ("", "text")] and table.columns[0].style == "dim"
    assert not table.show_header
    table = _ranges([{"at": 2, "rule": "R.1", "why": "gone", "start": 3, "stop": 9, "survives": ["a@1"]},
                     {"at": -1, "rule": "", "why": "new", "start": 9, "stop": 12, "survives": []}])  # fmt: skip
    assert columns(table) == [("", "number"), ("", "text")] and not table.show_header
    assert [[*map(str, column.cells)] for column in table.columns] == [
        ["3..8", "", "9..11"], ["gone (at request 2, R.1)", "reused under a@1", "new"]]  # fmt: skip
    assert [cell.style for cell in table.columns[1].cells] == ["yellow", "dim", "dim"]


def test_decisions_without_an_effect_are_left_out_by_default():
    step = {**STEP, "dull": True}
    data = {**told(judgement()), "decisions": [step]}
    assert shown(reasons_report([data], [data], verbose=0))[-1] == "1 more decision (-v)"
    assert shown(reasons_report([data], [data], 1))[-1].split() == ["R.1", "it", "is", "picked"]
