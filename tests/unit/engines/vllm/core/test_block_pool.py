"""The shared pool of blocks: users, the free list, keys, and what it reports of them."""

from __future__ import annotations

import pytest

from cachesim.base.errors import Crash
from cachesim.engines.vllm.core.block_pool import BACK, CLEARED, EVICTED, FRONT, BlockPool, Freed, Keyed, Moved


@pytest.fixture
def pool():
    """A pool of five blocks in two groups, with its events and losses."""
    events, losses = [], []
    made = BlockPool(6, 2, True, lambda keyed: BACK if keyed else FRONT, events.append,
                     lambda block, keys, cause: losses.append((block, list(keys), cause)))  # fmt: skip
    made.seen, made.losses = events, losses
    return made


def test_blocks_without_a_key_are_taken_before_those_that_can_be_found(pool):
    blocks = pool.take(3)
    pool.add_keys(1, [2], [7], [4])
    pool.give_back(blocks[::-1])
    assert blocks == [1, 2, 3] and list(pool.free) == [3, 1, 4, 5, 2]
    assert pool.seen == [Keyed(1, [2], [7], [4]), Freed([3, 1], [2], [])]
    assert pool.find(7, (1,)) == [2] and pool.find(7, (0, 1)) is None and pool.tokens[2] == 4
    assert pool.take(5)[-1] == 2 and pool.losses == [(2, [15], EVICTED)] and pool.find(7, (1,)) is None


def test_a_found_block_leaves_the_free_list_until_its_last_user_does(pool):
    [block] = pool.take(1)
    pool.touch([0, block])
    pool.give_back([block])
    assert block not in pool.free
    pool.check([block])
    pool.give_back([block])
    assert block in pool.free
    pool.check([])


def test_the_keys_of_a_block_move_to_its_copy(pool):
    moves = []
    pool.moved = lambda block, copy: moves.append((block, copy))
    pool.add_keys(0, [1, 1], [3, 5], [4, 8])
    pool.move_keys(1, 2)
    assert pool.find(3, (0,)) == pool.find(5, (0,)) == [2] and not pool.keys(1) and pool.tokens[2] == 4
    assert moves == [(1, 2)] and pool.seen[-1] == Moved(1, 2)


def test_a_pool_in_use_is_not_reset(pool):
    pool.add_keys(0, pool.take(1), [3], [4])
    assert not pool.reset()
    pool.give_back([1])
    assert pool.reset() and pool.losses == [(1, [6], CLEARED)] and pool.find(3, (0,)) is None


@pytest.mark.parametrize("wrong", [[], [1, 1], [1, 2]])
def test_users_that_no_table_shows_are_noticed(pool, wrong):
    pool.take(1)
    with pytest.raises(Crash):
        pool.check(wrong)
