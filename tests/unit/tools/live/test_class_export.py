"""Exported tests for the classes of a released package (``tests/peers/exported_tests`` runs them there)."""

from __future__ import annotations

import ast
from shlex import split

import pytest

from cachesim.cli.main import main

CASE = "'A40>a8/A.a.B20>4/A.a.C9' --model GA --set prefix_match_unit=8"


def export(text, capsys):
    code = main(["export", *split(text)])
    said = capsys.readouterr()
    return code, said.out, said.err


def requests_of(program):
    """The requests of a program as it states them."""
    (rows,) = [node.value for node in ast.parse(program).body
               if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "REQUESTS"]  # fmt: skip
    return eval(compile(ast.Expression(rows), "program", "eval"))


@pytest.mark.parametrize(("profile", "reused"), [("vllm@0.31.0", [0, 40, 40]), ("vllm@0.33.0", [0, 32, 32])])
def test_a_program_states_what_its_rule_set_reuses(profile, reused, capsys):
    code, program, _ = export(f"{CASE} --to pytest -p {profile}", capsys)
    found = requests_of(program)
    assert code == 0 and [row[3] for row in found] == reused
    assert [len(row[0]) for row in found] == [40, 68, 57] and [len(row[1]) for row in found] == [8, 4, 1]


def test_an_issue_has_the_loss_and_the_test_that_fails_on_it(capsys):
    code, text, _ = export(f"{CASE} --to issue -p vllm@0.33.0", capsys)
    program = text.partition("```python\n")[2].partition("```")[0]
    assert code == 0 and "32 of 47 tokens reused" in text
    assert [row[3] for row in requests_of(program)] == [0, 40, 48]


@pytest.mark.parametrize(("given", "said"), [("0", "0"), ("-1", "None"), ("32", "32")])
def test_a_program_has_the_retention_interval_of_its_case(given, said, capsys):
    words = f"{CASE} --set prefix_cache_retention_interval={given} --to pytest -p vllm@0.33.0"
    code, program, _ = export(words, capsys)
    assert code == 0 and f"RETENTION = {said} " in program


def test_a_program_for_sglang_states_how_its_requests_are_sent(capsys):
    case = "'A15>a20{cancel_after=10}/A.a[:2].q3{together after=2 cache_salt=x}' --model GA --set page_size=4"
    code, program, _ = export(f"{case} --to pytest -p sglang@0.5.23", capsys)
    found = requests_of(program)
    assert code == 0 and [row[2:] for row in found] == [
        ({"cancel_after": 10}, 0), ({"after": 2, "cache_salt": "x"}, 0)]  # fmt: skip
    assert [len(row[0]) for row in found] == [15, 20] and [len(row[1]) for row in found] == [20, 1]
    assert "'page_size': 4," in program and "PARTS = ('FULL', 'MAMBA') " in program


@pytest.mark.parametrize(("name", "said"), [
    ("sglang-two-prompts-cut-in-one-step", "request 0 (from 0): its answer differs"),
    ("sglang-stripped-after-retraction", "request 1 (from 0): the server ends"),
])  # fmt: skip
def test_an_issue_about_a_fault_has_the_test_that_the_repaired_rules_pass(name, said, capsys):
    code, text, _ = export(f"{name} --to issue -p sglang@0.5.23", capsys)
    assert code == 0 and said in text
    assert "#### Test: fails on sglang@0.5.23, passes with sglang@0.5.23-repaired" in text
    assert "with those of sglang@0.5.23-repaired." in text


@pytest.mark.parametrize("case", [
    "sglang-two-prompts-cut-in-one-step --to pytest -p sglang@0.5.23",                # is answered wrongly
    "sglang-drafts-in-flight-share-a-slot --to issue -p sglang@0.5.23",               # no rule set repairs it
    "A40>a8{cancel_after=2}/A --to pytest -p sglang@0.5.23 --model A",
    "A40>a8/A --to pytest -p sglang@0.5.23 --model A --speculative-algorithm NGRAM",
    "vllm-checkpoint-column-hybrid --to issue -p vllm@0.33.0",                       # its test follows no contents
    "A40>a8/A.a.B20 --to issue -p vllm --model A",                                    # loses nothing
    "A40>a8/A.a.B20{lora=a} --to pytest -p vllm --model A",
    "A40/A --to pytest -p vllm --model A --set num_cpu_chunks=8",
    "A400/A --to pytest -p vllm --model A --max-model-len 40",                        # is not answered
])  # fmt: skip
def test_what_the_classes_cannot_show_is_refused(case, capsys):
    code, out, err = export(case, capsys)
    assert code == 2 and not out and err.startswith("cachesim: ")
