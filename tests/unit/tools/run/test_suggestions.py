"""Tests of ``next:``: valid commands, and the worst request."""

from __future__ import annotations

import shlex
from argparse import Namespace

import pytest

from cachesim.cli.main import main
from cachesim.judging.run_data import run_data
from cachesim.tools.run.suggestions import after_run, say_next
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


@pytest.mark.parametrize("more", [{"json": True}, {"quiet": True}])
def test_nothing_for_programs_and_with_q(capsys, more):
    say_next(Namespace(**{"json": False, **more}), [["why", "x"]])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("argv", [
    ["run", "llama-one-token-checkpoint-hybrid", "--provenance"], ["why", "llama-24143-entry-removed-dense", "3", "-p",
     "llama_cpp@b10587"],
    pytest.param(["why", "llama-one-token-checkpoint-hybrid", "2", "-p", "llama_cpp@b10587"], marks=pytest.mark.long),
    ["diff", "llama-24143-entry-removed-dense", "-p", "llama_cpp@b10587", "-p", "llama_cpp@pr24143-on-b10587"],
], ids=lambda argv: " ".join(argv[:2]))  # fmt: skip
@pytest.mark.part(4)
def test_every_command_that_is_named_runs(capsys, argv):
    main(argv)
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("next: ")]
    for command in line.removeprefix("next: ").split("   or: "):
        words = shlex.split(command)
        assert words[0] == "cachesim" and main(words[1:]) in (0, 1), command
        assert capsys.readouterr().out


def test_a_line_is_quoted_for_the_shell(capsys):
    say_next(Namespace(json=False), [["why", "A4>r2/A", "1", "--model", "W8 A"]])
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
