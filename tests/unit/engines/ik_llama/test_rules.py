"""Rules whose results can be derived by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest

from cachesim.engines.ik_llama.profiles import BESIDE, LINE, PROFILES
from cachesim.engines.ik_llama.rules import checkpoint_create as make
from cachesim.engines.ik_llama.rules import checkpoint_restore as use
from cachesim.engines.ik_llama.rules.common_prefix import (
    CommonLength,
    common,
    discarded,
    prefix_loose,
    prefix_strict,
    prompt_empty,
)
from cachesim.engines.ik_llama.rules.context_shift import keep_tokens, shift_context, shift_in_cache, shift_prompt
from cachesim.engines.ik_llama.rules.prompt_cache import EntryFacts, pick_kept
from cachesim.engines.ik_llama.rules.slot_selection import (
    ShiftedPrefix,
    SlotFacts,
    compare_shifted,
    save_if_little_kept,
    similarity,
    slot_select,
)
from cachesim.engines.ik_llama.rules.trim import RemovalRepair, failed_companion, failed_reset
from cachesim.engines.shared.vocab import PIECES, recorded_piece


def ckpt(pos, n=None):
    return use.Ckpt(pos, pos, pos, pos, n or pos + 1, 0)


def ask(n_past, held=200, private=False):
    return use.RestoreInputs(n_past, n_past, held, held - 1, True, private)


def words(*pieces):
    return [PIECES.index(piece) for piece in pieces]


def test_an_empty_prompt_is_answered_at_once():
    assert (prompt_empty(0).value, prompt_empty(1).value) == (True, False)
    assert float(similarity(0, 0, 0)) == 0.0


def test_what_is_kept_at_the_beginning():
    """The default of 16 applies to a request without n_keep, but not to n_keep 0. A negative n_keep keeps the prompt,
    at most context - 4, in a shift during generation, and nothing in a prompt that is too long."""
    assert [keep_tokens(asked, 16).value for asked in (40, None, 0, -1)] == [40, 16, 0, -1]
    assert shift_context(255, 100, -1, 0, 256).value == (100, 155, 77)
    assert shift_context(255, 253, -1, 0, 256).value == shift_context(255, 9, 500, 0, 256).value == (252, 3, 1)
    assert shift_context(255, 100, 16, 30, 256).value == (16, 239, 30)
    assert shift_context(255, 100, 16, -1, 256).value is None
    assert shift_prompt(300, -1, 0, 256).value == (0, 128, 128)


def test_blanks_that_one_side_lacks_are_passed_over_or_not():
    held, asked = words("a", " ", "b", "c"), words("a", "b", "c", "d")
    assert common(held, asked, recorded_piece, strict=False) == (4, 3)
    assert common(held, asked, recorded_piece, strict=True) == (1, 1)
    assert prefix_loose(held, asked, recorded_piece).value == (4, 3)
    assert prefix_strict(held, asked, recorded_piece).value == (1, 1)     # the gain is not more than 20


def test_similarity_as_recorded():
    assert float(similarity(100, 300, 103)) == 0.49627792835235596
    assert float(similarity(216, 349, 294)) == 0.6718506813049316


GAPS = [([5, 9], 0), ([5, 9, 11], 1), ([63, 127, 191, 194], 2), ([63, 127, 194, 255], 2),
        ([5, 8, 13, 16, 25], 2)]                    # 3 * (5 / 25), rounded, is more than 5 * (3 / 25)


@pytest.mark.parametrize(("x", "gone"), GAPS)
def test_the_variance_rule_spares_both_ends(x, gone):
    assert make.evict_by_option([ckpt(pos) for pos in x], "variance").value == gone
    assert make.evict_by_option([ckpt(pos) for pos in x], "fifo").value == 0


def test_2491_spares_the_end_of_the_prompt():
    """By gaps alone 194 would go. It counts for the gaps of its neighbours, of which 127 goes then."""
    ckpts = [ckpt(pos) for pos in (63, 127, 194, 255)]

    def gone(ckpts, how="variance"):
        return make.evict_but_prompt_end(ckpts, how).value

    marked = [c._replace(prompt_end=c.pos_max == 194) for c in ckpts]
    assert (gone(ckpts), gone(marked), gone(marked, "fifo")) == (2, 1, 0)
    assert [gone(marked[k:]) for k in range(4)] == [1, 0, 1, 0]            # another is evicted, oldest first
    assert gone([c._replace(prompt_end=True) for c in ckpts]) == 2         # nothing else can


def grown(how, last, limit=6, step=3072):
    """Return the checkpoints, in steps, after a prompt with a checkpoint every ``step`` tokens, at most ``limit``
    kept."""
    x = []
    for pos in range(step - 1, last, step):
        if len(x) == limit:
            del x[make.evict_by_option([ckpt(p) for p in x], how).value]
        x.append(pos)
    return [(p + 1) // step for p in x]


def test_catalogue_ik25_a_prompt_growing_to_60k():
    """In units of 3072. The first evictions by hand; at 60k, as run, the report's gap of tens of thousands of tokens is
    there: nothing between 33,792 and 55,296."""
    assert [grown("variance", n * 3072) for n in (6, 7, 8, 9, 10)] == [
        [1, 2, 3, 4, 5, 6], [1, 3, 4, 5, 6, 7], [1, 3, 5, 6, 7, 8], [1, 3, 5, 7, 8, 9], [1, 3, 5, 7, 9, 10],
    ]
    assert grown("fifo", 60_000) == [14, 15, 16, 17, 18, 19]
    assert grown("variance", 60_000) == [1, 5, 7, 11, 18, 19]


def test_tolerance_cuts_the_batch():
    assert make.break_tolerance(0, 100, 64, 5).value == (64, False)
    assert make.break_tolerance(64, 100, 64, 5).value == (95, True)
    assert make.break_tolerance(95, 100, 64, 5).value == (100, False)
    assert make.break_tolerance(0, 100, 200, 0).value == (100, True)


def test_a_companion_alone_that_refuses():
    assert failed_reset(True, False).value == RemovalRepair(reset=True)
    assert failed_companion(True, False).value == RemovalRepair(wipe=True)
    assert failed_companion(False, True).value == RemovalRepair(reset=True)
    assert failed_reset(True, True).value == failed_companion(True, True).value == RemovalRepair()


def test_a_prompt_too_long_loses_whole_blocks_as_recorded():
    assert shift_prompt(257, 16, 0, 256).value == (16, 120, 120)
    assert shift_prompt(566, 0, 0, 512).value == (0, 256, 256)
    assert shift_prompt(1000, 0, 0, 512).value == (0, 256, 512)
    assert shift_prompt(511 + 40, 0, 20, 512).value == (0, 20, 40)
    assert shift_prompt(300, 255, 0, 256).value is None                  # a block of none


def test_what_a_shift_discards_is_looked_for_in_the_cache():
    """As long as the cache begins with the prompt it is what was planned. Kept tokens that the cache lacks are
    discarded besides; another tokenization moves both ends."""
    def found(keep, total, n_keep, n_discard):
        return shift_in_cache(CommonLength(*keep), CommonLength(*total), n_keep, n_discard).value

    assert found((16, 16), (71, 71), 16, 55) == (16, 55)
    assert found((10, 10), (10, 10), 16, 55) == (16, 61)
    assert found((17, 16), (74, 71), 16, 55) == (17, 57)
    assert found((30, 30), (30, 30), 50, 40) == (50, 60)         # the prompt has 30 tokens only


def test_nothing_is_discarded_where_nothing_would_be_left_behind():
    assert discarded(range(10), 2, 3) == [0, 1, 5, 6, 7, 8, 9]
    assert discarded(range(5), 2, 3) == [0, 1, 2, 3, 4]
    assert discarded(range(5), 2, 0) == [0, 1, 2, 3, 4]


def test_a_shifted_slot_is_compared_shifted_if_the_prompt_is_too_long():
    """The larger similarity counts: 2 * 43 / (383 + 299) against 2 * 299 / (383 + 299), the second as recorded."""
    assert [compare_shifted(*facts).value for facts in ((256, 639, 512), (256, 511, 512), (0, 639, 512))] == [
        True, False, False,
    ]
    slot = SlotFacts(0, False, 299, 639, 0, 5)
    assert slot_select([slot], -1, 0.1).value == (0, "lru", 0.0)
    chosen = slot_select([slot._replace(shifted=ShiftedPrefix(383, 299, 299))], -1, 0.1).value
    assert chosen == (0, "lcp", 0.8768328428268433)
    better = slot_select([slot._replace(n_prompt=400, shifted=ShiftedPrefix(383, 10, 10))], -1, 0.1).value
    assert better.f_sim == float(similarity(400, 639, 299))


def test_entries_are_compared_shifted_but_kept_by_what_is_there():
    """The shifted prompt contains 90 of an entry's 100 tokens, the unshifted prompt 20."""
    slot = EntryFacts(50, 200, 5, 6)
    entry = EntryFacts(100, 200, 20, 20, shifted=ShiftedPrefix(150, 90, 90))
    assert pick_kept([], slot, 0.1).because["f_keep"] == pytest.approx(6 / 50)      # counted in tokens of the prompt
    assert pick_kept([entry], slot, 0.1).value == 0
    assert pick_kept([entry], slot, 0.5).value is None
    assert pick_kept([entry._replace(shifted=None)], slot, 0.1).because["f_sim"] == float(similarity(20, 200, 100))


def test_neighbours_differ_and_every_difference_names_its_change():
    for old, new in pairwise(LINE):
        found = PROFILES[old].changes(PROFILES[new])
        assert found, (old, new)
        assert all(change.source for change in found), (old, new, found)
    proposed = {PROFILES[name].source for name in BESIDE if "repaired" not in name}
    assert {source.split("#")[1][:4] for source in proposed} == {"1889", "1888", "1877", "2195", "2378", "2441"}


@pytest.mark.parametrize(("f_keep", "held", "least", "n_min", "saves"), [
    (0.4, 10, 0.5, 10, True), (0.5, 10, 0.5, 10, False), (0.4, 9, 0.5, 10, False), (0.4, 0, 0.5, 0, False),
    (0.4, 1, 0.5, 0, True), (0.6, 10, 0.5, 0, False), (0.7, 10, 0.7000000001, 0, False),     # equal in 32 bits
])  # fmt: skip
def test_a_slot_of_which_little_is_kept_is_saved_unless_it_is_short(f_keep, held, least, n_min, saves):
    found = save_if_little_kept(f_keep, held, least, n_min)
    assert found.value == saves
    assert found.because == {"f_keep": f_keep, "held": held, "least_keep": least, "n_min": n_min}
