"""Slot selection in older builds: named slots, shares of a slot, completions of one prompt."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.rules import older_slot_selection as older
from cachesim.engines.llama_cpp.rules import slot_selection as rules
from cachesim.engines.llama_cpp.rules.slot_selection import IdlePlan, SlotFacts


def slot(number, held=0, lcp=0, t_last=-1, busy=False):
    return SlotFacts(number, busy, held, lcp, t_last)


def chosen(decision):
    return None if decision.value is None else tuple(decision.value)


@pytest.mark.parametrize("select", [older.slot_select_0, older.slot_select_1], ids=lambda one: one.rule)
def test_a_slot_that_does_not_exist_is_not_selected(select):
    slots = [slot(0, 9, 9), slot(1, busy=True)]
    assert [chosen(select(slots, 9, number, 0.1)) for number in (0, 1, 2, -2)] == [
        (0, "name", 0.0, 0.0, False), (1, "name", 0.0, 0.0, False), None, None]  # fmt: skip


def test_the_similarity_counts_tokens_of_the_prompt_and_before_16391_tokens_of_the_slot():
    slots = [slot(0, 10, 6, 5), slot(1, 8, 7, 6), slot(2, 7, 7, 7)]
    assert chosen(older.slot_select_1(slots, 14, -1, 0.1)) == (1, "lcp", 0.5, 0.875, False)
    assert chosen(older.slot_select_0(slots, 14, -1, 0.1)) == (1, "lcp", 0.875, 0.875, False)
    half = [slot(0, 10, 5, 5), slot(1, 4, 2, 6)]
    assert chosen(older.slot_select_0(half, 14, -1, 0.5)) == (0, "lru", 0.0, 0.0, False)
    assert chosen(older.slot_select_0(slots, 14, -1, 0.0)) == (0, "lru", 0.0, 0.0, False)
    assert chosen(older.slot_select_0([slot(0, 1, 1, 0, True), slot(1)], 14, -1, 0.1)) == (1, "lru", 0.0, 0.0, False)
    assert chosen(older.slot_select_0([slot(0, 1, 1, 0, True)], 14, -1, 0.1)) is None
    assert chosen(older.slot_select_0([slot(0, 2, 1, 3)], 14, -1, 0.1)) == (0, "lcp", 0.5, 0.5, False)


def test_busy_and_empty_slots_do_not_end_the_search_for_the_longest_prefix():
    slots = [slot(0, 9, 9, 0, True), slot(1), slot(2, 4, 3, 1)]
    assert chosen(older.slot_select_0(slots, 14, -1, 0.1)) == (2, "lcp", 0.75, 0.75, False)


def test_idle_slots_and_completions_of_a_prompt():
    assert older.idle_save_none(True, 9).value == IdlePlan(False, False, "")
    found = [rule(3) for rule in (rules.children_copy, older.children_selected, older.children_last,
                                  older.children_evaluate, older.children_ignored)]  # fmt: skip
    assert [one.value for one in found] == ["copied", "selected", "last", "each", "ignored"]
    assert [one.because for one in found] == [{"n": 3}] * 5


@pytest.mark.parametrize(("id_slot", "modulo", "exact"), [
    (0, 0, 0), (2, 2, 2), (3, 0, None), (7, 1, None), (-1, 0, None), (-2, 2, None),
])  # fmt: skip
def test_a_slot_for_a_file_is_that_of_the_number_or_of_its_remainder(id_slot, modulo, exact):
    """-1 is 2^64 - 1 as an unsigned number, a multiple of 3."""
    assert rules.slot_id_modulo(id_slot, 3).value == modulo and rules.slot_id_exact(id_slot, 3).value == exact


@pytest.mark.parametrize(("id_slot", "choice"), [(1, (1, "id", 0.0, 0.0, True)), (3, (1, "id", 0.0, 0.0, True))])
def test_a_busy_named_slot_has_no_similarity(id_slot, choice):
    assert chosen(rules.slot_select_3([slot(0), slot(1, 9, 9, 0, True)], 9, id_slot, 0.1)) == choice


def test_a_named_slot_has_its_similarity_and_its_share():
    slots = [slot(0), slot(1, 8, 6)]
    found = rules.slot_select_3(slots, 12, 1, 0.1)
    assert (chosen(found), found.because["found"], found.because["held"]) == ((1, "id", 0.5, 0.75, False), True, 8)
    wrapped = rules.slot_select_3(slots, 12, 3, 0.1)
    assert (chosen(wrapped), wrapped.because["found"]) == ((1, "id", 0.0, 0.0, True), False)
    assert chosen(rules.slot_select_3(slots, 12, 1, 0.0)) == (1, "id", 0.0, 0.0, False)
    assert chosen(rules.slot_select_2(slots, 12, 1, 0.1)) == (1, "name", 0.0, 0.0, False)
    assert chosen(rules.slot_select_3(slots, 12, -1, 0.1)) == (1, "lcp", 0.5, 0.75, False)
    assert chosen(rules.slot_select_3([slot(0)], 12, -1, 0.1)) == (0, "lru", 0.0, 0.0, True)


@pytest.mark.parametrize(("decision", "value"), [
    (rules.purge_if_unified(True), True), (rules.purge_if_unified(False), False), (rules.purge_none(True), False),
    (rules.waiting_keeps(5), False), (rules.like_by_prefix((1, 2, 3), (1, 2, 4, 5)), 2),
    (rules.like_by_prefix((), (1,)), 0), (rules.copied_after_view(9, 4), True),
])  # fmt: skip
def test_purges_and_copies(decision, value):
    assert decision.value == value
