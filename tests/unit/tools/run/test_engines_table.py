"""Table of a conversation under several engines."""

from __future__ import annotations

from cachesim.base.console import as_text
from cachesim.tools.run.engines_table import engines_report, reuse_table


def request(i, prompt, kept=0, restored=0, loaded=0, verdict="OK", text="S.A"):
    return {"i": i, "text": text, "prompt": prompt, "kept": kept, "restored": restored, "loaded": loaded,
            "computed": prompt - kept - restored - loaded, "verdict": verdict}  # fmt: skip


def run(profile, *requests, broken=()):
    return {"profile": profile, "requests": list(requests), "broken": list(broken)}


def lines(report):
    return [line.rstrip() for line in as_text(report).splitlines()]


def test_the_engine_that_reuses_most_comes_first_a_wrong_one_and_a_part_last():
    first = request(0, 100)
    less = run("vllm@1", first, request(1, 120, 80))
    most = run("sglang@1", first, request(1, 120, 40, 30, 20))
    wrong = run("mlx_lm@1", first, request(1, 120, 110, verdict="WRONG"), broken=[1])
    part = run("ik_llama@1", request(0, 100, 99))
    assert lines(reuse_table([part, wrong, less, most])) == [
        "reused of 220 prompt tokens, by request",
        "# request prompt sglang vllm    mlx_lm ik_llama",
        "0 S.A        100      0    0         0       99",
        "1 S.A        120     90   80 110 WRONG  not run",
        "  all        220     90   80       110       99"]  # fmt: skip


def test_rule_sets_of_one_engine_have_their_names_and_equal_ones_their_order():
    one = request(0, 1)
    found = lines(reuse_table([run("vllm@2", one), run("vllm@1", one), run("mlx_lm@1", one)], is_estimated=True))
    assert found[:2] == ["reused of 1 prompt token, by request (tokens are estimated)",
                         "# request prompt mlx_lm vllm@1 vllm@2"]  # fmt: skip


def test_conversations_of_one_engine_have_no_table():
    one, two = run("vllm@1", request(0, 5)), run("mlx_lm@1", request(0, 5))
    assert engines_report([[one, one]]) is None and engines_report([]) is None
    found = lines(engines_report([[one, one], [one, two], [two, one]]))
    assert found.count("reused of 5 prompt tokens, by request") == 2
