"""Rules of the radix tree at the boundaries of their arguments: every value is written out."""

from __future__ import annotations

import pytest

from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.rules import host, reported, tree
from cachesim.engines.sglang.rules.schedule import cut_waits_if_shortest, waits_for_twin
from cachesim.engines.sglang.rules.tree import PrefixMatch

F, T = False, True
ALL, ROWS, WINDOWS, STATES = (FULL, SWA, MAMBA), (FULL,), (FULL, SWA), (FULL, MAMBA)


def node(tokens=4, device="", copies="", **fields):
    """Return a node with these parts on the device, and copies of these: F, S, M."""
    made = UnifiedTreeNode(7, key=tuple(range(tokens)), end=20, **fields)
    made.value = [part in device or None for part in "FSM"]
    made.host_value = [part in copies or None for part in "FSM"]
    return made


def test_keys_and_windows_of_a_drafter():
    assert [tree.keys_are_pairs(*args) for args in (("EAGLE", WINDOWS), ("EAGLE", STATES), ("NGRAM", ROWS), ("", ROWS))
            ] == [T, F, F, F]  # fmt: skip
    assert [tree.retained_window(8, draft) for draft in (0, 8, 9)] == [8, 8, 9] and tree.model_window(8, 9) == 8


def test_a_match_reuses_what_all_parts_accept():
    decision = tree.best_hit(PrefixMatch(20, device_hit_length=8, full_kv_hit_length=17))
    assert (decision.value, decision.because) == (8, {"n": 20, "hit": 8, "full": 17})
    assert [tree.branch_point(PrefixMatch(20, hit, full_kv_hit_length=17), grid) for hit, grid in (
        (8, 8), (16, 8), (15, 8), (8, 1), (17, 1), (8, 10), (16, 32))] == [16, None, 16, 17, None, 10, None]


@pytest.mark.parametrize(("device", "copies", "parts", "run", "on_device", "with_copies"), [
    ("F", "", ROWS, 9, (0, T), (0, T)), ("FS", "", WINDOWS, 3, (7, F), (7, F)), ("FS", "", WINDOWS, 4, (8, T), (8, T)),
    ("F", "S", WINDOWS, 9, (0, F), (13, T)), ("F", "S", WINDOWS, 3, (0, F), (7, F)),
    ("F", "", WINDOWS, 9, (0, F), (0, F)), ("FM", "", STATES, 0, (0, T), (0, T)), ("F", "M", STATES, 0, (0, F), (0, T)),
    ("F", "", STATES, 0, (0, F), (0, F)), ("FS", "", ALL, 9, (13, F), (13, F)), ("FSM", "", ALL, 9, (13, T), (13, T)),
    ("FM", "", ALL, 9, (0, F), (0, F)), ("FS", "M", ALL, 4, (8, F), (8, T)),
])  # fmt: skip
def test_a_match_can_end_at_a_node_with_its_window_and_state(device, copies, parts, run, on_device, with_copies):
    one = node(4, device, copies)
    assert tree.accept_node(run, one, parts, window=8) == on_device
    assert tree.accept_copy(run, one, parts, window=8) == with_copies


def test_a_window_of_no_token_still_needs_its_slots():
    assert tree.accept_node(0, node(4, "F"), WINDOWS, window=0) == (0, F)
    assert tree.accept_copy(0, node(4, "F"), WINDOWS, window=0) == (0, F)


def test_spans_that_become_recent():
    assert [tree.recent_span(part, insertion, 8, 4) for part in (SWA, MAMBA) for insertion in (F, T)] == [12, 12, 1, 0]
    assert tree.recent_path(SWA, T, 8, 4) > 1 << 60


def test_insertions_that_count_as_a_use_and_nodes_that_they_end():
    assert [tree.counts_others(end, 8, chunk=F) for end in (7, 8, 9)] == [F, F, T]
    assert [tree.counts_each(9, 8, chunk) for chunk in (F, T)] == [T, F]
    assert [tree.prompt_boundary(8, inserted, parts) for inserted, parts in ((9, 1), (8, 1), (9, 2))] == [8, 0, 0]
    assert tree.no_boundary(8, 9, 1) == 0
    assert [tree.live_from(frontier, 8, 12) for frontier in (0, 8, 9, 11, 12, 20)] == [8, 8, 9, 11, None, None]
    assert [tree.revive_repointed(locked) for locked in (F, T)] == [T, F]
    assert [tree.revive_adopted(locked) for locked in (F, T)] == [T, T]
    assert [tree.capped_leaf(length, 9, 4) for length in (11, 12, 13, 20)] == [0, 0, 1, 8]
    assert tree.capped_leaf(20, 8, 4) == 12 and tree.uncapped_leaf(20, 8, 4) == 0


