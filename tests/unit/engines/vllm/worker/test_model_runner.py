"""The worker: sampled tokens, accepted drafts, the parts of a chunk, and the cost of a step."""

from __future__ import annotations

import pytest

from cachesim.base.keyed_tokens import IDS
from cachesim.engines.base import Draft, Request
from cachesim.engines.shared.vocab import WRONG
from cachesim.engines.vllm import ENGINE
from cachesim.engines.vllm.request import RequestText
from cachesim.engines.vllm.worker.model_runner import CachedRequestState, ScheduledChunk

PROMPT = (11, 12, 13, 14)


def chunk_of(start, n, drafts=(), answer=(5, 6, 7, 8), **more):
    """Return a chunk of a request with a prompt of four tokens whose answer is known."""
    request = Request(PROMPT, len(answer), forced=tuple(answer))
    state = CachedRequestState(0, request, RequestText(key=0, block_hashes=[], token_ids=list(PROMPT)))
    return ScheduledChunk(state, start, n, [*drafts], samples_token=True, has_checkpoint_block=False, **more)


def test_a_request_starts_again_with_its_tokens():
    state = chunk_of(0, 4).state
    state.running_column, state.num_accepted_tokens, state.draft_marks = {0: 3}, 3, [1, 2]
    state.restart([11, 12, 13, 14, 5])
    assert (list(state.token_ids), state.num_output_tokens, state.running_column) == ([11, 12, 13, 14, 5], 1, {})
    assert (state.num_accepted_tokens, state.draft_marks) == (1, [0])


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
