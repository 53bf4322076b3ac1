"""Prompt cache: saved, loaded and evicted conversations: spec 3.5."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.llama_cpp.rules.prompt_cache import (
    Admission,
    EntryFacts,
    Eviction,
    Limits,
    admit_any,
    admit_strict,
    ask_if_held,
    clear_after_failed_load,
    clone_entry,
    evict_fixed_tokens,
    evict_spare_one,
    evict_strict,
    keep_after_failed_load,
    part,
    pick_entry,
    take_entry,
)

NO_LIMIT = Limits(0, 0)
both = pytest.mark.parametrize("admit", [admit_strict, admit_any], ids=lambda fn: fn.rule)


@pytest.mark.parametrize(("verdict", "stores"), [("store", True), ("already", False), ("too_big", False)])
def test_an_admission_is_true_if_it_stores(verdict, stores):
    assert bool(Admission(verdict)) is bool(Admission(verdict, (1,), 2)) is stores


def entry(n_tokens, lcp, size=100):
    return EntryFacts(n_tokens, lcp, size)


@both
@pytest.mark.parametrize("entries, n_tokens, want", [
    ([], 10, Admission("store")),
    ([entry(10, 10)], 10, Admission("already")),                     # equal
    ([entry(30, 10)], 10, Admission("already")),                     # a beginning of the entry
    ([entry(8, 8)], 10, Admission("store", (0,))),                   # the entry is a beginning of it
    ([entry(8, 7)], 10, Admission("store")),
    ([entry(4, 4), entry(9, 2), entry(6, 6)], 10, Admission("store", (0, 2))),
    ([entry(4, 4), entry(12, 10)], 10, Admission("already")),        # then nothing is dropped either
])  # fmt: skip
def test_admission(admit, entries, n_tokens, want):
    assert admit(entries, n_tokens, 100, NO_LIMIT).value == want


@pytest.mark.parametrize("sizes, size, limit, want", [
    ([], 101, 100, Admission("too_big")),
    ([], 100, 100, Admission("store")),
    ([50, 50], 50, 100, Admission("store", (), 1)),
    ([50, 50], 51, 100, Admission("store", (), 2)),
    ([10, 90], 95, 100, Admission("store", (), 2)),
    ([60, 40], 1, 101, Admission("store")),
    ([60, 40], 99, 0, Admission("store")),                           # no byte limit
])  # fmt: skip
def test_the_oldest_entries_are_evicted_until_the_bytes_fit(sizes, size, limit, want):
    entries = [entry(20, 3, one) for one in sizes]
    assert admit_strict(entries, 10, size, Limits(limit, 0)).value == want


def test_entries_that_become_obsolete_make_room_first():
    entries = [entry(20, 3, 60), entry(5, 5, 40)]
    assert admit_strict(entries, 10, 40, Limits(100, 0)).value == Admission("store", (1,), 0)


def test_too_big_is_decided_before_any_eviction():
    assert admit_strict([entry(5, 5, 40)], 10, 101, Limits(100, 0)).value == Admission("too_big")


def test_already_takes_precedence_over_too_big():
    assert admit_strict([entry(10, 10, 40)], 10, 101, Limits(100, 0)).value == Admission("already")


def test_before_25070_the_size_is_not_checked_when_storing():
    assert admit_any([entry(20, 3, 60)], 10, 1000, Limits(100, 0)).value == Admission("store")


# entries (tokens, lcp), held, lcp of the slot, asked, picked index
@pytest.mark.parametrize("entries, held, lcp, asked, want", [
    ([(28, 28)], 0, 0, 30, 0),                  # an empty slot: base -1
    ([(28, 7)], 0, 0, 30, 0),                   # exactly a quarter
    ([(29, 7)], 0, 0, 30, None),                # less
    ([(28, 28)], 34, 0, 30, 0),
    ([(20, 10)], 20, 10, 30, None),             # as good as the slot is not better
    ([(20, 11)], 20, 10, 30, 0),
    ([(10, 9)], 20, 10, 30, None),              # better share kept, less covered
    ([(40, 15)], 20, 10, 30, None),             # covers more, keeps less
    ([(40, 20)], 20, 10, 30, None),             # covers more, keeps the same share
    ([(10, 10)], 20, 10, 30, None),             # keeps all, covers the same share
    ([(20, 15), (40, 29)], 20, 0, 30, 0),       # both bounds are raised: the longer has a smaller f_keep
    ([(20, 15), (20, 16)], 20, 0, 30, 1),
    ([(20, 15), (20, 15)], 20, 0, 30, 0),       # ties go to the older
    ([(20, 0)], 0, 0, 30, None),
    ([], 0, 0, 30, None),
])  # fmt: skip
def test_picked_entry(entries, held, lcp, asked, want):
    assert pick_entry([entry(n, same) for n, same in entries], held, lcp, asked).value == want


def test_shares_are_single_precision():
    assert part(1, 3).dtype == np.float32
    n = (1 << 24) + 1                           # not a float32: equals 2**24 there
    assert pick_entry([entry(n, n)], 1 << 24, (1 << 24) - 1, n).value == 0
    assert pick_entry([entry(n, n - 1)], n - 1, n - 1, n).value is None
    assert part(n, n - 1) == 1


def test_a_hit_removes_the_entry_and_24143_keeps_it():
    assert (take_entry(0).value, clone_entry(0).value) == (True, False)


BIG = 1 << 20


@pytest.mark.parametrize("sizes, lengths, limits, want", [
    ([60, 50], [10, 10], Limits(100, 0), Eviction(1, 0, 20)),               # 50 bytes are left for 10 tokens: 5 a token
    ([100], [10], Limits(100, 0), Eviction(0, 0, 10)),
    ([101], [10], Limits(100, 0), Eviction(1, 0, 100)),                     # the last may go; then 1 byte/token
    ([10, 10], [300, 300], Limits(0, 500), Eviction(0, 1, 500)),                # tokens only
    ([10], [501], Limits(0, 500), Eviction(0, 1, 500)),
    ([10], [500], Limits(0, 500), Eviction(0, 0, 500)),
    ([10], [501], Limits(0, 0), Eviction(0, 0, 0)),                             # no limits at all
    ([1000, 1000], [10, 10], Limits(BIG, 15), Eviction(0, 0, 10485)),           # 2**20 / 100, cut down
])  # fmt: skip
def test_update(sizes, lengths, limits, want):
    assert evict_strict(sizes, lengths, limits).value == want


def test_the_token_limit_is_computed_in_single_precision():
    n = (1 << 24) + 1                           # 2**24 in single precision, so exactly a fifth of the limit
    assert evict_strict([n], [1], Limits(5 << 24, 1)).value.est == 5
    assert int((5 << 24) / n) == 4


def test_a_token_counts_as_at_least_one_byte():
    assert evict_strict([10], [100], Limits(1000, 1)).value.est == 1000


def test_the_token_limit_does_not_grow_during_evictions():
    # Computed over both entries (est 1000): the oldest is evicted although the rest would allow more.
    found = evict_strict([900, 100], [100, 950], Limits(1000, 1)).value
    assert (found.for_tokens, found.est) == (1, 1000)


def test_before_25070_one_entry_always_stays():
    assert evict_spare_one([101], [10], Limits(100, 0)).value == Eviction(0, 0, 9)
    assert evict_spare_one([101, 102], [10, 10], Limits(100, 0)).value.for_size == 1
    assert evict_spare_one([10], [501], Limits(0, 500)).value == Eviction(0, 0, 500)
    assert evict_spare_one([10, 10], [501, 501], Limits(0, 500)).value == Eviction(0, 1, 500)


@pytest.mark.parametrize("held", [0, 1, 2])
def test_before_20993_an_empty_slot_asks_the_prompt_cache_nothing(held):
    assert ask_if_held(held).value is (held > 0)


def test_a_slot_is_cleared_or_keeps_its_list_after_a_load_that_failed():
    cleared, kept = clear_after_failed_load(7), keep_after_failed_load(7)
    assert (cleared.value, kept.value) == (True, False) and cleared.because == kept.because == {"held": 7}


def test_at_b6740_entries_that_the_bytes_evicted_do_not_count_for_the_token_limit():
    assert evict_fixed_tokens([100, 10], [5, 100], Limits(50, 10)).value == Eviction(1, 0, 10)
    assert evict_fixed_tokens([100, 10, 10], [50, 5, 5], Limits(50, 20)).value == Eviction(1, 0, 20)
    assert evict_fixed_tokens([100, 10, 10], [50, 5, 5], Limits(50, 9)).value == Eviction(1, 1, 9)


def test_at_b6740_one_entry_always_stays():
    assert evict_fixed_tokens([100], [5], Limits(50, 10)).value == Eviction(0, 0, 10)
    assert evict_fixed_tokens([1], [50], Limits(0, 10)).value == Eviction(0, 0, 10)
