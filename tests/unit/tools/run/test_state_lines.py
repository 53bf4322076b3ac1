"""Tests of the state after each request, printed with -v."""

from __future__ import annotations

import pytest

from cachesim.base.console import as_text
from cachesim.engines.registry import present_name
from cachesim.judging.judged_run import run_judged
from cachesim.judging.recompute_reasons import what_happened
from cachesim.judging.run_data import run_data
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.run.run_table import run_report


def played(line, model="GGGA", **server):
    server = {"ctx_size": 256, "parallel": 1, "batch_size": 64, "ubatch_size": 16, **server}
    return run_data(run_judged(from_line(line, model=model, server=server), "llama_cpp@b11549", "provenance"))


def test_what_a_run_left_behind():
    data = played("A100/B80/A[:90]")
    one = data["requests"][1]
    assert one["checkpoints"] and one["entries"] == 1 and one["stored_mib"] > 0
    text, plain = as_text(run_report(data, verbose=1)), as_text(run_report(data))
    assert f"1 entry of {one['stored_mib']} MiB" in text and "slot 0 holds 80 tokens" in text
    assert "after request 1" not in plain


@pytest.mark.parametrize(("engine", "pool"), [
    ("vllm", {"num_gpu_blocks": 22, "block_size": 8}), ("sglang", {"max_total_tokens": 200, "new_token_ratio": 0.0}),
])  # fmt: skip
def test_two_answers_that_do_not_fit_together_cost_a_preemption(engine, pool):
    profile = present_name(engine)
    scenario = from_line("A60>60/B60>60{together}", model="AAAA", profiles=(profile,), server=pool)
    data = run_data(run_judged(scenario, profile, "provenance"))
    assert sum(one["preemptions"] for one in data["requests"]) >= 1
    text = as_text(run_report(data, verbose=1))
    assert "of running requests" in text and "checkpoint" not in text and "slot" not in text.replace("kept in slot", "")


def test_a_reset_clears_the_cache_of_an_engine_without_slots():
    assert (what_happened("cleared", "block"), what_happened("cleared", "slot")) == ("cache cleared", "slot cleared")
