"""Rules about adapters, older and proposed ones beside those of b11549."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.rules import adapter_repairs as repairs
from cachesim.engines.llama_cpp.rules import adapters as rules
from cachesim.engines.llama_cpp.rules import older_adapters as older
from cachesim.engines.llama_cpp.rules.adapters import Adapter, RequestScales, SavedAdapters

POOL = Adapter(0.0), Adapter(0.0, (7, 8, 9)), Adapter(0.0, (5,))
NONE, PLAIN, FIRST, SECOND, OFF = (), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.0)
NEGATIVE, BOTH = (-1.0, 0.0, 0.0), (1.0, 1.0, 0.0)


@pytest.mark.parametrize(("before", "now", "newest", "compared", "always"), [
    (NONE, PLAIN, True, True, True), (NONE, FIRST, False, False, True), (PLAIN, PLAIN, False, False, False),
    (PLAIN, OFF, True, True, True), (OFF, PLAIN, True, True, True), (OFF, FIRST, False, False, False),
    (FIRST, SECOND, False, False, False), (FIRST, OFF, True, True, True), (FIRST, PLAIN, True, True, True),
    (PLAIN, FIRST, True, True, True), (NEGATIVE, FIRST, False, False, True), (BOTH, FIRST, True, True, True),
    (FIRST, BOTH, True, True, True), (NONE, OFF, True, True, True),
])  # fmt: skip
def test_a_slot_loses_its_tokens_unless_only_aloras_change(before, now, newest, compared, always):
    for asked in (0, 1):
        lists = RequestScales(before, now, asked)
        found = [rule(lists, POOL).value for rule in (rules.clear_for_list, older.clear_compared, repairs.clear_always)]
        assert found == [newest and asked == 1, compared, always]


@pytest.mark.parametrize(("given", "accepted"), [((), True), ((0, 2), True), ((3,), False), ((0, -1), False)])
def test_a_list_with_an_unknown_adapter_was_refused(given, accepted):
    assert older.ids_refused(given, 3).value == ("" if accepted else "invalid adapter id")
    assert rules.ids_ignored(given, 3).value == ""


@pytest.mark.parametrize(("n_past", "start", "newest", "below", "first"), [
    (40, 20, 19, 19, 19), (10, 20, 10, 10, 10), (40, 1, 0, 0, 0), (40, 0, 40, -1, 0), (19, 20, 19, 19, 19),
])  # fmt: skip
def test_the_reused_tokens_end_before_an_invocation(n_past, start, newest, below, first):
    assert rules.cap_before_start(n_past, start).value == newest
    assert older.cap_below_zero(n_past, start).value == below
    assert repairs.cap_at_first(n_past, start).value == first


@pytest.mark.parametrize(("held", "start", "active", "follows", "stop", "leading"), [
    (0, 20, True, False, 19, 19), (0, 20, True, True, 19, -1), (19, 20, True, True, 0, 0), (0, 20, False, True, 0, 0),
    (18, 20, True, False, 19, 19), (0, 1, True, True, 0, 0),
])  # fmt: skip
def test_a_slot_whose_prompt_is_split_leads_its_batch(held, start, active, follows, stop, leading):
    assert rules.split_at_start(held, start, active, follows).value == stop
    found = repairs.split_if_leading(held, start, active, follows)
    assert (found.value, found.because) == (leading, {"held": held, "start": start, "follows": follows})


SLOT = SavedAdapters((1.0, 0.5), 3)


@pytest.mark.parametrize(("file", "noted"), [
    (None, SavedAdapters(())), (SavedAdapters((0.0, 1.0), 2), SavedAdapters((0.0, 1.0), 2)),
    (SavedAdapters((0.0,), 2), SavedAdapters(())), (SavedAdapters((0.0, 0.0, 1.0)), SavedAdapters(())),
])  # fmt: skip
def test_a_slot_has_after_a_restore_its_own_scales_unknown_ones_or_those_of_the_file(file, noted):
    assert rules.restored_under_own(SLOT, file, 2).value == SavedAdapters((1.0, 0.5))
    assert repairs.restored_under_unknown(SLOT, file, 2).value == SavedAdapters(())
    found = repairs.restored_under_noted(SLOT, file, 2)
    assert (found.value, found.because) == (noted, {"own": SLOT.scales, "file": file.scales if file else None})


@pytest.mark.parametrize(("decision", "value"), [
    (rules.forget_tokens(5), False), (older.forget_list(5), None), (repairs.forget_memory(5), True),
    (rules.start_stays(7), 7), (older.start_forgotten(7), -1), (repairs.start_resets(7), -1),
    (rules.leads_if_filled(), False), (older.leads_unfilled(), True),
    (older.lead_asserts(), "GGML_ASSERT(task) failed"),
    (rules.invocation_read([7, 8]), (7, 8)), (older.invocation_ignored([7, 8]), ()),
    (rules.save_by_likeness(PLAIN, FIRST), False), (repairs.save_before_change(PLAIN, FIRST), True),
    (repairs.save_before_change(PLAIN, PLAIN), False),
    (rules.entry_notes_nothing(SLOT), None), (repairs.entry_notes_list(SLOT), SavedAdapters((1.0, 0.5))),
    (repairs.entry_notes_rows(SLOT), SLOT), (rules.back_to_leader(1, 2), 2), (repairs.back_to_split(1, 2), 1),
    (rules.rows_count_alike(9, 4), 9), (repairs.cap_at_rows(9, 4), 4), (repairs.cap_at_rows(3, 4), 3),
    (repairs.cap_at_rows(9, -1), 9), (rules.chunks_behind_cap(3, 4), True),
    (repairs.chunks_without_start(3, -1), False),
    (rules.scales_at_start(PLAIN, False), PLAIN), (rules.joins_batch(NONE, NONE), True),
])  # fmt: skip
def test_what_a_slot_an_entry_and_a_batch_know_of_adapters(decision, value):
    assert decision.value == value


def test_a_request_with_several_aloras_says_which():
    found = rules.one_activated((0.0, 1.0, 0.5), POOL)
    assert (found.value, found.because) == ("Cannot run multiple aLoRAs in a single request", {"enabled": [1, 2]})
    assert rules.one_activated((1.0, 1.0, 0.0), POOL).value == ""


@pytest.mark.parametrize(("read", "text", "message"), [
    (rules.read_adapters, "1, x", "lora '1, x', expected adapters as in 1, 0.5, 0@101.102"),
    (rules.read_scales, "0", "lora '0', expected scales as in 0:1, 2:0.5"),
])  # fmt: skip
def test_a_wrong_list_says_what_is_expected(read, text, message):
    with pytest.raises(Exception, match=f"^{message.replace('.', '[.]')}$"):
        read(text)


def test_scales_are_single_precision():
    assert rules.read_scales("0:0.1") == {0: 0.10000000149011612}
    assert rules.read_adapters(" ") == () and rules.read_adapters("-0.5@3") == (Adapter(-0.5, (3,)),)
