"""Tests of ``next:``: valid commands, and the worst request."""

from __future__ import annotations

import shlex

import pytest

from cachesim.cli.main import main
from cachesim.judging.run_data import run_data
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.tools.run.arguments import CaseOptions
from cachesim.tools.run.suggestions import MOST, after_diff, after_fuzz, after_run, after_why, say_next, unchanged
from tests.unit.tools.run.made import BROKEN, judgement, run

LOST = (0, 3, "erased", "R.1", -1, "checkpoint")


def data(*requests, met=None):
    made = run(*requests)
    return made.scenario, {**run_data(made), "as_expected": met}


def number(*runs):
    return [words[2] for words in after_run(runs, ())]


def test_the_worst_request_is_one_that_no_file_expects():
    known = data(judgement(BROKEN), met=True)
    assert number(known) == ["0"]
    assert number(known, data(judgement(), judgement(BROKEN), met=False)) == ["1"]


def test_where_all_is_right_it_is_the_one_that_lost_most():
    assert number(data(judgement())) == []
    some, most = judgement(charges=[LOST]), judgement(charges=[(1, 2, *LOST[2:]), (1, 2, *LOST[2:])])
    assert number(data(some, most)) == ["1"]


def test_nothing_for_programs_and_with_q(capsys):
    for command in ("run A40/B50/A.C5", "why A40/B50/A.C5 2"):
        words = shlex.split(f"{command} -p mlx_lm --model A --prompt-cache-size 1 --provenance")
        assert main(words) == 0 and "next: " in capsys.readouterr().err
        for option in ("--json", "-q"):
            assert main([*words, option]) == 0 and "next: " not in capsys.readouterr().err


@pytest.mark.parametrize("argv", [
    ["run", "llama-one-token-checkpoint-hybrid", "--provenance"], ["why", "llama-24143-entry-removed-dense", "3", "-p",
     "llama_cpp@b10587"],
    ["why", "llama-one-token-checkpoint-hybrid", "2", "-p", "llama_cpp@b10587"],
    ["diff", "llama-24143-entry-removed-dense", "-p", "llama_cpp@b10587", "-p", "llama_cpp@pr24143-on-b10587"],
], ids=lambda argv: " ".join(argv[:2]))  # fmt: skip
@pytest.mark.long
def test_every_command_that_is_named_runs(capsys, argv):
    main(argv)
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("next: ")]
    for command in line.removeprefix("next: ").split("   or: "):
        words = shlex.split(command)
        assert words[0] == "cachesim" and main(words[1:]) in (0, 1), command
        assert capsys.readouterr().out


def test_a_line_is_quoted_for_the_shell(capsys):
    say_next([["why", "A4>r2/A", "1", "--model", "W8 A"]], is_quiet=False)
    assert capsys.readouterr().err == "next: cachesim why 'A4>r2/A' 1 --model 'W8 A'\n"


@pytest.mark.part(2)
@pytest.mark.parametrize(("case", "partner"), [
    (["mlx-929-no-snapshot-below-8192-hybrid", "1", "-p", "mlx_lm@pr923"], "mlx_lm@m1072"),
    (["llama-24143-unusable-entry-removed-hybrid", "3", "-p", "llama_cpp@b10587"], "llama_cpp@pr24143-on-b10587"),
])  # fmt: skip
def test_a_rule_set_of_the_main_branch_is_compared_first_then_a_proposal_for_this_one(capsys, case, partner):
    main(["why", *case])
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("next: cachesim diff ")]
    assert line.partition("   or: ")[0].endswith(f"-p {partner}")


@pytest.mark.part(3)
@pytest.mark.parametrize(("profile", "named"), [
    ("vllm@0.33.0", " -p vllm@0.33.0"), ("sglang@0.5.23", " -p sglang@0.5.23"), ("llama_cpp@b11549", ""),
])  # fmt: skip
def test_a_line_is_bisected_for_the_engine_that_ran_it(capsys, profile, named):
    line = "S40.A60/S.B9/S.A"
    assert main(["why", line, "1", "-p", profile, "--model", "GA"]) == 0
    [found] = [text for text in capsys.readouterr().err.splitlines() if text.startswith("next: ")]
    assert found.startswith(f"next: cachesim bisect {line}{named} --model GA   or: cachesim explain ")


def test_a_command_that_is_too_long_is_left_out(capsys):
    say_next([["x" * (MOST + 1)], ["y" * 3, "x" * (MOST - 3)], ["z"]], is_quiet=False)
    assert capsys.readouterr().err == f"next: cachesim yyy {'x' * (MOST - 3)}   or: cachesim z\n"
    say_next([["x" * (MOST + 1)]], is_quiet=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("model", "settings", "words"), [
    (None, [], ["A5"]), ("GA", [], []), (None, ["slots=2"], []), ("GA", ["slots=2"], []),
])  # fmt: skip
def test_a_case_is_named_as_typed_if_it_is_unchanged(model, settings, words):
    assert unchanged(["A5"], CaseOptions(model=model, settings=settings)) == words


def test_the_tokens_of_a_request_are_summed_and_the_first_of_equals_is_named():
    def charges(request, *tokens):
        return [(request, amount, *LOST[2:]) for amount in tokens]

    assert number(data(judgement(charges=charges(0, 3, 3)), judgement(charges=charges(1, 5)))) == ["0"]
    same = data(judgement(charges=charges(0, 3, 3))), data(judgement(), judgement(charges=charges(1, 6)))
    assert number(*same) == ["0"] and number(*reversed(same)) == ["1"]