@pytest.mark.parametrize(("policy", "key"), [
    ("lru", 5.0), ("lfu", (3, 5.0)), ("fifo", 2.0), ("mru", -5.0), ("filo", -2.0), ("priority", (4, 5.0)),
    ("slru", (True, 5.0)),
])  # fmt: skip
def test_the_policy_orders_leaves(policy, key):
    one = node(hit_count=3, last_access_time=5.0, creation_time=2.0, priority=4)
    assert tree.evict_first(policy, one) == key


def test_slru_spares_nodes_of_two_requests():
    assert [tree.evict_first("slru", node(hit_count=uses))[0] for uses in (0, 1, 2, 3)] == [F, F, T, T]


def test_quotas_of_evictions():
    rows = [tree.evict_quota(FULL, asked, freed, 30) for asked, freed in ((9, 0), (9, 20), (40, 0), (0, 5))]
    assert rows == [30, 50, 40, 0]
    for quota in (tree.evict_quota, tree.asked_quota):
        assert [quota(SWA, 9, freed, 30) for freed in (0, 8, 9, 10)] == [9, 9, 0, 0]
    assert tree.asked_quota(FULL, 9, 9, 30) == 0


def test_ancestors_that_stay_as_leaves():
    assert tree.keeps_above(node(device="F"), ALL)
    assert [tree.drops_tombstones_above(node(device=device), WINDOWS) for device in ("F", "FS", "S")] == [F, T, F]


@pytest.mark.parametrize(("part", "letters", "gone"), [
    (SWA, "FSM", ("S", "M")), (SWA, "FS", ("S",)), (SWA, "FM", ("M",)), (MAMBA, "FSM", ("M",)), (MAMBA, "FS", ()),
])  # fmt: skip
def test_a_node_that_loses_its_window_loses_its_state(part, letters, gone):
    inside, copies = tree.drop_inside(part, node(device=letters)), host.drop_copies_inside(part, node(copies=letters))
    assert (inside.value, copies.value) == (gone, gone)
    assert inside.because == copies.because == {"node": 7, "tokens": 4, "end": 20}


def test_a_leaf_is_dropped_with_its_numbers():
    leaf, copy = tree.drop_leaf(SWA, node()), host.drop_host_leaf(node())
    assert (leaf.value, leaf.because) == (7, {"part": "S", "tokens": 4, "end": 20})
    assert (copy.value, copy.because) == (7, {"tokens": 4, "end": 20})


@pytest.mark.parametrize(("held", "most", "locks", "children", "dropped"), [
    (3, 2, 0, 1, T), (2, 2, 0, 1, F), (3, -1, 0, 1, F), (1, 0, 0, 1, T), (3, 2, 1, 1, F), (3, 2, 0, 0, F),
    (3, 2, 0, 2, F),
])  # fmt: skip
def test_states_beyond_the_limit_of_a_path(held, most, locks, children, dropped):
    one = node()
    one.lock_ref[MAMBA] = locks
    one.children = {number: node() for number in range(children)}
    found = tree.drop_excess(held, most, one)
    assert (found.value, found.because) == (dropped, {"node": 7, "end": 20, "held": held, "cap": most})


@pytest.mark.parametrize("exists", [F, T])
def test_a_node_keeps_the_state_that_it_has(exists):
    found = tree.keep_state(exists, 20)
    assert (found.value, found.because) == (not exists, {"start": 20, "exists": exists})


def test_places_of_tracked_states_and_loads_that_were_declined():
    pairs = [(F, F), (F, T), (T, F), (T, T)]
    assert [reported.place_after_launch(*pair) for pair in pairs] == [F, F, T, T]
    assert [reported.place_after_result(*pair) for pair in pairs] == [F, T, F, T]
    assert [reported.place_after_each(*pair) for pair in pairs] == [F, T, T, T]
    assert (reported.state_at_prefix(), host.state_as_matched()) == (T, F)


def test_a_prompt_that_would_be_cut_waits_for_another_one():
    pairs = [(F, F), (F, T), (T, F)]
    assert [reported.cut_waits("fcfs", *pair) for pair in pairs] == [F, T, T]
    assert [cut_waits_if_shortest("fcfs", *pair) for pair in pairs] == [F, F, F]
    assert [cut_waits_if_shortest("shortest-prefill-first", *pair) for pair in pairs] == [F, F, T]
    assert [waits_for_twin(common, 8) for common in (7, 8, 9)] == [F, T, T]
