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
    ({"chunk": 20}, 20, {"free": 100}), ({"chunk": 19}, 16, {"free": 100}),
    ({"n": 17, "chunk": 20}, 17, {"n": 17, "free": 100}), ({"n": 17, "chunk": 19}, 16, {"n": 17, "free": 100}),
    ({"total": 34}, None, {"free": 34, "needed": 35, "answer": 10}),
    ({"total": 40, "loads": 5}, 16, {"free": 40}), ({"total": 39, "loads": 5}, None,
                                                   {"free": 39, "needed": 40, "answer": 10}),
    ({"answer": 9000, "total": 4120}, None, {"free": 4120, "needed": 4121, "answer": 4096}),
    ({"answer": 9000, "total": 4121}, 16, {"free": 4121}),
    # 8 tokens of the chunk beyond the window, a window, and a page of 4
    ({"window": 21, "size": 64, "width": 8}, 16, {"free": 100}),
    ({"window": 20, "size": 64, "width": 8}, None, {"free": 20, "window": 21}),
    ({"window": 25, "size": 64, "width": 8, "window_loads": 3}, 16, {"free": 100}),
    ({"window": 24, "size": 64, "width": 8, "window_loads": 3}, None, {"free": 24, "window": 25}),
    ({"window": 20, "size": 20, "width": 8}, 8, {"free": 100}), ({"window": 20, "size": 21, "width": 8}, None,
                                                               {"free": 20, "window": 21}),
    ({"window": 15, "size": 20, "width": 8}, None, {"free": 15, "window": 21}),
    ({"window": 20, "size": 20, "width": 8, "chunk": None}, None, {"free": 20, "window": 25}),
    ({"hit": 6, "n": 14, "chunk": 13}, 10, {"n": 14, "hit": 6, "free": 100}),
])  # fmt: skip
def test_admission_with_its_numbers(change, tokens, because):
    found = admission(BASE._replace(**change))
    assert (found.value, found.because) == (tokens, {"n": 20, "hit": 4, **because})


@pytest.mark.parametrize(("chunk", "share"), [(4, 4), (7, 7), (8, 4), (12, 8), (15, 8)])
def test_a_chunk_keeps_a_page_for_itself(chunk, share):
    """A page has four tokens, and the waiting request one to evaluate."""
    assert chunk_share(30, [WaitingRequest(12, 11, 1, False, 0)], chunk, 4) == share
