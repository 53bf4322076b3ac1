"""Tests of the state after each request, printed with -v."""

from __future__ import annotations

import pytest

from cachesim.base.console import as_text
from cachesim.engines.registry import present_name
from cachesim.judging.judged_run import run_judged
from cachesim.judging.recompute_reasons import what_happened
from cachesim.judging.run_data import run_data
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.run.run_table import MOST, run_report, state_lines

NOTHING = {"i": 0, "died": False, "slot_tokens": None, "checkpoints": [], "entries": 0, "stored_mib": None, "sizes": [],
           "preemptions": 0, "draft_memory": None, "uncounted": 0, "micro_batches": [], "shifts": [],
           "draft_n": 0, "draft_n_accepted": 0, "completions": 1, "id_slot": 0, "tokens_cached": 0}  # fmt: skip


def said(**fields):
    return [line.strip() for line in as_text(*state_lines([{**NOTHING, **fields}])).splitlines()]


def played(line, model="GGGA", **server):
    server = {"ctx_size": 256, "parallel": 1, "batch_size": 64, "ubatch_size": 16, **server}
    return run_data(run_judged(from_line(line, model=model, server=server), "llama_cpp@b11549", "provenance"))


def test_every_part_is_there_if_there_is_something():
    assert said() == []
    assert said(slot_tokens=1) == ["after request 0: slot 0 holds 1 token"]
    assert said(slot_tokens=1, checkpoints=[8, 13]) == ["after request 0: slot 0 holds 1 token; 2 checkpoints at 8, 13"]
    assert said(checkpoints=[8, 13]) == ["after request 0: 2 stored prefixes of 8, 13 tokens"]
    assert said(preemptions=2) == ["after request 0: 2 preemptions of running requests"]
    assert said(entries=1) == ["after request 0: prompt cache: 1 entry"]
    assert said(entries=2, stored_mib=0.5) == ["after request 0: prompt cache: 2 entries of 0.5 MiB"]
    assert said(shifts=[[255, 1, 127]]) == ["after request 0: context shift at 255: kept 1, dropped 127"]
    assert said(draft_n=5, draft_n_accepted=3) == ["after request 0: drafts: 3 of 5 tokens accepted"]
    assert said(completions=3) == ["after request 0: 3 completions"]
    assert said(slot_tokens=0, died=True) == []


def test_many_checkpoints_are_counted():
    line = " ".join(said(checkpoints=[*range(1, MOST + 2)], slot_tokens=20))
    assert line.startswith(f"after request 0: slot 0 holds 20 tokens; {MOST + 1} checkpoints at 1, 2,")
    assert line.endswith(f" {MOST}, ..")


def test_what_a_run_left_behind():
    data = played("A100/B80/A[:90]")
    one = data["requests"][1]
    assert one["checkpoints"] and one["entries"] == 1 and one["stored_mib"] > 0
    text, plain = as_text(run_report(data, verbose=1)), as_text(run_report(data))
    assert f"1 entry of {one['stored_mib']} MiB" in text and "slot 0 holds 80 tokens" in text
    assert "after request 1" not in plain


def test_shifts_of_a_full_context():
    (one,) = played("A250>20", model="A", context_shift=True)["requests"]
    assert one["shifts"] and f"context shift at {one['shifts'][0][0]}" in said(shifts=one["shifts"])[0]


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
