"""Order of the queue, and admission."""

import pytest

from cachesim.engines.sglang.rules.schedule import (
    AdmissionCandidate,
    WaitingRequest,
    admission,
    chunk_share,
    next_chunk,
    queue_order,
    stays_always,
    stays_full,
    tries_each_step,
    window_need,
)

ROWS = [WaitingRequest(9, 3, 5, False, 2), WaitingRequest(20, 8, 9, False, 0), WaitingRequest(12, 8, 1, True, 1)]


@pytest.mark.parametrize(("policy", "order"), [
    ("fcfs", [0, 1, 2]), ("lpm", [1, 0, 2]), ("dfs-weight", [1, 2, 0]), ("lof", [1, 0, 2]),
    ("shortest-prefill-first", [0, 1, 2]),
])  # fmt: skip
def test_policies(policy, order):
    assert queue_order(policy, ROWS).value == order


BASE = AdmissionCandidate(
    extend_len=20,
    prefix_len=4,
    max_new_tokens=10,
    is_first=True,
    rem_input_tokens=64,
    rem_chunk_tokens=16,
    rem_total_tokens=100,
    rem_swa_tokens=None,
    size_swa=0,
    swa_retain_window=0,
    page_size=4,
)
WINDOWS = {"size_swa": 64, "swa_retain_window": 8}


@pytest.mark.parametrize(("change", "tokens"), [
    ({}, 16),
    ({"rem_chunk_tokens": None}, 20),
    ({"rem_chunk_tokens": 20}, 20),
    ({"rem_chunk_tokens": 3}, 0),
    ({"rem_total_tokens": 34}, None),
    ({"rem_total_tokens": 35}, 16),
    ({"rem_chunk_tokens": None, "is_first": False, "rem_input_tokens": 20}, 0),
    ({"rem_chunk_tokens": None, "is_first": False, "rem_input_tokens": 21}, 20),
    ({"prefix_len": 5, "page_size": 1}, 16), ({"rem_swa_tokens": 40, "size_swa": 64, "swa_retain_window": 8}, 16),
    ({"rem_swa_tokens": 20, "size_swa": 64, "swa_retain_window": 8}, None),
    ({"rem_swa_tokens": 18, "size_swa": 20, "swa_retain_window": 8}, 4),
    ({"waits_for_chunked_req": True}, 0), ({"waits_for_chunked_req": True, "rem_chunk_tokens": 20}, 20),
])  # fmt: skip
def test_admission(change, tokens):
    assert admission(BASE._replace(**change)).value == tokens


def test_a_window_needs_what_a_chunk_adds_to_it():
    assert window_need(20, 10, 16, 8, 4) == 8 + 8 + 4 and window_need(2, 1, None, 8, 4) == 3 + 4


def test_a_started_prompt_continues_without_room_unless_it_has_windows():
    assert (next_chunk(16, 10, None, 4), next_chunk(16, -3, None, 4), next_chunk(16, -3, 9, 4)) == (10, 16, 0)
    assert next_chunk(16, 30, 9, 4) == 5


@pytest.mark.parametrize(("left", "chunk", "share"), [
    (30, 16, 8), (6, 16, 16), (30, 7, 7), (30, 40, 16), (12, 40, 32), (30, 12, 4),
])  # fmt: skip
def test_a_chunk_leaves_room_for_shorter_prompts(left, chunk, share):
    waiting = [
        WaitingRequest(9, 3, 5, False, 2),
        WaitingRequest(20, 8, 9, False, 0),
        WaitingRequest(12, 12, 1, True, 1),
    ]
    assert chunk_share(left, waiting, chunk, 4) == share


def test_only_a_server_with_windows_tries_again_at_once():
    assert [rule(windows) for rule in (stays_full, stays_always, tries_each_step) for windows in (False, True)] == [
        True, False, True, True, False, False]  # fmt: skip


@pytest.mark.parametrize(("change", "tokens", "because"), [
    ({"rem_chunk_tokens": 20}, 20, {"free": 100}),
    ({"rem_chunk_tokens": 19}, 16, {"free": 100}),
    ({"extend_len": 17, "rem_chunk_tokens": 20}, 17, {"n": 17, "free": 100}),
    ({"extend_len": 17, "rem_chunk_tokens": 19}, 16, {"n": 17, "free": 100}),
    ({"rem_total_tokens": 34}, None, {"free": 34, "needed": 35, "answer": 10}),
    ({"rem_total_tokens": 40, "host_hit_length": 5}, 16, {"free": 40}),
    ({"rem_total_tokens": 39, "host_hit_length": 5}, None, {"free": 39, "needed": 40, "answer": 10}),
    ({"max_new_tokens": 9000, "rem_total_tokens": 4120}, None, {"free": 4120, "needed": 4121, "answer": 4096}),
    ({"max_new_tokens": 9000, "rem_total_tokens": 4121}, 16, {"free": 4121}),
    # 8 tokens of the chunk beyond the window, a window, and a page of 4
    ({**WINDOWS, "rem_swa_tokens": 21}, 16, {"free": 100}),
    ({**WINDOWS, "rem_swa_tokens": 20}, None, {"free": 20, "window": 21}),
    ({**WINDOWS, "rem_swa_tokens": 25, "swa_host_hit_length": 3}, 16, {"free": 100}),
    ({**WINDOWS, "rem_swa_tokens": 24, "swa_host_hit_length": 3}, None, {"free": 24, "window": 25}),
    ({**WINDOWS, "rem_swa_tokens": 20, "size_swa": 20}, 8, {"free": 100}),
    ({**WINDOWS, "rem_swa_tokens": 20, "size_swa": 21}, None, {"free": 20, "window": 21}),
    ({**WINDOWS, "rem_swa_tokens": 15, "size_swa": 20}, None, {"free": 15, "window": 21}),
    ({**WINDOWS, "rem_swa_tokens": 20, "size_swa": 20, "rem_chunk_tokens": None}, None, {"free": 20, "window": 25}),
    ({"prefix_len": 6, "extend_len": 14, "rem_chunk_tokens": 13}, 10, {"n": 14, "hit": 6, "free": 100}),
])  # fmt: skip
def test_admission_with_its_numbers(change, tokens, because):
    found = admission(BASE._replace(**change))
    assert (found.value, found.because) == (tokens, {"n": 20, "hit": 4, **because})


@pytest.mark.parametrize(("chunk", "share"), [(4, 4), (7, 7), (8, 4), (12, 8), (15, 8)])
def test_a_chunk_keeps_a_page_for_itself(chunk, share):
    """A page has four tokens, and the waiting request one to evaluate."""
    assert chunk_share(30, [WaitingRequest(12, 11, 1, False, 0)], chunk, 4) == share
