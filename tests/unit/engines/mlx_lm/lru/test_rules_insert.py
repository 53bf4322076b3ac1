"""Rules of an insert into the prompt cache: keys that are there, prefixes, victims, limits and snapshots."""

from __future__ import annotations

import pytest

from cachesim.engines.mlx_lm.lru import rules_insert as rules
from cachesim.engines.mlx_lm.lru.rules_insert import StoredKeyTreatment
from cachesim.engines.mlx_lm.lru.rules_repaired import snap_evaluated, snap_own
from tests.unit.engines.mlx_lm.lru.toys import Layer


def layers(*sizes, trimmable=True):
    return [Layer(size, trimmable) for size in sizes]


@pytest.mark.parametrize(("rule", "treatment"), [
    (rules.present_replace, StoredKeyTreatment(True)), (rules.present_keep, StoredKeyTreatment(False)),
    (rules.present_count, StoredKeyTreatment(False, owners=1)), (rules.present_only, StoredKeyTreatment(True)),
    (rules.present_replace_count, StoredKeyTreatment(True, owners=1)),
])  # fmt: skip
def test_a_key_that_is_there_is_replaced_or_counted(rule, treatment):
    assert rule() == treatment


@pytest.mark.parametrize(("rule", "removed"), [
    (rules.prune_none, []), (rules.prune_all, [2, 8, 9]), (rules.prune_but_last, [2, 8]),
    (rules.prune_within_reach, [8, 9]),
])  # fmt: skip
def test_prefixes_of_a_trimmable_entry_are_removed(rule, removed):
    assert rule(layers(7, 2), 10, [2, 8, 9]) == removed
    assert rule(layers(7, 2, trimmable=False), 10, [2, 8, 9]) == []


@pytest.mark.parametrize(("rule", "queues", "victim"), [
    (rules.victim_single, (3,), 0), (rules.victim_of_two, (1, 1), 0), (rules.victim_of_two, (2, 1), 0),
    (rules.victim_of_two, (1, 2), 1), (rules.victim_blind, (0, 0, 3), 0), (rules.victim_of_three, (0, 0, 3), 2),
    (rules.victim_blind, (1, 2, 2), 1), (rules.victim_of_three, (1, 2, 2), 1), (rules.victim_of_three, (1, 1, 9), 0),
    (rules.victim_of_three, (1, 2, 3), 2), (rules.victim_blind, (1, 2, 3), 2), (rules.victim_of_three, (0, 3, 1), 1),
])  # fmt: skip
def test_the_oldest_entry_of_a_queue_that_is_no_shorter_than_the_next_is_removed(rule, queues, victim):
    assert rule(queues) == victim


@pytest.mark.parametrize(("entries", "single", "every", "only"), [
    (3, 0, 0, 2), (4, 0, 0, 3), (5, 1, 1, 4), (7, 1, 3, 6),
])  # fmt: skip
def test_entries_beyond_four_are_too_many(entries, single, every, only):
    assert rules.over_count_one(entries, 4) == single
    assert rules.over_count_all(entries, 4) == every
    assert rules.over_count_only(entries, 4) == only


@pytest.mark.parametrize(("size", "entries", "over", "but_one"), [
    (9, 3, False, False), (10, 3, False, False), (11, 3, True, True), (11, 2, True, True), (11, 1, True, False),
])  # fmt: skip
def test_more_than_ten_bytes_are_too_many(size, entries, over, but_one):
    assert rules.over_bytes(size, 10, entries) is over
    assert rules.over_bytes_but_one(size, 10, entries) is but_one
    assert rules.over_bytes_never(size, 10, entries) is False


@pytest.mark.parametrize(("old", "moves"), [(None, False), ((1, 2), False), ((1,), True), ((1, 2, 3), True)])
def test_an_entry_moves_if_it_had_another_key(old, moves):
    assert rules.move_old(old, (1, 2)) is rules.move_only(old, (1, 2)) is moves
    assert rules.move_never(old, (1, 2)) is False


@pytest.mark.parametrize(("boundaries", "given", "by_interval", "last", "evaluated"), [
    ([], [], [], [], []), ([0, 20], [], [], [], []), ([5], [5], [5], [5], [5]),
    ([4, 12, 18], [4, 12, 18], [12, 18], [12, 18], [18]), ([6, 7], [6, 7], [7], [7], [7]),
    ([13, 16], [13, 16], [16], [16], [16]), ([3, 19], [3, 19], [3, 19], [3, 19], [19]),
    ([16, 17, 18, 19], [16, 17, 18, 19], [19], [19], [19]),
])  # fmt: skip
def test_snapshots_lie_at_boundaries_inside_the_key(boundaries, given, by_interval, last, evaluated):
    assert rules.snap_none(20, boundaries, 8) == []
    assert rules.snap_given(20, boundaries, 8) == given
    assert rules.snap_interval(20, boundaries, 8) == by_interval
    assert rules.snap_last(20, boundaries, 8) == last
    assert snap_evaluated(20, boundaries, 8) == evaluated


def test_a_boundary_is_near_a_mark_if_it_is_at_most_half_an_interval_after_it():
    assert rules.snap_interval(9, [8], 4) == [8]
    assert rules.snap_interval(9, [6], 4) == [6] and rules.snap_interval(5, [6], 4) == []
    assert rules.snap_interval(30, [13], 8) == [13] and rules.snap_interval(16, [13], 8) == []
    assert rules.snap_last(16, [13], 8) == [13]


def test_the_copy_for_a_prefix_is_trimmed_by_what_lies_after_it_or_shared():
    assert (rules.snap_copied(20, 12, 25), rules.snap_shared(20, 12, 25), snap_own(20, 12, 25)) == (8, None, 13)


@pytest.mark.parametrize(("trimmable", "together"), [
    ([True, True], [True, True]), ([True, False], [False, False]), ([], []),
])  # fmt: skip
def test_layers_of_a_snapshot_are_trimmed_together_or_each_alone(trimmable, together):
    assert rules.snap_trim_together(trimmable) == together and rules.snap_trim_each(trimmable) == trimmable
