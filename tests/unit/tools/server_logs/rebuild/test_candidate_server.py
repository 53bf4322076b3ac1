"""Simulated server for candidate requests: all work is counted."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.facts.session import LogSession
from cachesim.tools.server_logs.rebuild.candidate_server import (
    BATCH,
    PART,
    SENT,
    WINDOWED,
    WINDOWED_BATCH,
    RunningPrompt,
)
from cachesim.tools.server_logs.rebuild.prefix_trials import ScenarioBuilder
from tests.unit.tools.server_logs.records import logged
from tests.unit.tools.server_logs.simulated_log import PROFILE


@pytest.mark.parametrize(("model", "per_token", "per_prompt"), [
    ("A", 1, BATCH),
    ("W64 A", WINDOWED, 2 * WINDOWED_BATCH),
])  # fmt: skip
def test_only_answers_that_a_later_request_needs_are_generated(model, per_token, per_prompt):
    """The last request is sent for its prompt, with a single token of its answer. A checkpoint divides a prompt of a
    model with a window into two micro-batches."""
    requests = [logged(n_tokens=PART, cache_n=0, predicted_n=50, task=task) for task in (0, 1)]
    made = ScenarioBuilder(LogSession("llama_cpp", requests), PROFILE, model, {"parallel": 1})
    made.build(10**6)
    assert made.work == 2 * (SENT + per_prompt) + 1 + (50 + 1) * per_token


def test_an_answer_prints_its_reused_and_evaluated_tokens():
    assert RunningPrompt(3, 5, 9).printed == {"n_past": 5, "prompt_n": 9}


def work_of_prompt(model, **options):
    """Return the work units of a prompt of 64 parts with a single generated token."""
    request = logged(n_tokens=64 * PART, cache_n=0, predicted_n=1, task=0)
    made = ScenarioBuilder(LogSession("llama_cpp", [request]), PROFILE, model, {"parallel": 1, **options})
    made.build(10**6)
    return made.work - SENT - made.round


def test_a_prompt_in_small_micro_batches_is_more_work():
    """A micro-batch takes as long as 4 parts of a prompt, however few tokens it has."""
    assert work_of_prompt("A", ubatch_size=512) == 64
    assert work_of_prompt("A", ubatch_size=PART) == BATCH * 64
    assert work_of_prompt("A", ubatch_size=PART // 8) == BATCH * 512


def test_the_evaluation_of_a_prompt_with_a_window_is_more_work():
    """A checkpoint may add a micro-batch."""
    assert WINDOWED_BATCH * 64 <= work_of_prompt("W64 A", ubatch_size=PART) <= WINDOWED_BATCH * 65
    assert WINDOWED_BATCH * 512 <= work_of_prompt("W64 A", ubatch_size=PART // 8) <= WINDOWED_BATCH * 513