def test_a_file_is_named_by_its_id_or_path_as_typed():
    name = "llama-lesson-attention"
    path = str(corpus_files()[name])
    one = load(corpus_files()[name])
    wrong = {**run_data(run(judgement(BROKEN))), "as_expected": None, "profile": one.profiles[0]}
    options = ["-p", one.profiles[0]]
    assert after_run([(one, wrong)], [name]) == [["why", name, "0", *options]]
    assert after_run([(one, wrong)], [path]) == [["why", path, "0", *options]]
    (words,) = after_run([(one, wrong)], [])
    assert words[:3] == ["why", words[1], "0"] and words[1] not in (name, path) and "--model" in words


def why_data(profile, *ranges, failure=None, decided=None):
    computed = [{"start": start, "stop": stop, "rule": rule, "survives": survives}
                for start, stop, rule, survives in ranges]  # fmt: skip
    return {"profile": profile, "computed": computed, "failure": failure, "decided": decided}


def suggested(*found, line="A10"):
    profile = found[0]["profile"]
    engine = profile.partition("@")[0]
    return after_why({engine: from_line(line, profiles=(profile,), model="A")}, found, [])


B9518, B10587 = "llama_cpp@b9518", "llama_cpp@b10587"
CASE = ["A10", "-p", B9518, "--model", "A"]


def test_the_longest_range_that_another_rule_set_reuses_is_compared():
    some, most = (0, 5, "R.1", ["llama_cpp@b8152"]), (5, 11, "R.2", [B10587])
    assert suggested(why_data(B9518, some, most)) == [["diff", *CASE, "-p", B10587], ["explain", "R.2"]]
    assert suggested(why_data(B9518, (0, 90, "", []), some)) == [
        ["diff", *CASE, "-p", "llama_cpp@b8152"], ["explain", "R.1"]]  # fmt: skip
    assert suggested(why_data(B9518, (0, 90, "", []))) == []
    assert suggested(why_data(B9518), why_data(B9518, some))[1] == ["explain", "R.1"]


def test_without_a_rule_set_that_reuses_more_the_line_is_bisected():
    one = why_data(B9518, (0, 5, "R.1", []))
    assert suggested(one) == [["bisect", "A10", "--model", "A"], ["explain", "R.1"]]
    failed = why_data(B9518, (0, 5, "R.1", [B10587]), failure={"rule": "R.9"})
    assert suggested(failed) == [["bisect", "A10", "--model", "A"], ["explain", "R.9"]]
    assert suggested(why_data(B9518, failure={"rule": ""})) == [["bisect", "A10", "--model", "A"]]
    assert suggested(why_data("vllm@0.33.0", (0, 5, "R.1", [])))[0] == [
        "bisect", "A10", "-p", "vllm@0.33.0", "--model", "A"]  # fmt: skip


def test_the_rule_of_a_cure_is_explained_unless_it_is_a_field():
    def explained(*cures):
        found = why_data(B9518, (0, 5, "R.1", []), decided={"cures": [{"rule": a, "field": b} for a, b in cures]})
        return suggested(found)[-1]

    assert explained(("R.5", "pick"), ("R.6", "pick")) == ["explain", "R.5"]
    assert explained(("slots", "slots"), ("R.6", "pick")) == explained() == ["explain", "R.1"]


@pytest.mark.parametrize(("survives", "partner"), [
    (["llama_cpp@b8152", B9518, B10587], B9518), (["llama_cpp@b8152", "llama_cpp@b8271", B10587], B10587),
    (["llama_cpp@b8152", "llama_cpp@b8271"], "llama_cpp@b8271"),
    (["llama_cpp@pr24143-on-b10587", "llama_cpp@pr24143-on-b9518"], "llama_cpp@pr24143-on-b9518"),
    (["llama_cpp@pr24143-on-b10587"], "llama_cpp@pr24143-on-b10587"),
])  # fmt: skip
def test_the_partner_is_the_next_rule_set_then_an_older_one_then_a_proposal(survives, partner):
    assert suggested(why_data(B9518, (0, 5, "R.1", survives)))[0][-1] == partner


def test_both_rules_of_the_first_difference_are_explained_once():
    first = {"a": {"rule": "R.1"}, "b": {"rule": "R.2"}}
    assert after_diff({"first": first}) == [["explain", "R.1"], ["explain", "R.2"]]
    assert after_diff({"first": {**first, "b": {"rule": "R.1"}}}) == [["explain", "R.1"]]
    assert after_diff({"first": None}) == []


def test_the_first_failure_of_a_search_is_shrunk_or_explained():
    failure = {"command": "cachesim run 'A5/A' -p p --model 'W8 A'", "shrunk": False, "step": 1}
    words = ["A5/A", "-p", "p", "--model", "W8 A"]
    assert after_fuzz({"failures": [{}, failure]}) == [["shrink", *words]]
    assert after_fuzz({"failures": [{**failure, "shrunk": True}, failure]}) == [["why", "A5/A", "1", *words[1:]]]
    assert after_fuzz({"failures": [{}]}) == after_fuzz({"failures": []}) == []


def test_a_request_that_evaluates_a_single_token_again_is_asked_for():
    assert number(data(judgement(), judgement(charges=[(1, 1, "erased", "R.1", 0, "checkpoint")]))) == ["1"]
    assert number(data(judgement(), judgement())) == []
