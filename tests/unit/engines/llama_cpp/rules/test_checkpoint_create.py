"""Checkpoint creation: ends of chunks, created and erased checkpoints: spec 3.10 and 6.7."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.rules import checkpoint_create as make
from cachesim.engines.llama_cpp.rules.checkpoint_facts import Chunk, Ckpt


def ckpt(n, task=1):
    return Ckpt(n, n - 1, n - 1, task, 100)


def chunk(start, n_tokens, starts=(), min_step=8192, room=64, n_batch=64, n_ubatch=4, do=True, reused=-1):
    return Chunk(start, n_tokens, room, n_batch, n_ubatch, tuple(starts), min_step, do, reused)


def walk(n_tokens, begin=0, have=(), break_=make.break_cr10, create=make.create_cr10, space=make.space_older, **more):
    """Return the ends of all chunks of a prompt on an otherwise idle server, and the checkpoints afterwards."""
    ends, ckpts, start = [], list(have), begin
    while start < n_tokens:
        piece = chunk(start, n_tokens, **more)
        stop = break_(piece, ckpts).value
        if create(piece, stop, ckpts, start - 1).value:
            gone = space(ckpts, 9, piece.min_step).value
            ckpts = [c for i, c in enumerate(ckpts) if i not in gone] + [ckpt(start, 9)]
        ends.append(stop)
        start = stop
    return ends, [c.n_tokens for c in ckpts]


def test_example_6_2_and_6_3():
    assert walk(12) == ([4, 8, 12], [8])
    assert walk(14, begin=9, have=[ckpt(8)]) == (
        [10, 14],
        [8, 10],
    )  # the distance to 8 matters only for checkpoints of older tasks
    assert walk(14, begin=8, have=[ckpt(8)]) == ([10, 14], [8, 10])
    assert walk(12, begin=9, have=[ckpt(8), ckpt(10)]) == ([12], [8, 9])    # 10 is within min_step of 8 and is erased
    assert walk(12, begin=8, have=[ckpt(8)]) == ([12], [8, 8])              # the same length twice


def test_example_6_7_message_starts():
    starts = (7, 27, 47)
    assert walk(58, starts=starts) == ([7, 27, 47, 50, 54, 58], [7, 47, 54])


def test_example_6_7_without_spacing():
    assert walk(58, starts=(7, 27, 47), min_step=0) == ([7, 27, 47, 50, 54, 58], [7, 27, 47, 54])


def test_example_6_7_next_turn():
    have = [ckpt(7), ckpt(47), ckpt(54)]
    ends, lengths = walk(78, begin=54, have=have, starts=(7, 27, 47, 67))
    assert (ends, lengths) == ([67, 70, 74, 78], [7, 67, 74])


@pytest.mark.parametrize("n_batch, n_ubatch, n_tokens, ends", [
    (64, 4, 12, [4, 8, 12]),
    (64, 16, 12, [8, 12]),                  # 12 - 20 lies before the prompt
    (64, 16, 100, [64, 80, 96, 100]),
    (16, 16, 40, [16, 24, 36, 40]),         # both marks are capped by the batch
    (2, 2, 5, [2, 3, 5]),
    (64, 4, 4, [4]),
    (64, 4, 5, [1, 5]),
    (64, 4, 1, [1]),
])  # fmt: skip
def test_ends_of_chunks(n_batch, n_ubatch, n_tokens, ends):
    assert walk(n_tokens, n_batch=n_batch, room=n_batch, n_ubatch=n_ubatch)[0] == ends


def test_a_chunk_ends_where_the_shared_batch_is_full():
    assert make.break_cr10(chunk(0, 100, room=7), []).value == 7


def test_without_checkpoints_nothing_breaks_a_chunk():
    assert make.break_cr10(chunk(0, 60, starts=(7, 20), do=False), []).value == 60
    assert make.break_cr7(chunk(0, 60, starts=(7, 20), do=False), []).value == 20    # before #24176 it still does
    assert make.break_cr7(chunk(0, 60, starts=(20,), do=False), []).value == 20
    assert make.break_cr7(chunk(0, 60, starts=(7, 20, 40), do=False), []).value == 40


@pytest.mark.parametrize("user, breaks", [(64, False), (65, True), (63, False)])
def test_a_user_start_breaks_only_if_it_is_further_than_min_step(user, breaks):
    piece = chunk(10, 300, starts=(user, 200), min_step=55, room=500, n_batch=500, n_ubatch=8)
    stop = make.break_cr10(piece, [ckpt(9)]).value
    assert (stop == user) is breaks


@pytest.mark.parametrize("user, yes", [(64, False), (65, True)])
def test_a_checkpoint_at_a_user_start_needs_the_same_distance(user, yes):
    piece = chunk(user, 300, starts=(user, 200), min_step=55)
    assert make.create_cr10(piece, user + 20, [ckpt(9)], 5).value is yes


def test_the_last_user_start_needs_no_distance():
    assert make.create_cr10(chunk(10, 300, starts=(5, 10)), 30, [ckpt(9)], 5).value is True


@pytest.mark.parametrize("stop, yes", [(8, False), (9, True), (12, True)])
def test_near_the_end_means_less_than_a_ubatch_left(stop, yes):
    assert make.create_cr10(chunk(6, 12), stop, [], 5).value is yes


@pytest.mark.parametrize("piece, pos_min", [(chunk(8, 12, do=False), 7), (chunk(8, 12), -1)])
def test_no_checkpoint_of_an_empty_memory_or_if_disabled(piece, pos_min):
    assert make.create_cr10(piece, 12, [], pos_min).value is False


@pytest.mark.parametrize(("limit", "exact", "n_swa", "on"), [
    (32, True, 0, True), (32, False, 8, True), (32, False, 0, False), (0, True, 8, False), (1, True, 0, True),
    (1, False, 1, True),
])  # fmt: skip
def test_checkpoints_are_made_only_where_the_memory_cannot_be_cut(limit, exact, n_swa, on):
    assert make.ckpt_on(limit, exact, n_swa).value is on


# (n_tokens, task) ..., present task 9
@pytest.mark.parametrize("have, min_step, gone", [
    ([(7, 1), (47, 1), (54, 1)], 8192, (1, 2)),
    ([(7, 1), (47, 9), (54, 1)], 8192, (2,)),           # the present task's checkpoint stays, and counts as neighbour
    ([(10, 1), (74, 1)], 64, (1,)),
    ([(10, 1), (75, 1)], 64, ()),
    ([(10, 1), (20, 1), (75, 1)], 64, (1,)),            # measured from the last that stays
    ([(9, 1)], 8192, ()),
    ([(8, 1), (8, 1)], 0, (1,)),
    ([(0, 1), (5, 1)], 5, (1,)),
    ([], 8192, ()),
])  # fmt: skip
def test_spacing(have, min_step, gone):
    assert make.space_older([ckpt(*c) for c in have], 9, min_step).value == gone
    assert make.space_none([ckpt(*c) for c in have], 9, min_step).value == ()


@pytest.mark.parametrize(("have", "min_step", "limit", "gone"), [
    ([(7, 1), (47, 1), (54, 1)], 8192, 9, ()), ([(7, 1), (47, 1), (54, 1)], 8192, 4, (1,)),
    ([(7, 1), (47, 1), (54, 1)], 8192, 3, (1, 2)), ([(7, 1), (47, 9), (54, 1)], 8192, 3, (2,)),
    ([(1, 1), (74, 1)], 64, 1, ()), ([(10, 1), (74, 1)], 64, 3, (1,)), ([(10, 1), (74, 1)], 64, 4, ()),
    ([(10, 1), (75, 1)], 64, 1, ()), ([(10, 1), (20, 1), (75, 1)], 64, 1, (1,)), ([(0, 1), (5, 1)], 5, 1, (1,)),
])  # fmt: skip
def test_spacing_while_a_new_checkpoint_would_reach_the_limit(have, min_step, limit, gone):
    assert make.space_when_full([ckpt(*c) for c in have], 9, min_step, limit).value == gone


@pytest.mark.parametrize("n, limit, gone", [(0, 3, ()), (2, 3, ()), (3, 3, (0,)), (5, 3, (0, 1, 2)), (1, 1, (0,))])
def test_limit_drops_the_oldest_until_a_new_checkpoint_fits(n, limit, gone):
    assert make.limit_oldest([ckpt(10 * i) for i in range(n)], limit).value == gone


@pytest.mark.parametrize("lengths, limit, gone", [
    ((10, 50, 55, 60, 100), 5, (2,)),                   # 55 lies between the closest neighbours
    ((10, 20, 30, 40), 4, (1,)),                        # ties go to the older
    ((10, 15, 100, 130, 150), 5, (3,)), ((10, 80, 85, 150, 160), 5, (2,)),      # both neighbours count
    ((10, 20, 30, 40), 3, (1, 2)), ((10, 20, 30, 40), 2, (0, 1, 2)),
    ((10, 50), 2, (0,)),                                # no interior checkpoint: the oldest
    ((10, 50), 3, ()),
])  # fmt: skip
def test_24035_v3_drops_the_densest(lengths, limit, gone):
    assert make.limit_densest([ckpt(n) for n in lengths], limit).value == gone


# 24143's base: the last user message only (#22929)
@pytest.mark.parametrize("start, stop, starts, have, yes", [
    (8, 12, (), (), True),
    (2, 4, (), (), False),
    (5, 8, (5,), (), True),
    (8, 12, (5,), (), True),                            # after it, near the end
    (6, 8, (5,), (), False),
    (1, 4, (1,), (), True), (0, 4, (0,), (), False),    # not a message at the start of the prompt
    (2, 12, (5,), (), False),                           # before it, even near the end
    (8, 12, (), (ckpt(7),), False),                     # within 256 of the last checkpoint
    (8, 12, (), (ckpt(1), ckpt(7)), False), (5, 8, (1, 5), (), True), (1, 4, (1, 5), (), False),
])  # fmt: skip
def test_create_before_24176(start, stop, starts, have, yes):
    piece = chunk(start, 12, starts=starts, min_step=256)
    assert make.create_cr7(piece, stop, list(have), start - 1).value is yes


def test_create_before_24176_counts_the_distance_strictly():
    assert make.create_cr7(chunk(264, 268, min_step=256), 268, [ckpt(8)], 5).value is False
    assert make.create_cr7(chunk(265, 268, min_step=256), 268, [ckpt(8)], 5).value is True
    assert make.create_cr7(chunk(265, 268, min_step=256), 268, [ckpt(1), ckpt(9)], 5).value is False


def test_create_before_24176_has_no_checkpoint_at_a_message_that_begins_the_prompt():
    assert make.create_cr7(chunk(0, 12, starts=(0,)), 4, [], 0).value is False


def test_the_distance_of_a_user_start_counts_from_the_last_checkpoint():
    piece = chunk(65, 300, starts=(65, 200), min_step=55)
    for last, yes in ((9, True), (10, False)):
        assert make.create_cr10(piece, 90, [ckpt(2), ckpt(last)], 5).value is yes


def test_24035_v3_breaks_and_creates_at_the_end_of_the_reused_prefix():
    piece = chunk(40, 120, n_batch=500, room=500, reused=60)
    assert make.break_v3(piece, [ckpt(40)]).value == 60
    assert make.create_v3(chunk(60, 120, reused=60), 80, [ckpt(40)], 59).value is True
    assert make.create_v3(chunk(61, 120, reused=60), 80, [ckpt(40)], 60).value is False


def test_nothing_is_created_after_a_prompt_and_no_note_is_stored():
    after = make.nothing_after_prompt(True)
    assert (after.value, after.because) == (False, {"on": True})
    note = make.note_nothing(ckpt(1, 2), None)
    assert (note.value, note.because) == (None, {})
