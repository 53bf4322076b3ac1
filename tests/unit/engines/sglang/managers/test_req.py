"""Requests: their text, which is copied once for each token that is appended, and what a retraction resets."""

from dataclasses import fields

import pytest

from cachesim.base.keyed_tokens import IDS
from cachesim.engines.sglang.managers.req import ReqKvInfo
from tests.unit.engines.sglang.trees import make_req


@pytest.mark.parametrize("key", [0, 3])
def test_the_text_is_the_same_list_until_a_token_is_appended(key):
    req = make_req(0, range(10))
    req.key = key
    text, pairs = req.text(), req.radix_key(is_eagle=True)
    assert text == tuple(token + key * IDS for token in range(10))
    assert req.text() is text and req.radix_key(is_eagle=True) is pairs
    assert pairs == tuple((n, n + 1) for n in range(9))
    req.fill_ids.append(10)
    assert req.append_output_id() == 10 and req.seqlen == 11
    assert req.text() == (*text, 10 + key * IDS) and req.radix_key(is_eagle=True) == (*pairs, (9, 10))


def test_the_tree_compares_tokens_without_their_key():
    req, keyed = make_req(0, range(10)), make_req(1, range(10))
    keyed.key = 3
    assert req.radix_key(is_eagle=False) is req.text()
    assert keyed.radix_key(is_eagle=False) == tuple(range(10)) != keyed.text()


def test_an_ended_request_keeps_no_copies():
    req = make_req(0, range(10))
    req.radix_key(is_eagle=True)
    req.forget_text()
    assert req.known == req.compared.text == req.compared.key == ()
    assert req.text() == tuple(range(10))


def test_a_retracted_request_begins_again_with_its_tokens():
    """What a request has besides its tokens and its match is that of a new one."""
    fresh, req = make_req(0, range(10)), make_req(0, range(10))
    for name in ("prefix_len", "decode_batch_idx", "seq_len", "num_unread_tokens", "inflight_middle_chunks",
                 "mamba_branching_seqlen", "swa_branching_seqlen", "num_output_ids", "extend_end"):  # fmt: skip
        setattr(req, name, 5)
    req.last_node, req.lock, req.launched, req.kv = object(), object(), True, ReqKvInfo(kv_committed_len=5)
    req.reset_for_retract()
    kept = {"is_retracted": True, "launched": True, "num_output_ids": 5, "extend_end": 5}
    for field in fields(req):
        if field.name not in ("task", "fill_ids", "kv"):
            assert getattr(req, field.name) == kept.get(field.name, getattr(fresh, field.name)), field.name
    assert req.seqlen == 15 and all(getattr(req.kv, one.name) == one.default for one in fields(req.kv))


def test_numbers_of_a_request_follow_from_its_tokens():
    req = make_req(0, range(10), answer=3)
    req.fill_ids += [20, 21]
    req.prefix_len, req.extend_end, req.seq_len = 4, 9, 7
    assert (req.seqlen, req.extend_len, req.num_input_tokens, req.max_new_tokens) == (10, 5, 10, 3)
    assert [req.append_output_id(), req.num_output_tokens, req.num_remaining_tokens, req.seqlen] == [20, 1, 2, 11]
    assert [req.next_output_finishes_by_length(most) for most in (13, 12, 11)] == [False, True, True]
    req.is_answered = True
    assert [req.append_output_id(), req.num_output_tokens, req.seqlen] == [21, 1, 12]
    assert (req.tokens, req.task.answer.tokens, req.id) == ([*range(7)], [20], 0)
    req.num_unread_tokens = 2
    assert req.evaluated_tokens(8, 10) == [20, 21]
    assert make_req(0, [1], answer=0).max_new_tokens == 1


@pytest.mark.parametrize(("hits", "needs"), [
    ((0, 0, 0), False), ((1, 0, 0), True), ((0, 1, 0), True), ((0, 0, 1), True),
])  # fmt: skip
def test_a_request_needs_a_load_if_a_part_of_its_match_is_in_host_memory_only(hits, needs):
    req = make_req(0, range(10))
    req.host_hit_length, req.swa_host_hit_length, req.mamba_host_hit_length = hits
    assert req.needs_host_load_back is needs


def test_states_of_a_request_are_its_running_and_tracked_ones():
    assert ReqKvInfo().mamba_slots == [] and ReqKvInfo(mamba_pool_idx=3).mamba_slots == [3]
    assert ReqKvInfo(mamba_pool_idx=3, mamba_ping_pong_track_buffer=[None, 5]).mamba_slots == [3, 5]


def test_a_request_may_skip_the_cache():
    assert make_req(0, (1, 2), cache_prompt=False).skip_radix_cache is True
    assert make_req(0, (1, 2)).skip_radix_cache is False
