"""What a run shows of its requests, and their cost."""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.base import Answer
from cachesim.engines.point_kinds import CHECKPOINT, CONVERSATION
from cachesim.engines.registry import rules_of
from cachesim.engines.shared.slot_events import PcState
from cachesim.events import Decoded, Log
from cachesim.judging.find_change import RequestOutcome
from cachesim.judging.judged_run import JudgedRuns
from cachesim.judging.request_cost import (
    ObservedRequest,
    ObservedRuns,
    RequestCost,
    cost_of,
    observed,
    observed_requests,
    up_to,
)
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.schema import Expect, Lives
from tests.unit.tools.run.made import BROKEN, judgement, run

BUILD = "llama_cpp@b11549"


def stored(mib):
    """Return the state of the prompt cache, of this size."""
    return PcState(1, mib, 8192.0, 0, 0)


def two_requests():
    """Return a run of two requests with their events."""
    first = judgement(cache_n=6, draft_n=5, draft_n_accepted=3,
                      children=[Answer(0, prompt_n=7, copied_n=4), Answer(0, prompt_n=2)])  # fmt: skip
    first.uncounted, first.stored = 900, [4, 9]
    log = Log()
    for events in ([Decoded(4), stored(1.5), stored(2.5), Decoded(1), stored(2.0), Decoded(1)], [Decoded(3)]):
        log.mark()
        for event in events:
            log.emit(event)
    return run(first, judgement(BROKEN, status=500), log=log)


def test_the_cost_of_a_request_counts_its_own_events_and_its_further_completions():
    made = two_requests()
    assert cost_of(made, 0) == RequestCost(
        decodes=3, stored_mib=2.5, drafted=5, accepted=3, uncounted=900, repeated=3 + 2)
    assert cost_of(made, 1) == RequestCost(1, 0.0, 0, 0, 0, 0)


def test_a_run_shows_outcome_cost_and_what_is_left_of_each_request():
    made = two_requests()
    left = {(CHECKPOINT, 4), (CHECKPOINT, 7), (CONVERSATION, 4), (CONVERSATION, 9)}
    assert observed(made, 0) == ObservedRequest(RequestOutcome(6, True, 200), cost_of(made, 0), frozenset(left))
    assert observed(made, 1) == ObservedRequest(RequestOutcome(0, False, 500), cost_of(made, 1),
                                                frozenset({(CHECKPOINT, 4), (CHECKPOINT, 7)}))  # fmt: skip


def test_a_part_of_a_scenario_expects_nothing():
    whole = replace(from_line("A3/B3{together}/C3/D3", model="A"), expect={BUILD: Expect()}, lives=(Lives(1, "", ""),))
    part = up_to(whole, 0)
    assert (part.steps, part.expect, part.lives) == (whole.steps[:2], {}, ())


def test_requests_are_observed_with_their_cost():
    seen = observed_requests(JudgedRuns("provenance"), from_line("A40>4/A>2/B9", model="A"), "ik_llama@main", None)
    assert [one.outcome[:3] for one in seen] == [(0, True, 200), (39, True, 200), (0, True, 200)]
    assert [one.cost.decodes for one in seen] == [4, 2, 1]
    assert [one.kept for one in seen] == [frozenset(), frozenset(), {(CONVERSATION, 41)}]


def test_runs_of_every_rule_set_are_made_in_each_mode():
    scenario = from_line("A9/A", model="A")
    runs, exact = ObservedRuns(scenario, BUILD), ObservedRuns(scenario, BUILD, "exact")
    for shared in (runs, runs, exact):
        assert [one.outcome.cache_n for one in shared.result(rules_of(BUILD))] == [0, 8]
    old = runs.result(rules_of("llama_cpp@b6160"))
    assert [one.outcome.equal_cold for one in old] == [True, True]
