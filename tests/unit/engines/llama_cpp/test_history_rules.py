"""Boundary values of the rules of older builds, a row per boundary; numbers from the history document, section 2."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.llama_cpp.rules import checkpoint_create as make
from cachesim.engines.llama_cpp.rules import older_checkpoint_create as old_make
from cachesim.engines.llama_cpp.rules import older_checkpoint_restore as old
from cachesim.engines.llama_cpp.rules import older_slot_selection, prompt_lifecycle, seq_rm_and_state, startup
from cachesim.engines.llama_cpp.rules import prompt_cache as pc
from cachesim.engines.llama_cpp.rules.checkpoint_facts import Chunk, Ckpt, PromptInputs, ResumePlace
from cachesim.engines.llama_cpp.rules.slot_selection import SlotFacts


def ask(x, held=200, pos_min=0, n_swa=0, asked=300, exact=True):
    return PromptInputs(x, x, held, asked, pos_min, n_swa, exact)


RS_RM = (seq_rm_and_state.rs_rm_0, seq_rm_and_state.rs_rm_1, seq_rm_and_state.rs_rm_2)


def state(n, task=0):
    """Return a checkpoint of a recurrent model with n tokens."""
    return Ckpt(n, n - 1, n - 1, task, 10)


def window(lo, hi):
    return Ckpt(hi + 1, lo, hi, 0, 10)


def chunk(start, n, starts=(), room=64, n_batch=64, n_ubatch=16, step=8192, do=True):
    return Chunk(start, n, room, n_batch, n_ubatch, starts, step, do, 0)


@pytest.mark.parametrize("rule, asked, thold, search", [
    (old.need_th0, ask(100, pos_min=69, n_swa=32), 68, True),
    (old.need_th0, ask(100, pos_min=68, n_swa=32), 68, False),        # equal is enough
    (old.need_th1, ask(100, pos_min=99), 99, False),                  # a missing window counts as 1
    (old.need_th1, ask(100, pos_min=100), 99, True),
    (old.need_th1, ask(20, n_swa=32), 0, False),                      # prefix within the window: complete
    (old.need_th2, ask(20, n_swa=32), 0, True),                       # ">=": searched anyway (D7)
    (old.need_th2, ask(100, pos_min=100), 100, True),
    (old.need_th2, ask(100, pos_min=99), 100, False),
    (old.need_th2, ask(200, pos_min=199, asked=200), 200, False),     # the slot has the whole prompt: no search
    (old.need_th0, ask(0, pos_min=199), 0, False),
])
def test_need(rule, asked, thold, search):
    assert rule(asked).value == (thold, search)


@pytest.mark.parametrize("rule, thold, want", [
    (old.pick_pk0, 99, 1), (old.pick_pk0, 98, 0), (old.pick_pk1, 100, 1), (old.pick_pk1, 99, 0),
    (old.pick_pk1, 0, None),
])
def test_pick(rule, thold, want):
    assert rule([state(50), state(100)], ask(100), thold).value == want


def test_a_window_from_0_is_not_before_0():
    assert old.pick_pk1([window(0, 99)], ask(20, n_swa=32), 0).value is None


@pytest.mark.parametrize("rule, ckpt, x, want", [
    (old.resume_re0, window(24, 279), 320, (279, 279)),
    (old.resume_re1, state(66), 100, (66, 66)),
    (old.resume_re1, window(24, 279), 320, (279, 279)),
    (old.resume_re2, state(66), 100, (66, 67)),                       # a token too late
    (old.resume_re2, window(0, 65), 400, (65, 66)),
    (old.resume_re3, state(66), 100, (66, 66)),
    (old.resume_re3, window(0, 65), 400, (65, 66)),
])
def test_resume(rule, ckpt, x, want):
    assert rule(ckpt, ask(x, held=500)).value[:2] == want


def test_the_first_reset_forgets_every_checkpoint():
    assert old.resume_nothing_forget(ask(5)).value == ResumePlace(0, 0, forget=True)


@pytest.mark.parametrize("rule, asked, resume, gone", [
    (old.erase_er1, ask(60), ResumePlace(40, 40), (2,)),                   # a checkpoint inside the common prefix stays
    (old.erase_er1_newest_first, ask(30), ResumePlace(0, 0), (2, 1)),
    (old.erase_er0, ask(60), ResumePlace(40, 40), ()),                     # no window, nothing to erase
    (old.erase_er0, ask(60, n_swa=8), ResumePlace(40, 40), (2, 1)),
])
def test_erase(rule, asked, resume, gone):
    assert rule([state(20), state(60), state(96)], asked, resume).value == gone


def test_a_window_that_begins_at_0_is_never_erased_by_its_beginning():
    everything_changed = ask(0, n_swa=32), ResumePlace(0, 0)
    assert old.erase_er1([window(0, 65)], *everything_changed).value == ()
    assert old.erase_er0([window(0, 65)], *everything_changed).value == ()


BREAKS = [
    ("CR0: batch size only", old_make.break_cr0, chunk(0, 200), 64),
    ("CR2: 64 before the end", old_make.break_cr2, chunk(128, 200), 136),
    ("CR3: a batch before the end", old_make.break_cr3, chunk(0, 700, room=512, n_batch=512), 188),
    ("CR3: small batch", old_make.break_cr3, chunk(128, 200), 136),
    ("CR5: 4 + n_ubatch", old_make.break_cr5, chunk(128, 200), 180),
    ("CR5: 4", old_make.break_cr5, chunk(180, 200), 196),
    ("CR8: any user message", old_make.break_cr8, chunk(0, 200, starts=(30, 90)), 30),
    ("CR8: without checkpoints too", old_make.break_cr8, chunk(0, 200, starts=(30,), do=False), 30),
    ("CR5: not without checkpoints", old_make.break_cr5, chunk(180, 200, do=False), 200),
]


@pytest.mark.parametrize("rule, piece, stop", [row[1:] for row in BREAKS], ids=[row[0] for row in BREAKS])
def test_break(rule, piece, stop):
    assert rule(piece, []).value == stop


CREATE = [
    ("CR2: last chunk", old_make.create_cr2, chunk(136, 200), 200, [], 135, True),
    ("CR2: not before", old_make.create_cr2, chunk(72, 200), 136, [], 71, False),
    ("CR2: position 64", old_make.create_cr2, chunk(65, 129), 129, [], 64, True),
    ("CR2: position 63", old_make.create_cr2, chunk(64, 128), 128, [], 63, False),
    ("CR2: 64 apart", old_make.create_cr2, chunk(164, 200), 200, [state(100)], 163, False),
    ("CR2: 65 apart", old_make.create_cr2, chunk(165, 200), 200, [state(100)], 164, True),
    ("CR4: near the end is not enough", old_make.create_cr4, chunk(180, 200), 196, [], 179, False),
    ("CR4: due on the way", old_make.create_cr4, chunk(128, 600, step=128), 192, [], 127, True),
    ("CR4: not due", old_make.create_cr4, chunk(127, 600, step=128), 191, [], 126, False),
    ("CR5: near the end", old_make.create_cr5, chunk(180, 200), 196, [], 179, True),
    ("CR5: small", old_make.create_cr5, chunk(1, 69, n_ubatch=64), 65, [], 0, False),
    ("CR6: small, filled to 65", old_make.create_cr6, chunk(1, 69, n_ubatch=64), 65, [], 0, True),
    ("CR6: filled to 63", old_make.create_cr6, chunk(1, 67, n_ubatch=64), 63, [], 0, False),
    ("CR6: 64 apart", old_make.create_cr6, chunk(164, 200), 200, [state(100)], 163, False),
    ("CR6: 65 apart", old_make.create_cr6, chunk(165, 200), 200, [state(100)], 164, True),
    ("CR8: near the end needs spacing", old_make.create_cr8, chunk(180, 200), 196, [state(80)], 179, False),
    ("CR8: last user start exempt", old_make.create_cr8, chunk(90, 200, (30, 90)), 154, [state(80)], 89, True),
    ("CR8: earlier one not", old_make.create_cr8, chunk(30, 200, (30, 90)), 90, [state(20)], 29, False),
    ("CR1: nothing before a chunk", old_make.create_never, chunk(136, 200), 200, [], 135, False),
]


@pytest.mark.parametrize("rule, piece, stop, ckpts, pos, yes", [row[1:] for row in CREATE], ids=[r[0] for r in CREATE])
def test_create(rule, piece, stop, ckpts, pos, yes):
    assert rule(piece, stop, ckpts, pos, pos).value is yes


def test_no_checkpoint_of_an_empty_memory():
    rules = (old_make.create_cr2, old_make.create_cr4, old_make.create_cr5, old_make.create_cr6, old_make.create_cr8)
    assert not any(rule(chunk(136, 200), 200, [], -1, 135).value for rule in rules)


@pytest.mark.parametrize("rule, piece, stop, last", [
    (old_make.periodic_cr4, chunk(128, 600, step=128), 192, 0),
    (old_make.periodic_cr4, chunk(127, 600, step=128), 191, None),
    (old_make.periodic_cr4, chunk(580, 600, step=128), 596, 0),
    (old_make.periodic_cr5, chunk(580, 600, step=128), 596, None),
    (old_make.periodic_cr4, chunk(536, 600, step=128), 600, None),
    (make.periodic_none, chunk(128, 600, step=128), 192, None),
])
def test_periodic(rule, piece, stop, last):
    assert rule(piece, stop, []).value == last


def test_a_checkpoint_counts_its_own_tokens_or_loses_those_of_others():
    assert make.count_own(100, 140, 60).value == 100
    assert old_make.count_less_batch(100, 140, 60).value == 80        # 20 tokens of another slot in the batch


def test_which_checkpoint_the_log_names():
    assert make.told_gone(4, (0, 1)).value == (0, 1)
    assert old_make.told_next(4, (0,)).value == (1,)                  # printed after the erasure: the next
    assert old_make.told_next(4, (3, 2)).value == (3, 2)              # from the end: nothing moves into its place
    assert old_make.told_newest(4, (0,)).value == (3,)


def test_spacing_starts_when_a_new_checkpoint_would_fill_the_list():
    ckpts = [state(80), state(96), state(180, task=1)]
    assert make.space_older(ckpts, 1, 8192).value == (1,)
    assert make.space_when_full(ckpts, 1, 8192, 5).value == ()
    assert make.space_when_full(ckpts, 1, 8192, 5).because == {"min_step": 8192, "id_task": 1, "max": 5}
    assert make.space_when_full(ckpts, 1, 8192, 4).value == (1,)
    assert make.space_when_full(ckpts, 1, 8192, 3).value == (1,)


def test_spacing_ends_when_enough_are_erased():
    ckpts = [state(n) for n in (80, 96, 112, 128, 144)]
    assert make.space_older(ckpts, 1, 8192).value == (1, 2, 3, 4)
    assert make.space_when_full(ckpts, 1, 8192, 6).value == (1,)       # 5 + 1 >= 6, then 4 + 1 < 6
    assert make.space_when_full(ckpts, 1, 8192, 5).value == (1, 2)
    assert make.space_when_full(ckpts, 1, 16, 5).value == (1, 3)       # 112 lies beyond 80 + 16


def test_a_checkpoint_of_the_same_tokens_is_superseded():
    ckpts = [state(80), state(96), state(180, task=1)]
    assert make.replace_same(ckpts, 96).value == (1,) and make.replace_none(ckpts, 96).value == ()


@pytest.mark.parametrize("p0, p1, rm0, rm1, rm2", [
    (50, 1 << 31, True, True, True),        # a beginning would be kept
    (99, 1 << 31, True, False, True),       # exactly the last token: RM1 lets it through
    (100, 1 << 31, False, False, False),    # after the end
    (0, 1 << 31, False, False, False),      # everything
    (20, 40, True, True, False),            # strictly inside the past
    (0, 99, True, True, False),
])
def test_what_a_recurrent_state_at_99_refuses(p0, p1, rm0, rm1, rm2):
    found = [rule(99, p0, p1, True).value for rule in RS_RM]
    assert found == [rm0, rm1, rm2]


def test_a_ring_is_saved_whole():
    assert seq_rm_and_state.keep_ring(np.arange(10), 9, 4).value.all()


def slots(*facts):
    return [SlotFacts(i, False, held, lcp, t) for i, (held, lcp, t) in enumerate(facts)]


@pytest.mark.parametrize("rule, by", [
    (older_slot_selection.slot_select_0, "lcp"), (older_slot_selection.slot_select_1, "lru"),
])
def test_similarity_was_a_share_of_the_slot(rule, by):
    """10 of the slot's 10 tokens, 10 of the prompt's 200."""
    assert rule(slots((10, 10, 1)), 200, -1, 0.1).value.by == by


def test_the_longest_prefix_wins_not_the_largest_share():
    choice = older_slot_selection.slot_select_0(slots((10, 10, 1), (100, 40, 2)), 200, -1, 0.1).value
    assert (choice.slot, round(choice.f_sim, 3), choice.update) == (1, 0.4, False)


def test_an_unknown_slot_number_selects_no_slot():
    two = slots((0, 0, -1), (0, 0, -1))
    assert older_slot_selection.slot_select_1(two, 10, 2, 0.1).value is None
    assert older_slot_selection.slot_select_0(two, 10, 1, 0.1).value.slot == 1


def test_the_window_that_thresholds_count_with():
    rules = (startup.n_swa_of_model, startup.n_swa_at_least_one, startup.n_swa_unless_full)
    assert [rule(32, True).value for rule in rules] == [32, 32, 0]
    assert [rule(0, False).value for rule in rules] == [0, 1, 0]


def test_small_decisions():
    assert (prompt_lifecycle.abort_if_refused(5).value, prompt_lifecycle.clear_if_refused(5).value) == (False, True)
    assert (pc.ask_always(0).value, pc.ask_if_held(0).value, pc.ask_if_held(1).value) == (True, False, True)
    slot_ctx = startup.slot_ctx_share(1024, 1024, 2, 0), startup.slot_ctx_whole(1024, 1024, 2, 0)
    assert [ctx.value for ctx in slot_ctx] == [512, 1024]
    assert not any(older_slot_selection.idle_save_none(True, 9).value)
    assert not old_make.ckpt_on_with_window(3, True, 0).value and old_make.ckpt_on_by_architecture(3, True, 0).value


def test_a_token_limit_that_bytes_do_not_raise():
    limits = pc.Limits(1 << 20, 100)
    assert pc.evict_fixed_tokens([10, 10, 10], [60, 60, 60], limits).value == (0, 2, 100)
    assert pc.evict_spare_one([10, 10, 10], [60, 60, 60], limits).value[:2] == (0, 0)
