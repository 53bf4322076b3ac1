"""Context shift: removals from the memory and the slot's list, judging, and aborts of the process."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Request
from cachesim.engines.ik_llama import start
from cachesim.events import Decided, Log
from cachesim.judging.compare_answer import Judge

LONG = tuple(range(1000, 1400))


def server(mode="provenance", profile="ik_llama@main", **flags):
    base = {"ctx_size": 256, "batch_size": 64, "ubatch_size": 16, "cache_ram": 0, "context_shift": True}
    return start(profile, "AAAA", {**base, **flags}, mode, Log())


def logged_events(srv, kind):
    return [event.record(True, None) for event in srv.log.events if event.ev == kind]


def test_a_full_slot_gives_up_half_of_what_it_need_not_keep_and_the_rest_moves_up():
    """245 of 255 tokens need not be kept, 122 go: 133, and 24 more are predicted. No position is left out."""
    srv = server("AAAA", ctx_size=256, context_shift=True)
    prompt = tuple(range(1000, 1240))
    answer = srv.complete(Request(prompt, 40, n_keep=10))
    assert (answer.tokens_cached, answer.truncated) == (157, True)
    assert srv.core.slots[0].tokens[: 10 + 108] == [*prompt[:10], *prompt[132:]]
    assert srv.sequences.held(0).tolist() == list(range(157))


@pytest.mark.part(2)
@pytest.mark.parametrize("request_", [Request(LONG[:240], 40, n_keep=10), Request(LONG[:240], 150, n_keep=10),
                                      Request(LONG[:30], 300, n_keep=60), Request(LONG[:240], 40, n_discard=1000)])
def test_an_answer_with_a_shift_is_that_of_a_cold_run_that_shifts(request_):
    """Once, twice, with more kept than the prompt has. A client's n_discard beyond what is held leaves the list as it
    is, so that the next token has a wrong position."""
    srv = server("exact")
    answer = srv.complete(request_)
    assert answer.shifts
    judged = Judge(srv.core.context.model).judge(request_, answer, srv.inspection.live(0))
    assert judged.equal_cold is (request_.n_discard == 0)


def test_more_is_discarded_than_told_where_the_prompt_is_shorter_than_what_is_kept():
    """60 of 255 tokens are kept, and half of the other 195 are discarded. The prompt has 30 tokens fewer than n_keep,
    so 30 more are discarded."""
    srv = server()
    answer = srv.complete(Request(LONG[:30], 230, n_keep=60))
    assert logged_events(srv, "ctx_shift") == [{"ev": "ctx_shift", "n_keep": 60, "n_left": 195, "n_discard": 97}]
    assert answer.shifts == [(255, 60, 127)]
    assert srv.core.slots[0].discarded == 97


def test_without_a_cached_prompt_the_list_keeps_what_left_the_memory():
    srv = server()
    request = Request(LONG[:240], 18, n_keep=10, cache_prompt=False)
    answer = srv.complete(request)
    assert len(answer.shifts) == 2                              # the list is as full at the next token
    assert (srv.core.slots[0].tokens[:240], answer.tokens_cached) == (list(LONG[:240]), 257)
    assert len(srv.sequences.held(0)) < 257
    assert Judge(srv.core.context.model).judge(request, answer, srv.inspection.live(0)).equal_cold is False


def test_a_prompt_too_long_is_answered_as_a_cold_server_would():
    """400 tokens for 256: two blocks of 123 go behind the first 10."""
    srv = server("exact")
    request = Request(LONG, 5, n_keep=10)
    answer = srv.complete(request)
    assert answer.prompt == (*LONG[:10], *LONG[256:])
    assert (answer.truncated, answer.prompt_n, answer.tokens_cached) == (True, 154, 158)
    assert Judge(srv.core.context.model).judge(request, answer, srv.inspection.live(0)).equal_cold
    assert logged_events(srv, "prompt_truncated") == [
        {"ev": "prompt_truncated", "n_keep": 10, "n_left": 246, "n_tokens": 154}]


def test_of_the_slot_one_block_goes_and_in_the_memory_nothing_moves_up():
    srv = server()
    srv.complete(Request(LONG[:200], 2))
    srv.complete(Request(LONG, 1, n_keep=10))
    found = logged_events(srv, "cache_lcp")[-1]
    assert (found["n_tokens"], found["n_past"], found["n_past_prompt"]) == (201 - 123, 10, 10)


def test_a_list_of_which_nothing_would_be_left_stays_though_the_memory_is_cut():
    """Both lose 200 tokens behind the first 10, the list of 210 loses none: reuse goes on without rows."""
    srv = server()
    srv.complete(Request(LONG[:200], 11))
    assert len(srv.core.slots[0].tokens) == 210
    request = Request(LONG[:300], 1, n_keep=10, n_discard=200)
    answer = srv.complete(request)
    assert logged_events(srv, "cache_lcp")[-1]["n_tokens"] == 210
    assert answer.cache_n == 10


@pytest.mark.parametrize(("asked", "n_keep", "n_discard"), [(290, 255, 0), (256, 255, 0), (290, 10, 300),
                                                            (290, 10, -1)])  # fmt: skip
def test_a_prompt_that_does_not_fit_after_all_ends_the_process(asked, n_keep, n_discard):
    """No block is left to discard, or the requested block leaves nothing."""
    srv = server()
    answer = srv.complete(Request(LONG[:asked], 1, n_keep=n_keep, n_discard=n_discard))
    assert (answer.died, answer.done) == (True, True)
    assert "n_prompt_tokens < slot.n_ctx" in answer.error
    assert srv.submit(Request((1,))).died and not srv.working


def test_everything_kept_and_a_shift_end_the_process_at_the_next_long_prompt():
    """n_keep -1 of the last request is taken for a number of tokens when its shifted slot is compared."""
    srv = server()
    srv.complete(Request(LONG[:240], 40, n_keep=-1))
    assert srv.core.slots[0].discarded > 0
    assert srv.complete(Request(LONG[:240], 1)).died is False
    srv.complete(Request(LONG[:240], 40, n_keep=-1))
    answer = srv.complete(Request(LONG[:300], 1))
    assert answer.died and "n_keep >= 0" in answer.error


def test_a_prompt_that_is_refused_is_read_from_the_next_iteration_on():
    srv = server(context_shift=False)
    answer = srv.submit(Request(LONG[:300], 1))
    srv.iterate()
    assert (answer.status, logged_events(srv, "batch")) == (500, [])
    srv.iterate()
    assert logged_events(srv, "batch") == [{"ev": "batch", "p0": 0, "n_tokens": 0}]


def test_a_warning_names_the_place_from_which_the_batch_goes_on():
    """3 of 256 cells are left for 23 tokens: 5 tokens do not fit, 2 fit, then 1 of the next 2 fits, place 3 does
    not."""
    srv = server(context_shift=False, ctx_size=256, batch_size=23, ubatch_size=23)
    srv.complete(Request(LONG[:300], 1))
    assert [event["text"].rpartition("defragmentation ")[2] for event in logged_events(srv, "warn")] == [
        "i=-11 n_batch=11 ret=1", "i=-5 n_batch=5 ret=1", "i=-2 n_batch=2 ret=1", "i=1 n_batch=1 ret=1",
    ]
    assert [event["text"] for event in logged_events(srv, "error")][1].endswith("i=3 n_batch=1 ret=1")


def test_behind_the_tolerance_every_batch_ends_with_a_checkpoint():
    """40 tokens before the end of the prompt, in batches of 16: nothing takes the mark back."""
    srv = start("ik_llama@main", "GGGA", {"ctx_size": 512, "batch_size": 16, "ubatch_size": 16, "cache_ram": 0,
                                          "ctx_checkpoints_tolerance": 40}, "none", Log())
    srv.complete(Request(LONG[:120], 1))
    assert [c.facts.n_tokens for c in srv.core.slots[0].checkpoints] == [80, 96, 112, 120]
    assert [c.facts.prompt_end for c in srv.core.slots[0].checkpoints] == [True, True, True, False]


@pytest.mark.parametrize(("held", "total", "gone", "removed"), [
    (0, (0, 0), 0, []), (9, (9, 9), 0, []), (10, (10, 10), 0, []), (11, (11, 11), 1, [(10, 11)]),
    (12, (12, 12), 2, [(10, 12)]), (200, (133, 133), 123, [(10, 133)]),
])  # fmt: skip
def test_a_prompt_that_is_shortened_takes_a_block_of_the_slot_after_what_is_kept(held, total, gone, removed):
    """The slot has so many of its first tokens; 10 are kept, and a block has 123 tokens."""
    srv = server()
    if held:
        srv.complete(Request(LONG[:held], 1))
    before = len(srv.log.events)
    answer = srv.complete(Request(LONG, 1, n_keep=10))
    events = srv.log.events[before:]
    found = {event.rule.split(".")[0]: event for event in events if isinstance(event, Decided)}
    assert (found["IK-SHIFT-FIND"].because["total"], found["IK-PROMPT-CUT"].value) == (total, gone)
    assert [(event.p0, event.p1) for event in events if event.ev == "seq_rm" and event.p1 < 1000] == removed
    assert (answer.truncated, answer.prompt) == (True, (*LONG[:10], *LONG[256:]))


def test_a_shifted_slot_of_a_request_that_keeps_nothing_is_compared_with_a_long_prompt():
    srv = server()
    srv.complete(Request(LONG[:240], 40))
    assert (srv.core.slots[0].discarded, srv.core.slots[0].n_keep) == (127, 0)
    answer = srv.complete(Request(LONG[:300], 1))
    assert (answer.died, answer.truncated, answer.status) == (False, True, 200)
