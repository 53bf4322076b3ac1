"""Checkpoint restore: need, selection, position at which evaluation continues, erasure: spec 3.9 and 6.1 to 6.5."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.rules import checkpoint_restore as use
from cachesim.engines.llama_cpp.rules.checkpoint_facts import Ckpt, PromptInputs, ResumePlace


def ckpt(n, pos_min=None, pos_max=None, task=1):
    """Return a checkpoint of n tokens, of a recurrent memory unless a range is given."""
    return Ckpt(n, n - 1 if pos_min is None else pos_min, n - 1 if pos_max is None else pos_max, task, 100)


def ask(n_past, held=14, n_tokens=14, pos_min=0, n_swa=0, exact=False):
    return PromptInputs(n_past, n_past, held, n_tokens, pos_min, n_swa, exact)


# Example of the spec, request, threshold, search
NEED = [
    ("6.1 A R2", ask(9, 14, 14, 0), 9, False),
    ("6.1 A R3", ask(9, 16, 12, 0), 9, False),
    ("A, one token again", ask(1, 1, 1, 0), 0, True),
    ("A, the same prompt", ask(12, 14, 12, 0), 11, False),
    ("6.2 W R2", ask(9, 14, 14, 0, 8), 1, False),
    ("6.2 W with a restore", ask(28, 32, 30, 26, 8), 20, True),
    ("W, prefix as long as the window", ask(8, 14, 14, 0, 8), 0, True),
    ("6.3 R R2", ask(9, 14, 14, 13, 0, True), 9, True),
    ("R, pure extension", ask(14, 14, 20, 13, 0, True), 14, False),
    ("R, the same prompt, nothing generated", ask(14, 14, 14, 13, 0, True), 13, True),
    ("6.5 HW R2", ask(9, 14, 14, 13, 8, True), 1, True),
    ("HW, pure extension", ask(14, 14, 20, 13, 8, True), 6, True),
    ("nothing in common", ask(0, 14, 14, 13, 0, True), 0, False),
    ("more than the slot holds", ask(15, 14, 20, 13, 0, True), 15, False),
    ("pos_min equal to the threshold", ask(9, 14, 14, 9), 9, True),
    ("pos_min one below", ask(9, 14, 14, 8), 9, False),
]


def decided(rule, asked):
    """(threshold, search?)"""
    need = rule(asked).value
    return need.thold, need.search


@pytest.mark.parametrize("asked, thold, search", [row[1:] for row in NEED], ids=[row[0] for row in NEED])
def test_need(asked, thold, search):
    assert decided(use.need_th4, asked) == (thold, search)


@pytest.mark.parametrize("asked, need", [
    (ask(14, 14, 20, 13, 0, True), (13, True)),     # before #24110 a pure extension searches too
    (ask(9, 14, 14, 0), (8, False)),
    (ask(9, 14, 14, 8), (8, True)),
])
def test_need_before_24110_is_always_lower_by_1(asked, need):
    assert decided(use.need_th3, asked) == need


R2, R3 = ckpt(8), ckpt(10)
# checkpoints (oldest first), request, threshold, picked index
PICK = [
    ("6.3 R2", [R2], ask(9), 9, 0),
    ("6.3 R3", [R2, R3], ask(9), 9, 0),                     # 9 < 9 is false
    ("6.5 HW R2", [R2], ask(9), 1, None),
    ("6.2 restore", [ckpt(28, 0, 27)], ask(28), 20, 0),
    ("newest first", [ckpt(4), ckpt(6), ckpt(8)], ask(9), 9, 2),
    ("ends beyond pos_next", [ckpt(30, 0, 29)], ask(28), 20, None),
    ("ends exactly at pos_next", [ckpt(29, 0, 28)], ask(28), 20, 0),
    ("begins at 0 whatever the threshold", [ckpt(3, 0, 2)], ask(5), 0, 0),
    ("begins at the threshold", [ckpt(6)], ask(5), 5, None),
    ("begins one before", [ckpt(5)], ask(5), 5, 0),
    ("none", [], ask(9), 9, None),
]


@pytest.mark.parametrize("ckpts, asked, thold, want", [row[1:] for row in PICK], ids=[row[0] for row in PICK])
def test_pick(ckpts, asked, thold, want):
    assert use.pick_pk3(ckpts, asked, thold).value == want


def test_pick_before_24411_ignores_pos_max():
    assert use.pick_pk2([ckpt(30, 0, 29)], ask(28), 20).value == 0
    assert use.pick_pk2([ckpt(30, 20, 29)], ask(28), 20).value is None
    assert [use.pick_pk2([ckpt(30, pos_min, 29)], ask(28), 0).value for pos_min in (0, 1)] == [0, None]


# checkpoint, request, (pos_next, n_past)
RESUME = [
    ("6.3 R", ckpt(8), ask(9), (8, 8)),
    ("6.2 W evaluates its last token again", ckpt(28, 0, 27), ask(28, 32), (27, 27)),
    ("never beyond the common prefix", ckpt(28, 0, 27), ask(20, 32), (20, 20)),
    ("never beyond the slot", ckpt(28, 0, 27), ask(28, 25), (27, 25)),
    ("never beyond the checkpoint's tokens", ckpt(5, 0, 9), ask(9), (9, 5)),
    ("one token", ckpt(1, 0, 0), ask(3), (1, 1)),
]


@pytest.mark.parametrize("taken, asked, want", [row[1:] for row in RESUME], ids=[row[0] for row in RESUME])
def test_resume(taken, asked, want):
    assert use.resume_re4(taken, asked).value == ResumePlace(*want)


def test_without_a_checkpoint_everything_is_evaluated():
    assert use.resume_nothing(ask(9)).value == ResumePlace(0, 0)


# checkpoints, resume position, erased indices
ERASE = [
    ("6.2 R2", [ckpt(8, 0, 7)], 9, ()),
    ("6.2 R3", [ckpt(10, 0, 9)], 9, ()),
    ("6.2 Y", [ckpt(28, 0, 27)], 0, (0,)),
    ("6.3 R2", [R2], 8, ()),
    ("6.3 R3", [R2, R3], 8, (1,)),
    ("6.5", [R2], 0, (0,)),
    ("D1: ends exactly where evaluation goes on", [ckpt(8), ckpt(9)], 8, ()),
    ("D1: one token, another prompt", [ckpt(1)], 0, ()),
    ("only later ones", [ckpt(4), ckpt(20), ckpt(6)], 8, (1,)),
]


@pytest.mark.parametrize("ckpts, pos_next, gone", [row[1:] for row in ERASE], ids=[row[0] for row in ERASE])
def test_erase(ckpts, pos_next, gone):
    assert use.erase_er2(ckpts, ask(9), ResumePlace(pos_next, pos_next)).value == gone


# Section 5.2 of the history: a slot of 100 tokens, checkpoints of 40 and 96.
SLOT = [ckpt(40), ckpt(96)]


def exact(n_past, n_tokens, held=100):
    return ask(n_past, held, n_tokens, held - 1, 0, exact=True)


@pytest.mark.parametrize("pick", [use.pick_v1, use.pick_v3])
@pytest.mark.parametrize(
    "n_past, n_tokens, want", [(96, 120, 1), (95, 120, 0), (60, 120, 0), (39, 120, None), (96, 96, 0), (40, 120, 0)]
)
def test_24035_takes_the_longest_inside_the_reusable_prefix(pick, n_past, n_tokens, want):
    assert pick(SLOT, exact(n_past, n_tokens), n_past).value == want


def test_24035_v3_takes_no_checkpoint_of_the_whole_prompt():
    assert use.pick_v3([ckpt(1)], exact(1, 1), 1).value is None and use.pick_v3([ckpt(1)], exact(1, 2), 1).value == 0


def test_24035_v1_also_compares_positions_which_are_fewer_than_tokens_after_an_image():
    for pos_next, want in ((39, 0), (38, None)):
        asked = PromptInputs(60, pos_next, 100, 120, 80, 0, True)
        assert use.pick_v1([ckpt(40)], asked, pos_next).value == want


def test_24035_v1_takes_the_newest_and_v3_the_longest():
    mixed = [ckpt(40), ckpt(96), ckpt(50)]
    assert use.pick_v1(mixed, exact(99, 120), 99).value == 2
    assert use.pick_v3(mixed, exact(99, 120), 99).value == 1


def test_24035_continues_after_the_tokens_of_the_checkpoint():
    assert use.resume_count(ckpt(96), exact(99, 120)).value == ResumePlace(96, 96)
    assert use.resume_count(ckpt(28, 0, 27), exact(20, 32)).value == ResumePlace(28, 28)


@pytest.mark.parametrize("n_past, resume, v1, v3, er2", [
    (96, 40, (1,), (), (1,)),       # v3 keeps checkpoints inside the prefix, v1 and ER2 use the resume position
    (96, 96, (), (), ()),
    (95, 40, (1,), (1,), (1,)),
    (60, 40, (1,), (1,), (1,)),
    (95, 95, (1,), (1,), ()),       # D1: only ER2 keeps the token that is about to be replaced
    (96, 95, (), (), ()),           # it ends at the position from which evaluation goes on
])
def test_24035_erases_what_holds_more_than_the_prefix(n_past, resume, v1, v3, er2):
    rules = (use.erase_v1, use.erase_v3, use.erase_er2)
    assert tuple(rule(SLOT, exact(n_past, 120), ResumePlace(resume, resume)).value for rule in rules) == (v1, v3, er2)


@pytest.mark.parametrize("new, old", [(use.pick_v1, use.pick_pk2), (use.pick_v3, use.pick_pk3)])
def test_24035_leaves_window_memories_alone(new, old):
    windows = [ckpt(20, 0, 19), ckpt(28, 0, 27), ckpt(40, 12, 39)]
    for n_past in range(1, 45):
        asked = ask(n_past, 50, 60, 26, 8)
        assert new(windows, asked, max(0, n_past - 8)).value == old(windows, asked, max(0, n_past - 8)).value
        assert use.resume_count(windows[0], asked).value == use.resume_re4(windows[0], asked).value
        for erase in (use.erase_v1, use.erase_v3):
            assert (
                erase(windows, asked, ResumePlace(n_past, n_past)).value
                == use.erase_er2(windows, asked, ResumePlace(n_past, n_past)).value
            )


def test_a_need_is_true_if_a_checkpoint_is_searched():
    assert use.CheckpointNeed(0, True) and not use.CheckpointNeed(9, False)
