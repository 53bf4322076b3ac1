"""Server behaviour without recordings: other rollback methods, two slots, deferral, refusals."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.base import Draft, Request
from cachesim.engines.ik_llama import PROFILES, start
from cachesim.engines.inspection import StatePart
from cachesim.engines.registry import ENGINES
from cachesim.events import Log
from cachesim.judging.compare_answer import Judge

P = tuple(range(1000, 1080))


def server(model="GGGA+M", profile="ik_llama@main", mode="provenance", **flags):
    base = {"ctx_size": 512, "batch_size": 64, "ubatch_size": 16, "cache_ram": 0, "context_shift": False}
    return start(profile, model, {**base, **flags}, mode, Log())


@pytest.mark.parametrize("how", ["per-step", "gpu-fallback", "cpu"])
def test_every_way_back_from_a_wrong_draft_gives_a_cold_answer(how):
    one = server(spec_type="mtp", spec_draft_n_max=3, spec_ckpt_mode=how)
    request = Request(P, 9, forced=tuple(range(5000, 5009)), drafts=(Draft(80, 3, 1), Draft(82, 3, 0), Draft(83, 2, 2)))
    answer = one.complete(request)
    judged = Judge(one.core.context.model).judge(request, answer, one.inspection.live(0))
    assert judged.equal_cold
    assert (answer.draft_n, answer.draft_n_accepted, answer.tokens_cached) == (8, 3, 88)
    one.core.memory.check()


def test_a_budget_spent_in_a_round_leaves_unsent_tokens_in_the_slot():
    one = server(spec_type="mtp", spec_draft_n_max=3)
    answer = one.complete(Request(P, 4, forced=tuple(range(5000, 5004)), drafts=(Draft(80, 2, 2),)))
    assert (answer.tokens, answer.predicted_n, answer.tokens_cached) == ([5000, 5001], 4, 83)


def test_without_a_free_slot_a_task_waits():
    one = server("GGGA", parallel=1)
    answers = [one.submit(Request(P, 2)), one.submit(Request(P[:70], 2))]
    while one.working:
        one.iterate()
    assert [answer.done for answer in answers] == [True, True]


def test_two_slots_share_a_batch_and_stay_cold():
    one = server("GGGA", parallel=2, ctx_size=1024)
    requests = [Request(P, 5, id_slot=0), Request(tuple(range(2000, 2090)), 5, id_slot=1)]
    answers = [one.submit(request) for request in requests]
    while one.working:
        one.iterate()
    judge = Judge(one.core.context.model)
    for request, answer in zip(requests, answers, strict=True):
        assert judge.judge(request, answer, one.inspection.live(answer.id_slot)).equal_cold
    assert len(one.core.memory.cells.of(0)) == 84


def test_a_conversation_comes_back_from_the_prompt_cache():
    one = server("GGGA", cache_ram=64)
    for request in (Request(P, 3), Request(tuple(range(3000, 3090)), 3)):
        one.complete(request)
    again = one.complete(Request((*P, *one.core.cache.entries[0].tokens[80:], 7777), 1))
    assert (again.reused, again.prompt_n) == ({"entry": 82}, 1)


def test_a_hang_up_ends_the_answer_and_keeps_what_was_evaluated():
    answer = server("AAAA").complete(Request(P, 50, cancel_at=90))
    assert (answer.cancelled, answer.tokens_cached) == (True, 90)


@pytest.mark.parametrize("flags", [{"spec_type": "mtp"}, {"no_such": 1}, {"batch_size": 0}, {"cache_ram": "8"},
                                   {"ctx_checkpoints_eviction": "oldest"}])  # fmt: skip
def test_flags_it_would_not_start_with(flags):
    with pytest.raises(BadInput):
        server("AAAA", **flags)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_version_answers(profile):
    one = server("GGGA+M", profile, "none", spec_type="mtp", spec_draft_n_max=2)
    for prompt in (P, P[:75], (*P, 1), P):
        assert one.complete(Request(prompt, 6, draft_else=1)).done
    one.core.memory.check()


def test_an_empty_prompt_leaves_the_slot_as_it_is():
    one = server("GGGA")
    one.complete(Request(P, 4))
    before = list(one.core.slots[0].tokens)
    answer = one.complete(Request((), 5))
    assert (answer.done, answer.status, answer.tokens) == (True, 200, [])
    assert (answer.cache_n, answer.prompt_n, answer.predicted_n, answer.tokens_cached) == (0, 0, 0, 0)
    assert one.core.slots[0].tokens == before and [c.facts.n_tokens for c in one.core.slots[0].checkpoints] == [75, 83]
    assert one.complete(Request((*before, 1), 1)).cache_n == 83


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        (Request(P, 2, n_cmpl=2), "n_cmpl 2"),
        (Request(P, 0, kind="embedding"), "task 'embedding'"),
    ],
)  # fmt: skip
def test_what_is_not_modelled_is_refused_and_never_an_answer(request_, what):
    one = server("GGGA")
    with pytest.raises(BadInput, match=f"{what} is not modelled for this engine"):
        one.submit(request_)
    assert not one.working


def test_what_has_recurrent_layers_only_is_judged_by_its_state():
    """This engine knows no real model of this kind; the test uses an invented model."""
    one = server("SS")
    first = Request(P, 3)
    answer = one.complete(first)
    live, judge = one.inspection.live(0), Judge(one.core.context.model)
    assert live.rows == () and judge.judge(first, answer, live).equal_cold is True
    spoilt = live._replace(state=StatePart(live.state.pos, {**live.state.rows, 0: live.state.rows[1]}))
    assert judge.judge(first, answer, spoilt).equal_cold is False
    assert "mamba-2" not in ENGINES["ik_llama"].manual.known


def test_behind_a_restored_checkpoint_the_interval_is_counted_from_there():
    """The interval is 80, checked after every 64 positions: 127, and after the restore of 127 position 255, not 191."""
    one = server("GGGA", ctx_checkpoints_interval=80)

    def held():
        return [kept.facts.pos_max for kept in one.core.slots[0].checkpoints]

    one.complete(Request(tuple(range(1, 151)), 2))
    assert held() == [127, 144, 150]
    assert one.complete(Request((*range(1, 141), *range(5000, 5150)), 2)).cache_n == 128
    assert held() == [127, 255, 284, 290]


@pytest.mark.parametrize(("n_ubatch", "cold"), [(16, True), (4, True), (3, True), (2, False), (1, False)])
def test_a_round_that_does_not_fit_into_one_micro_batch_is_undone_to_what_happens_to_be_kept(n_ubatch, cold):
    """Three drafts, the first correct: the rollback needs the row after the second of four tokens. It gets the second
    row of the last micro-batch with several tokens, its matrix only if a third token followed; otherwise zeros."""
    one = server(spec_type="mtp", spec_draft_n_max=3, ubatch_size=n_ubatch)
    request = Request(P, 9, forced=tuple(range(5000, 5009)), drafts=(Draft(82, 3, 1),))
    judged = Judge(one.core.context.model).judge(request, one.complete(request), one.inspection.live(0))
    assert judged.equal_cold is cold
    kept = one.core.context.steps.values()
    assert all(rows is not one.core.memory.states[0] for rows in kept)       # else decoding goes on in it
    assert any(kept) is (n_ubatch > 1)                                  # single tokens keep nothing


def test_the_matrix_of_a_row_is_not_kept_after_the_last_token_of_a_micro_batch():
    """Two drafts, the first correct; micro-batches of two: 2 tokens and 1. Wrong on a real 8337e4c by 0.38."""
    one = server(spec_type="mtp", spec_draft_n_max=2, ubatch_size=2)
    request = Request(P, 9, forced=tuple(range(5000, 5009)), drafts=(Draft(80, 2, 1),))
    answer = one.complete(request)
    assert Judge(one.core.context.model).judge(request, answer, one.inspection.live(0)).equal_cold is False
    assert set(one.core.context.steps) == {0, 1} and set(one.core.context.matrices) == {0}


@pytest.mark.parametrize(("asked", "used"), [(2, 16), (16, 16), (64, 64), (4096, 512)])
def test_a_batch_has_at_least_16_tokens_and_at_most_a_context(asked, used):
    settings = server(batch_size=asked, ubatch_size=1000).core.settings
    assert (settings.n_batch, settings.n_ubatch) == (used, min(used, 1000))


def test_a_slot_action_takes_the_number_of_a_task():
    """A later error names its task: on a real 8337e4c it counts the actions, too."""
    one, other = server("GGGA"), server("GGGA")
    other.slot("erase", 0)
    assert other.core.take_id() == one.core.take_id() + 1
