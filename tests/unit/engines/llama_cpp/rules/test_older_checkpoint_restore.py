"""Checkpoint restore in older builds: thresholds, picks, places and erasures, each at its border."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.rules import older_checkpoint_restore as rules
from cachesim.engines.llama_cpp.rules.checkpoint_facts import Ckpt, PromptInputs, ResumePlace


def ask(n_past=20, pos_next=20, held=30, pos_min=0, n_swa=8):
    return PromptInputs(n_past, pos_next, held, 40, pos_min, n_swa, False)


def ckpt(pos_min, pos_max, n_tokens=12):
    return Ckpt(n_tokens, pos_min, pos_max, 1, 100)


@pytest.mark.parametrize(("given", "th2", "th1", "th0"), [
    (ask(pos_min=12), (12, True), (12, False), (12, False)), (ask(pos_min=13), (12, True), (12, True), (12, True)),
    (ask(pos_min=11), (12, False), (12, False), (12, False)),
    (ask(pos_min=13, held=20), (12, False), (12, False), (12, False)),
    (ask(n_past=0, pos_next=0, pos_min=9), (0, False), (0, False), (0, False)),
    (ask(n_past=1, pos_next=1, held=2, pos_min=1), (0, True), (0, True), (0, True)),
    (ask(n_swa=0, pos_min=20), (20, True), (19, True), (20, False)),
    (ask(n_swa=0, pos_min=19), (20, False), (19, False), (20, False)),
    (ask(n_swa=1, pos_min=20), (19, True), (19, True), (19, True)),
])  # fmt: skip
def test_a_checkpoint_is_needed_if_the_window_before_the_prefix_is_gone(given, th2, th1, th0):
    found = [tuple(need(given).value) for need in (rules.need_th2, rules.need_th1, rules.need_th0)]
    assert found == [th2, th1, th0]


def test_the_newest_checkpoint_that_begins_before_the_threshold_is_picked():
    ckpts = [ckpt(0, 7), ckpt(3, 11), ckpt(4, 12), ckpt(5, 13)]
    picks = [(rules.pick_pk1(ckpts, ask(), thold).value, rules.pick_pk0(ckpts, ask(), thold).value)
             for thold in (0, 3, 4, 6)]  # fmt: skip
    assert picks == [(None, 0), (0, 1), (1, 2), (3, 3)]
    assert rules.pick_pk1((), ask(), 9).value is None


@pytest.mark.parametrize(("checkpoint", "given", "re3", "re2", "re1", "re0"), [
    (ckpt(11, 11), ask(), (12, 12), (12, 13), (12, 12), (11, 11)),                    # recurrent
    (ckpt(11, 11, 20), ask(), (12, 13), (12, 13), (12, 12), (11, 11)),
    (ckpt(4, 11, 20), ask(), (11, 12), (11, 12), (11, 11), (11, 11)),                 # a window
    (ckpt(11, 11), ask(held=12), (12, 12), (12, 12), (12, 12), (11, 11)),
    (ckpt(25, 25, 26), ask(), (20, 21), (20, 21), (20, 20), (20, 20)),
    (ckpt(25, 25, 26), ask(n_past=18), (20, 21), (20, 21), (18, 18), (18, 18)),
])  # fmt: skip
def test_evaluation_continues_where_the_build_says(checkpoint, given, re3, re2, re1, re0):
    resumes = rules.resume_re3, rules.resume_re2, rules.resume_re1, rules.resume_re0
    found = [resume(checkpoint, given) for resume in resumes]
    assert [one.value for one in found] == [ResumePlace(*place) for place in (re3, re2, re1, re0)]
    assert {tuple(one.because.items()) for one in found} == {
        (("n_tokens", checkpoint.n_tokens), ("pos_max", checkpoint.pos_max))}


def test_without_a_usable_checkpoint_the_first_builds_forget_all():
    assert rules.resume_nothing_forget(ask()).value == ResumePlace(0, 0, True)


@pytest.mark.parametrize(("n_swa", "er1", "er0"), [
    (8, (3,), (3, 2)), (0, (), ()), (1, (), ()), (30, (1, 2, 3), (3, 2, 1)),
])  # fmt: skip
def test_checkpoints_that_begin_after_the_threshold_are_erased(n_swa, er1, er0):
    """Thresholds of ER1: 12 for a window of 8, 19 for 1 or none, 0 for 30. ER0 counts from n_past after the restore,
    17: 9, 16 and 0."""
    ckpts = [ckpt(0, 7), ckpt(9, 16), ckpt(12, 19), ckpt(13, 20)]
    resume = ResumePlace(18, 17)
    assert rules.erase_er1(ckpts, ask(n_swa=n_swa), resume).value == er1
    assert rules.erase_er1_newest_first(ckpts, ask(n_swa=n_swa), resume).value == er1[::-1]
    assert rules.erase_er0(ckpts, ask(n_swa=n_swa), resume).value == er0


def test_a_checkpoint_at_the_threshold_stays():
    assert rules.erase_er0([ckpt(9, 16), ckpt(10, 17)], ask(), ResumePlace(18, 17)).value == (1,)
    assert rules.erase_er1([ckpt(19, 19), ckpt(20, 20)], ask(n_swa=0), ResumePlace(18, 17)).value == (1,)


@pytest.mark.parametrize(("n_swa", "gone"), [(0, ()), (1, (0,)), (2, (0,))])
def test_the_first_builds_erase_checkpoints_only_in_models_with_a_window(n_swa, gone):
    assert rules.erase_er0([ckpt(30, 37)], ask(n_swa=n_swa), ResumePlace(18, 17)).value == gone
