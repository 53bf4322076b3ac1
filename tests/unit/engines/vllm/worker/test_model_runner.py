"""The worker: sampled tokens, accepted drafts, the parts of a chunk, and the cost of a step."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.base.keyed_tokens import IDS
from cachesim.engines.base import Draft, Request
from cachesim.engines.shared.evaluation_cost import cost_of
from cachesim.engines.shared.vocab import WRONG
from cachesim.engines.vllm import ENGINE
from cachesim.engines.vllm.request import RequestText
from cachesim.engines.vllm.worker.model_runner import CachedRequestState, ScheduledChunk

PROMPT = (11, 12, 13, 14)


def runner_of(model="A", **flags):
    return ENGINE.start("vllm@0.33.0", model, {"block_size": 4, **flags}, "none").model_runner


def chunk_of(start, n, drafts=(), answer=(5, 6, 7, 8), **more):
    """Return a chunk of a request with a prompt of four tokens whose answer is known."""
    request = Request(PROMPT, len(answer), forced=tuple(answer))
    state = CachedRequestState(0, request, RequestText(key=0, block_hashes=[], token_ids=list(PROMPT)))
    return ScheduledChunk(state, start, n, [*drafts], samples_token=True, has_checkpoint_block=False, **more)


@pytest.mark.parametrize(("drafts", "accepted", "sampled"), [
    ((), None, [5]), ((9, 9), None, [5]), ((5, 9), None, [5, 6]), ((5, 6), None, [5, 6, 7]), ((9, 6), None, [5]),
    ((9, 9), 0, [5]), ((9, 9), 1, [5, 6]), ((9, 9), 2, [5, 6, 7]), ((9, 9), 7, [5, 6, 7]), ((), 3, [5]),
])  # fmt: skip
def test_a_token_is_sampled_after_each_right_draft(drafts, accepted, sampled):
    chunk = chunk_of(3, 1 + len(drafts), drafts)
    runner_of()._sample(chunk, accepted)
    assert (chunk.sampled_token_ids, chunk.num_accepted_drafts) == (sampled, len(sampled) - 1)
    assert chunk.state.token_ids == [*PROMPT, *sampled]
    assert (chunk.end, chunk.num_accepted_end) == (4 + len(drafts), 4 + len(sampled) - 1)


@pytest.mark.parametrize(("drafts", "accepted", "sampled", "parts"), [
    ((), 0, [5], [(1, (12, 13, 14), 0)]),
    ((9, -1), 0, [5], [(1, (12, 13, 14), 0), (4, (9,), 1), (5, (WRONG + 1,), 2)]),
    ((9, -1), 2, [5, 6, 7], [(1, (12, 13, 14), 0), (4, (5,), 1), (5, (6,), 2)]),
    ((9, 0), 0, [5], [(1, (12, 13, 14), 0), (4, (9,), 1), (5, (0,), 2)]),
    ((9, 8), 1, [5, 6], [(1, (12, 13, 14), 0), (4, (5,), 1), (5, (8,), 2)]),
    ((5, 6), 1, [5, 6], [(1, (12, 13, 14), 0), (4, (5,), 1), (5, (WRONG + 1,), 2)]),     # a rejected draft is another
])  # fmt: skip
def test_each_draft_is_a_part_of_its_own(drafts, accepted, sampled, parts):
    chunk = chunk_of(1, 3 + len(drafts), drafts, num_accepted_drafts=accepted, sampled_token_ids=sampled)
    found = runner_of()._spans(chunk)
    assert [(span.start, tuple(span.tokens), span.draft) for span in found] == parts
    assert not any(span.inside for span in found)


def test_a_step_costs_its_tokens_and_their_positions():
    runner, spent = runner_of(), []
    runner.log = SimpleNamespace(spend=lambda *cost: spent.append(cost))
    runner._spend([chunk_of(0, 4), chunk_of(3, 2)])
    runner._spend([])
    assert spent == [(6, 1, 0), (0, 0, 0)]


def test_a_request_starts_again_with_its_tokens():
    state = chunk_of(0, 4).state
    state.running_column, state.num_accepted_tokens, state.draft_marks = {0: 3}, 3, [1, 2]
    state.restart([11, 12, 13, 14, 5])
    assert (list(state.token_ids), state.num_output_tokens, state.running_column) == ([11, 12, 13, 14, 5], 1, {})
    assert (state.num_accepted_tokens, state.draft_marks) == (1, [0])


def test_an_exact_step_also_costs_the_rows_that_its_tokens_read():
    runner, spent = ENGINE.start("vllm@0.33.0", "A", {"block_size": 4}, "exact").model_runner, []
    runner.log = SimpleNamespace(spend=lambda *cost: spent.append(cost))
    runner._spend([chunk_of(0, 40), chunk_of(30, 20)])
    assert spent == [cost_of(runner.model, 60, 60, 40 * 40 + 50 * 20)] != [cost_of(runner.model, 60, 60, 0)]


def scheduled(drafts, overlap=False):
    """Return the worker of a server whose request has had its first token, and its next step, with these drafts."""
    server = ENGINE.start("vllm@0.33.0", "A", {"block_size": 4, "async_scheduling": overlap,
                                               "speculative_method": "ngram", "num_speculative_tokens": 2}, "none")
    server.submit(Request(PROMPT, 4, forced=(5, 6, 7, 8), draft_else=2))
    server.take_tasks()
    output = server.scheduler.schedule()
    server.scheduler.update_from_output(output, server.model_runner.execute_model(output, accepted=None))
    server.scheduler.update_draft_token_ids({0: [*drafts]})
    return server.model_runner, server.scheduler.schedule()


@pytest.mark.parametrize(("overlap", "drafts", "evaluated"), [
    (False, (6, 9), [6, 9]), (False, (), []), (True, (-1, -1), [6, 7]), (True, (-1,), [6]), (True, (), []),
])  # fmt: skip
def test_a_step_evaluates_given_drafts_or_with_overlap_those_of_the_worker(overlap, drafts, evaluated):
    runner, output = scheduled(drafts, overlap)
    chunk = runner._update_states(output.scheduled_reqs[0], output)
    assert (chunk.draft_token_ids, chunk.start, chunk.n) == (evaluated, 4, 1 + len(evaluated))


@pytest.mark.parametrize(("accepted", "sampled"), [(None, [6, 7, 8]), ({}, [6]), ({0: 0}, [6]), ({0: 1}, [6, 7]),
                                                   ({0: 2}, [6, 7, 8]), ({1: 2}, [6])])  # fmt: skip
def test_as_many_drafts_are_right_as_the_caller_says(accepted, sampled):
    runner, output = scheduled((6, 7))
    result = runner.execute_model(output, accepted)[0]
    assert (result.sampled_token_ids, result.num_accepted_drafts) == (sampled, len(sampled) - 1)
    assert result.num_evaluated_tokens == 4 + len(sampled)


def test_tokens_under_a_key_have_identities_and_marks_of_their_own():
    state = CachedRequestState(0, Request(PROMPT, 1), RequestText(key=3, block_hashes=[], token_ids=[]))
    state.restart(PROMPT)
    assert (state.key_offset, state.draft_marks) == (3 * IDS, [3])


def test_a_draft_is_right_as_far_as_the_request_says_for_its_place():
    """The first draft is made when the memory holds the four tokens of the prompt."""
    server = ENGINE.start("vllm@0.33.0", "A", {"block_size": 4, "async_scheduling": False,
                                               "speculative_method": "ngram", "num_speculative_tokens": 2}, "none")
    server.submit(Request(PROMPT, 6, forced=(5, 6, 7, 8, 9, 10), drafts=(Draft(4, 2, accepted=2),)))
    server.take_tasks()
    drafts = []
    for _ in range(2):
        server.update()
        drafts.append([min(token, WRONG) for token in server.slots[0].spec_token_ids])
    assert (drafts, server.slots[0].num_tokens) == ([[6, 7], [WRONG, WRONG]], 8)
