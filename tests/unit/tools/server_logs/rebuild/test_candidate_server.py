"""Simulated server for candidate requests: all work is counted, and a round is an iteration of the server loop."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Request
from cachesim.engines.registry import engine_of
from cachesim.events import Log
from cachesim.tools.server_logs.facts.session import LogSession
from cachesim.tools.server_logs.rebuild.candidate_server import PART, SENT, WINDOWED, CandidateServer, RunningPrompt
from cachesim.tools.server_logs.rebuild.prefix_trials import ScenarioBuilder
from tests.unit.tools.server_logs.records import logged
from tests.unit.tools.server_logs.simulated_log import PROFILE


def candidate(slots=1, **words):
    """Return a server, with these words of the notation."""
    made = CandidateServer(PROFILE, "A", {"parallel": slots})
    made.words |= words
    return made


def test_rounds_are_counted_from_the_last_request_until_the_answer_is_complete():
    server = engine_of(PROFILE).start(PROFILE, "A", {"parallel": 1}, "none", Log())
    answer, rounds = server.submit(Request(tuple(range(40)), 3)), 0
    while not answer.done:
        server.take_tasks()
        server.update()
        rounds += 1
    made = candidate(A=40, a=3)
    assert made.rounds(None, ["A40>a3"], ["A40>a3"]) == rounds > 2
    assert made.rounds(None, ["A40>a3"], []) == 0


def test_a_request_of_a_group_is_sent_after_rounds_in_which_the_one_before_it_runs():
    made, alone = candidate(2, A=40, a=30, B=9, b=1), "A40>a30"
    whole = made.rounds(None, [alone], [alone])
    for after in (1, 4):
        assert made.rounds(None, [alone, f"B9>b1{{together+{after}}}"], [alone]) == whole - after


def test_the_work_of_rounds_includes_the_prompts():
    for over, generated in ([], 0), ([f"A{PART}>a5"], 5):
        made = candidate(A=PART, a=5)
        made.rounds(None, [f"A{PART}>a5"], over)
        assert made.work == SENT + 1 + generated


@pytest.mark.parametrize(("model", "per_token", "per_prompt"), [("A", 1, 1), ("W64 A", WINDOWED, 2 * WINDOWED)])
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
    made = CandidateServer(PROFILE, model, {"parallel": 1, **options})
    made.words |= {"A": 64 * PART, "a": 1}
    text = f"A{64 * PART}>a1"
    made.rounds(None, [text], [text])
    return made.work - SENT - made.round


def test_a_prompt_in_small_micro_batches_is_more_work():
    assert work_of_prompt("A", ubatch_size=512) == work_of_prompt("A", ubatch_size=PART) == 64
    assert work_of_prompt("A", ubatch_size=PART // 8) == 8 * 64


def test_the_evaluation_of_a_prompt_with_a_window_is_more_work():
    """A checkpoint may add a micro-batch."""
    assert WINDOWED * 64 <= work_of_prompt("W64 A", ubatch_size=PART) <= WINDOWED * 65
    assert WINDOWED * 512 <= work_of_prompt("W64 A", ubatch_size=PART // 8) <= WINDOWED * 513
