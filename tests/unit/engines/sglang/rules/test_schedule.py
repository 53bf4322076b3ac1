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


BASE = AdmissionCandidate(20, 4, 10, True, 64, 16, 100, None, 0, 0, 4)


@pytest.mark.parametrize(("change", "tokens"), [
    ({}, 16), ({"chunk": None}, 20), ({"chunk": 20}, 20), ({"chunk": 3}, 0), ({"total": 34}, None), ({"total": 35}, 16),
    ({"chunk": None, "first": False, "input": 20}, 0), ({"chunk": None, "first": False, "input": 21}, 20),
    ({"hit": 5, "page": 1}, 16), ({"window": 40, "size": 64, "width": 8}, 16),
    ({"window": 20, "size": 64, "width": 8}, None), ({"window": 18, "size": 20, "width": 8}, 4),
    ({"chunked": True}, 0), ({"chunked": True, "chunk": 20}, 20),
])  # fmt: skip
def test_admission(change, tokens):
    assert admission(BASE._replace(**change)).value == tokens


def test_a_window_needs_what_a_chunk_adds_to_it():
    assert window_need(20, 10, 16, 8, 4) == 8 + 8 + 4 and window_need(2, 1, None, 8, 4) == 3 + 4


def test_a_started_prompt_continues_without_room_unless_it_has_windows():
    assert (next_chunk(16, 10, None, 4), next_chunk(16, -3, None, 4), next_chunk(16, -3, 9, 4)) == (10, 16, 0)
    assert next_chunk(16, 30, 9, 4) == 5


@pytest.mark.parametrize(("left", "chunk", "share"), [
    (30, 16, 8), (6, 16, 16), (30, 7, 7), (30, 40, 16), (12, 40, 32),
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
