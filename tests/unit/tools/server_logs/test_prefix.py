"""Lengths of prefixes, from what a log prints of them."""

from __future__ import annotations

from cachesim.tools.server_logs.session import Logged
from cachesim.tools.server_logs.slot_contents import (
    LADDER,
    SlotText,
    WordRange,
    held_by_shares,
    ladder,
    prefix_by_shares,
    thold,
)


def text(size, prompt=0):
    return SlotText((WordRange("A", size, size),), prompt)


def lengths(f_sim, f_keep, held, n_tokens, **more):
    mine = text(held, more.pop("prompt", 0))
    return [lcp for lcp, _ in prefix_by_shares(Logged(0, f_sim=f_sim, f_keep=f_keep, **more), mine, n_tokens)]


def test_every_length_that_prints_as_these_shares_is_offered_and_no_other():
    held, n_tokens = 10_000, 4_000
    for lcp in (0, 1, 1_234, 3_999):
        f_sim, f_keep = round(lcp / n_tokens, 3), round(lcp / held, 3)
        found = lengths(f_sim, f_keep, held, n_tokens)
        assert lcp in found and len(found) == len({*found})
        assert all(abs(one / n_tokens - f_sim) < 0.00051 and abs(one / held - f_keep) < 0.00051 for one in found)


def test_one_length_that_fits_is_no_assumption():
    assert list(prefix_by_shares(Logged(0, f_sim=0.5, f_keep=0.25), text(40), 20)) == [(10, "")]
    assert list(prefix_by_shares(Logged(0, f_sim=None, f_keep=0.25), text(40), 20)) == [(10, "")]
    [(_, why), *_] = prefix_by_shares(Logged(0, f_sim=0.5, f_keep=0.25), text(4_000), 2_000)
    assert why == "a common prefix of 1000 tokens (999 to 1001 print the same shares)"


def test_likely_lengths_come_first():
    first, *_ = lengths(0.5, 0.25, 40_000, 20_000, cache_n=10_003)
    assert first == 10_003
    assert lengths(0.5, 0.25, 40_000, 20_000, prompt=9_995)[0] == 9_995
    assert lengths(0.5, 0.25, 40_000, 20_000, checked=[(0, 1, 9_992)])[:2] == [9_992, 9_993]
    assert lengths(0.5, 0.25, 40_000, 20_000)[0] == 10_000


def test_shares_say_how_much_the_slot_held():
    assert held_by_shares(Logged(0, f_sim=0.5, f_keep=0.25, n_tokens=100)) == 200
    assert held_by_shares(Logged(0, f_sim=0.5, f_keep=0.0, n_tokens=100)) is None
    assert held_by_shares(Logged(0, f_keep=0.5, n_tokens=100)) is None


def test_a_threshold_is_the_prefix_or_one_less_beneath_the_window():
    one = Logged(0, checked=[(0, 1, 50), (0, 1, 60)])
    assert thold(one) == (50, 51) and thold(one, 128) == (178, 179) and thold(Logged(0)) == ()


def test_checkpoints_that_were_seen_lead_to_prompts_that_leave_them():
    assert ladder(Logged(0), 300) == ([300], 1)
    one = Logged(0, checked=[(0, 95, 0), (0, 195, 0)])
    assert ladder(one, 300) == ([100, 200], 101) and ladder(one, 300, end=1) == ([97, 197], 104)
    assert ladder(Logged(0, restored=96), 100) == ([100], 1)
    assert ladder(one, 5_000) == ([100, 200, 5_000], 1)               # no answer is that long
    assert ladder(Logged(0, checked=[(0, 95, 0), (0, 95 + 64, 0)]), 300) == ([164], 137)      # a micro-batch before
    many = Logged(0, checked=[(0, 10 * number, 0) for number in range(30)])
    assert len(ladder(many, 400)[0]) == LADDER
