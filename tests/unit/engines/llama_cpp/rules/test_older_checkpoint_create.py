"""Checkpoint creation in older builds: breaks, limits and distances, each at its border."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.rules import checkpoint_create as newer
from cachesim.engines.llama_cpp.rules import older_checkpoint_create as rules
from cachesim.engines.llama_cpp.rules.checkpoint_facts import Chunk, Ckpt


def ckpt(n_tokens, pos_max=-1):
    return Ckpt(n_tokens, 0, n_tokens - 1 if pos_max < 0 else pos_max, 1, 100)


def chunk(start=0, n_tokens=1000, room=2048, n_batch=2048, n_ubatch=64, starts=(), min_step=100, do=True):
    return Chunk(start, n_tokens, room, n_batch, n_ubatch, starts, min_step, do, 0)


@pytest.mark.parametrize(("limit", "exact", "n_swa", "by_architecture", "with_window"), [
    (1, True, 0, True, False), (1, False, 1, True, True), (1, True, 8, True, True), (1, False, 0, False, False),
    (0, True, 8, False, False),
])  # fmt: skip
def test_checkpoints_are_enabled_for_the_memories_of_the_build(limit, exact, n_swa, by_architecture, with_window):
    assert rules.ckpt_on_by_architecture(limit, exact, n_swa).value is by_architecture
    assert rules.ckpt_on_with_window(limit, exact, n_swa).value is with_window


@pytest.mark.parametrize(("given", "cr8", "cr5", "cr3", "cr2", "cr0"), [
    (chunk(), 932, 932, 488, 936, 1000),
    (chunk(932), 996, 996, 1000, 936, 1000),                    # the tail of 4 tokens
    (chunk(488), 932, 932, 932 + 68, 936, 1000),
    (chunk(room=200), 200, 200, 200, 200, 200),
    (chunk(starts=(300, 700)), 300, 932, 488, 936, 1000),
    (chunk(300, starts=(300, 700)), 700, 932, 488, 936, 1000),
    (chunk(do=False), 1000, 1000, 1000, 1000, 1000),
    (chunk(do=False, starts=(300,)), 300, 1000, 1000, 1000, 1000),
    (chunk(n_batch=40), 960, 960, 960, 936, 1000),              # a mark is at most n_batch tokens before the end
])  # fmt: skip
def test_a_batch_ends_at_the_breaks_of_its_build(given, cr8, cr5, cr3, cr2, cr0):
    found = [find(given, ()).value for find in
             (rules.break_cr8, rules.break_cr5, rules.break_cr3, rules.break_cr2, rules.break_cr0)]
    assert found == [cr8, cr5, cr3, cr2, cr0]


@pytest.mark.parametrize(("given", "stop", "ckpts", "cr4", "cr5"), [
    (chunk(100), 200, (), 0, 0), (chunk(99), 200, (), None, None),
    (chunk(300), 400, (ckpt(200),), 200, 200), (chunk(299), 400, (ckpt(200),), None, None),
    (chunk(300, min_step=0), 400, (), None, None), (chunk(300, do=False), 400, (), None, None),
    (chunk(300), 936, (), 0, 0),                                # 64 tokens before the end are not near
    (chunk(300), 937, (), 0, None), (chunk(300), 1000, (), None, None),
    (chunk(1, min_step=1), 9, (), 0, 0), (chunk(300), 400, (ckpt(90), ckpt(200)), 200, 200),
    (chunk(300), 400, (ckpt(90), ckpt(201)), None, None),
    (chunk(109, room=2039), 200, (), 0, 0), (chunk(108, room=2039), 200, (), None, None),     # 9 tokens of another slot
])  # fmt: skip
def test_a_periodic_checkpoint_is_due_after_min_step_tokens_but_not_at_the_end(given, stop, ckpts, cr4, cr5):
    assert [rules.periodic_cr4(given, stop, ckpts).value, rules.periodic_cr5(given, stop, ckpts).value] == [cr4, cr5]


@pytest.mark.parametrize(("given", "stop", "ckpts", "pos_min", "created"), [
    (chunk(500), 937, (), 0, True), (chunk(500), 936, (), 0, False), (chunk(500), 937, (), -1, False),
    (chunk(500, do=False), 937, (), 0, False),
    (chunk(500, starts=(500, 600)), 600, (), 0, True), (chunk(501, starts=(500, 600)), 600, (), 0, False),
    (chunk(500, starts=(500, 600)), 600, (ckpt(399),), 0, True),
    (chunk(500, starts=(500, 600)), 600, (ckpt(400),), 0, False),
    (chunk(600, starts=(500, 600)), 700, (ckpt(599),), 0, True),        # the last user message, however near
    (chunk(500), 1000, (ckpt(450),), 0, False),
    (chunk(500), 1000, (ckpt(100), ckpt(450)), 0, False), (chunk(500), 1000, (ckpt(100), ckpt(399)), 0, True),
    (chunk(500, starts=(500,)), 600, (ckpt(450),), 0, True),
    (chunk(500, starts=(400, 500, 600)), 700, (ckpt(450),), 0, False),
])  # fmt: skip
def test_b9765_creates_a_checkpoint_near_the_end_and_at_user_messages(given, stop, ckpts, pos_min, created):
    assert rules.create_cr8(given, stop, ckpts, pos_min).value is created


@pytest.mark.parametrize(("given", "stop", "ckpts", "pos_min", "created"), [
    (chunk(0, n_tokens=64), 64, (), 0, True), (chunk(0, n_tokens=63), 63, (), 0, False),
    (chunk(500), 937, (ckpt(435),), 0, True), (chunk(500), 937, (ckpt(436),), 0, False),
    (chunk(500), 900, (), 0, True), (chunk(500, min_step=0), 900, (), 0, False),
    (chunk(500), 937, (), -1, False), (chunk(500, do=False), 937, (), 0, False),
    (chunk(500), 937, (ckpt(90), ckpt(435)), 0, True), (chunk(500), 937, (ckpt(90), ckpt(436)), 0, False),
])  # fmt: skip
def test_b8450_counts_tokens_of_the_slot_and_of_the_last_checkpoint(given, stop, ckpts, pos_min, created):
    assert rules.create_cr6(given, stop, ckpts, pos_min).value is created


LIMITS = [((), 0, 64, True), ((), 0, 63, False), ((), -1, 64, False), ((ckpt(36),), 0, 100, True),
          ((ckpt(37),), 0, 100, False), ((ckpt(9), ckpt(37)), 0, 100, False),
          ((ckpt(9), ckpt(36)), 0, 100, True)]  # fmt: skip


@pytest.mark.parametrize(("ckpts", "pos_min", "pos_max", "created"), LIMITS)
def test_before_b8450_positions_count(ckpts, pos_min, pos_max, created):
    near, last, not_last = (500, 940), (500, 1000), (500, 999)
    plain = chunk(500, min_step=0)
    for create, places in ((rules.create_cr5, {near: True, last: True, (500, 900): False}),
                           (rules.create_cr4, {last: True, not_last: False, near: False}),
                           (rules.create_cr2, {last: True, not_last: False, near: False})):  # fmt: skip
        found = {place: create(plain, place[1], ckpts, pos_min, pos_max).value for place in places}
        assert found == {place: is_place and created for place, is_place in places.items()}
        assert not create(plain._replace(do=False), 1000, ckpts, pos_min, pos_max).value


def test_before_b8450_a_periodic_checkpoint_is_created_where_it_is_due():
    due, early = chunk(500), chunk(99)
    for create, expected in ((rules.create_cr5, True), (rules.create_cr4, True), (rules.create_cr2, False)):
        assert create(due, 900, (), 0, 499).value is expected
        assert create(early, 900, (), 0, 98).value is False


def test_the_first_checkpoints_are_created_after_the_prompt():
    assert rules.create_never(chunk(500), 1000, (), 0).value is False
    assert [rules.create_after_prompt(on).value for on in (True, False)] == [True, False]
    assert rules.count_less_batch(500, 700, 230).value == 470


@pytest.mark.parametrize(("n", "gone", "named"), [
    (3, [0], (1,)), (3, [2], (2,)), (3, [1], (2,)), (3, [0, 1], (1, 2)), (3, [2, 1], (2, 1)), (1, [0], (0,)),
    (3, [0, 1, 2], (1, 2, 2)), (3, [], ()),
])  # fmt: skip
def test_the_log_names_the_checkpoint_that_moved_into_the_free_place(n, gone, named):
    """After the erasure of 0 its place holds 1. The last one of those left is named itself."""
    assert rules.told_next(n, gone).value == named


def test_a_checkpoint_counts_its_own_tokens_and_replaces_one_of_the_same_tokens():
    assert newer.count_own(100, 140, 60).value == 100
    assert newer.told_gone(4, (0, 1)).value == (0, 1)
    ckpts = [Ckpt(n, n - 1, n - 1, task, 10) for n, task in ((80, 0), (96, 0), (180, 1))]
    assert (newer.replace_same(ckpts, 96).value, newer.replace_none(ckpts, 96).value) == ((1,), ())
