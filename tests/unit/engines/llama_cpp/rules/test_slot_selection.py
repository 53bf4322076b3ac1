"""Slot selection, and the decision to search the prompt cache: spec 3.4, 3.6."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cachesim.engines.llama_cpp.rules.repaired import slot_select_idle
from cachesim.engines.llama_cpp.rules.slot_selection import (
    IdlePlan,
    SlotFacts,
    idle_save_all,
    idle_save_unified,
    keep_share,
    slot_select_2,
    slot_select_3,
)

SL = [slot_select_2, slot_select_3]
by_version = pytest.mark.parametrize("select", SL, ids=lambda fn: fn.rule)


def slot(id, held=0, lcp=0, t=-1, busy=False):
    return SlotFacts(id, busy, held, lcp, t)


def chosen(select, slots, asked=100, id_slot=-1, sps=0.1):
    choice = select(slots, asked, id_slot, sps).value
    return None if choice is None else (choice.slot, choice.by, choice.update)


@by_version
def test_a_fresh_server_uses_its_highest_slot_first(select):
    assert chosen(select, [slot(i) for i in range(4)]) == (3, "lru", True)


@by_version
def test_least_recently_used_and_ties_go_to_the_highest_id(select):
    assert chosen(select, [slot(0, t=5), slot(1, t=2), slot(2, t=9)]) == (1, "lru", True)
    assert chosen(select, [slot(0, t=2), slot(1, t=2), slot(2, t=9)]) == (1, "lru", True)


@by_version
def test_ties_of_similarity_go_to_the_lowest_id(select):
    slots = [slot(0, 50, 10, 9), slot(1, 50, 40, 3), slot(2, 50, 40, 1)]
    assert chosen(select, slots) == (1, "lcp", False)


@by_version
@pytest.mark.parametrize("lcp, asked, sps, by", [
    (11, 100, 0.1, "lcp"),
    (50, 100, 0.5, "lru"),
    (1, 3, 1 / 3, "lru"),           # single precision: 1/3 is the threshold itself
    (1, 10, 0.1, "lru"),            # 0.1 and 1/10 are the same number in single precision
    (100, 100, 1.0, "lru"),
])  # fmt: skip
def test_similarity_must_be_above_the_threshold(select, lcp, asked, sps, by):
    assert chosen(select, [slot(0, 100, lcp)], asked, sps=sps)[1] == by


@by_version
@pytest.mark.parametrize(
    "held, lcp, update", [(100, 50, False), (100, 49, True), (101, 50, True), (99, 50, False), (30, 30, False)]
)
def test_the_prompt_cache_is_searched_if_f_keep_is_below_a_half(select, held, lcp, update):
    assert chosen(select, [slot(0, held, lcp)], asked=100) == (0, "lcp", update)


@by_version
def test_empty_and_busy_slots_are_skipped(select):
    assert chosen(select, [slot(0, busy=True, held=90, lcp=90), slot(1)]) == (1, "lru", True)
    assert chosen(select, [slot(0, busy=True), slot(1, busy=True)]) is None


@by_version
def test_without_a_threshold_every_request_goes_to_the_least_recent_slot(select):
    assert chosen(select, [slot(0, 100, 100, 5), slot(1, 9, 0, 2)], sps=0) == (1, "lru", True)


@by_version
@pytest.mark.parametrize("id_slot, want", [(0, 0), (1, 1), (2, 2), (3, 0), (7, 1)])
def test_a_slot_id_counts_modulo_the_number_of_slots(select, id_slot, want):
    assert chosen(select, [slot(i, 10, 9) for i in range(3)], 10, id_slot)[0] == want


@pytest.mark.parametrize("held, lcp, update", [
    (100, 50, False),
    (100, 49, True),
    (100, 0, True),                 # no match at all: f_keep stays 0
    (0, 0, False),                  # 0/0 is NaN, which is not below a half
])  # fmt: skip
def test_a_named_slot_searches_the_prompt_cache_if_f_keep_is_below_a_half(held, lcp, update):
    assert chosen(slot_select_3, [slot(0), slot(1, held, lcp)], 100, id_slot=1) == (1, "id", update)


def test_f_keep_of_an_empty_named_slot_is_nan():
    assert math.isnan(slot_select_3([slot(0)], 100, 0, 0.1).value.f_keep)


def test_a_named_slot_below_the_similarity_threshold_counts_as_no_match():
    assert chosen(slot_select_3, [slot(0, 8, 8)], 100, id_slot=0) == (0, "id", True)


def test_a_named_busy_slot_is_selected_and_searches_the_prompt_cache():
    assert chosen(slot_select_3, [slot(0, 50, 50, busy=True)], 50, id_slot=0) == (0, "id", True)


def test_without_a_threshold_a_named_slot_never_searches():
    assert chosen(slot_select_3, [slot(0, 50, 0)], 50, id_slot=0, sps=0) == (0, "id", False)


def test_before_24755_a_named_slot_is_selected_without_search():
    assert chosen(slot_select_2, [slot(0, 50, 0)], 50, id_slot=0) == (0, "name", False)


@pytest.mark.parametrize("unified, held, plan", [
    (True, 5, IdlePlan(True, True, "after")), (True, 0, IdlePlan(True, True, "after")),
    (False, 5, IdlePlan(True, True, "")), (False, 0, IdlePlan(True, True, "")),
])
def test_idle_slots_are_saved_always_and_cleared_with_a_unified_cache(unified, held, plan):
    assert idle_save_all(unified, held).value == plan


@pytest.mark.parametrize("unified, held, plan", [
    (True, 5, IdlePlan(True, True, "before")), (True, 1, IdlePlan(True, True, "before")),
    (True, 0, IdlePlan(False, False, "")),
    (False, 5, IdlePlan(False, False, "")),
])
def test_before_24190_only_a_unified_cache_saves_idle_slots(unified, held, plan):
    assert idle_save_unified(unified, held).value == plan


@pytest.mark.parametrize("slots, choice", [
    ([slot(0, 50, 40, 3)], (0, "lcp", False)), ([slot(0)], (0, "lru", True)), ([slot(0, 50, 20, 3)], (0, "lcp", True)),
])  # fmt: skip
def test_the_repaired_selection_asks_the_prompt_cache_for_an_idle_slot_only(slots, choice):
    assert chosen(slot_select_idle, slots) == choice == chosen(slot_select_3, slots)


def test_the_repaired_selection_asks_no_prompt_cache_for_a_busy_slot():
    busy = [slot(0, 50, 20, 3, busy=True)]
    assert chosen(slot_select_3, busy, id_slot=0) == (0, "id", True)
    assert chosen(slot_select_idle, busy, id_slot=0) == (0, "id", False)


def test_the_share_that_is_kept_of_an_empty_slot_is_not_a_number_and_no_warning():
    with np.errstate(all="raise"):
        assert np.isnan(keep_share(np.float32(0), 5, 0))
        assert keep_share(np.float32(0.5), 6, 12) == 0.25
