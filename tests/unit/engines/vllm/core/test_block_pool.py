"""The pool of blocks: users, the free queue, keys, and what it reports of them."""

from __future__ import annotations

import pytest

from cachesim.base.errors import Crash
from cachesim.engines.vllm.core.block_pool import (
    BACK,
    CLEARED,
    EVICTED,
    FRONT,
    REPLACED,
    BlockHashToBlockMap,
    BlockMask,
    BlockPool,
    EngineCoreDied,
)
from cachesim.engines.vllm.core.kv_cache_events import Evicted, Freed, Keyed, Moved, Touched
from cachesim.events import Declined
from tests.unit.engines.vllm.requests import make_request


class Reports:
    """Keeps what a pool reports."""

    def __init__(self):
        self.entered, self.losses, self.moves = [], [], []

    def named(self, request, keys, blocks, ends):
        self.entered += zip(keys, blocks, ends, strict=True)

    def lost(self, block, keys, cause):
        self.losses.append((block, list(keys), cause))

    def moved(self, block, copy):
        self.moves.append((block, copy))


@pytest.fixture
def pool():
    """A pool of five blocks in two groups with hashes of four tokens, its events and reports."""
    events = []
    made = BlockPool(6, 2, enable_caching=True, hash_block_size=4, free_side=lambda keyed: BACK if keyed else FRONT,
                     emit=events.append)  # fmt: skip
    made.seen, made.reporter = events, Reports()
    return made


def request(*hashes):
    return make_request(3, hashes=hashes)


def cache(pool, blocks, hashes, group=1, **mask):
    """Publish all blocks of a request."""
    pool.cache_full_blocks(request(*hashes), blocks, num_cached_blocks=0, num_full_blocks=len(blocks), block_size=4,
                           kv_cache_group_id=group, mask=BlockMask(**{"kept": None, "rule": "R", "missing_rule": "",
                                                                      **mask}))  # fmt: skip


def test_blocks_without_a_key_are_taken_before_those_that_can_be_found(pool):
    blocks = pool.get_new_blocks(3)
    cache(pool, [2], [7])
    pool.free_blocks(blocks[::-1])
    assert blocks == [1, 2, 3] and list(pool.free_block_queue) == [3, 1, 4, 5, 2]
    assert pool.seen == [Keyed(1, [2], [7], [4]), Freed([3, 1], [2], [])]
    assert pool.get_cached_block(7, (1,)) == [2] and pool.get_cached_block(7, (0, 1)) is None and pool.ends_at(2, 4)
    assert pool.get_new_blocks(5)[-1] == 2 and pool.reporter.losses == [(2, [15], EVICTED)]
    assert pool.get_cached_block(7, (1,)) is None


def test_a_found_block_leaves_the_free_queue_until_its_last_user_does(pool):
    [block] = pool.get_new_blocks(1)
    pool.touch([0, block])
    pool.free_blocks([block])
    assert block not in pool.free_block_queue
    pool.check([block])
    pool.free_blocks([block])
    assert block in pool.free_block_queue
    pool.check([])


def test_blocks_that_the_mask_leaves_out_and_missing_ones_are_declined(pool):
    cache(pool, [1, 2, 0], [7, 8, 9], kept=[True, False, True], missing_rule="M")
    assert pool.get_cached_block(7, (1,)) == [1] and pool.get_cached_block(8, (1,)) is None
    declined = [event for event in pool.seen if isinstance(event, Declined)]
    assert declined == [Declined(3, 8, "R"), Declined(3, 12, "M")]
    assert pool.reporter.entered == [(15, 1, 4)]


def test_a_part_of_a_block_is_replaced_by_a_longer_one(pool):
    asked = request(5, 6)
    assert pool.cache_partial_block(asked, 1, 4, kv_cache_group_id=0) == 10
    assert pool.cache_partial_block(asked, 1, 8, kv_cache_group_id=0) == 12
    assert pool.reporter.losses == [(1, [10], REPLACED)] and pool.ends_at(1, 8)
    assert pool.cache_partial_block(asked, 0, 4, kv_cache_group_id=0) is None


def test_a_part_of_a_block_is_found_under_the_keys_of_each_prefix_of_its_length(pool):
    assert pool.cache_partial_block(request(5, 6), 1, 8, kv_cache_group_id=0) == 12
    assert pool.cache_partial_block(request(5, 7), 1, 8, kv_cache_group_id=0) == 14
    assert pool.keys_of(1) == [12, 14] and pool.reporter.losses == []
    assert pool.cache_partial_block(request(5, 6), 1, 4, kv_cache_group_id=0) == 10
    assert pool.keys_of(1) == [12, 14, 10] and pool.ends_at(1, 8)


def test_a_part_of_a_block_without_a_hash_ends_the_process(pool):
    with pytest.raises(EngineCoreDied):
        pool.cache_partial_block(request(5), 1, 8, kv_cache_group_id=0)


def test_the_keys_of_a_block_move_to_its_copy(pool):
    pool.insert_block_hash(6, 1, 4)
    pool.insert_block_hash(10, 1, 8)
    pool.move_block_hashes(1, 2)
    assert pool.get_cached_block(3, (0,)) == pool.get_cached_block(5, (0,)) == [2]
    assert not pool.keys_of(1) and pool.keys_of(2) == [6, 10] and pool.ends_at(2, 4)
    assert pool.reporter.moves == [(1, 2)] and pool.seen[-1] == Moved(1, 2)


def test_a_pool_in_use_is_not_reset(pool):
    cache(pool, pool.get_new_blocks(1), [3], group=0)
    assert not pool.reset_prefix_cache()
    pool.free_blocks([1])
    assert pool.reset_prefix_cache() and pool.reporter.losses == [(1, [6], CLEARED)]
    assert pool.get_cached_block(3, (0,)) is None


def test_a_reset_keeps_the_order_of_the_free_queue(pool):
    taken = pool.get_new_blocks(4)
    cache(pool, [2], [7])
    pool.free_blocks(taken)
    assert pool.reset_prefix_cache() and list(pool.free_block_queue) == [1, 3, 4, 5, 2]


@pytest.mark.parametrize("wrong", [[], [1, 1], [1, 2]])
def test_users_that_no_table_shows_are_noticed(pool, wrong):
    pool.get_new_blocks(1)
    with pytest.raises(Crash):
        pool.check(wrong)


def test_of_several_blocks_with_a_key_the_oldest_is_found():
    blocks = BlockHashToBlockMap()
    for block in (4, 2, 7):
        blocks.insert(9, block)
    assert blocks.get_one_block(9) == 4 and blocks.contain(9, 7) and not blocks.contain(9, 5)
    blocks.pop(9, 4)
    assert blocks.get_one_block(9) == 2
    blocks.pop(9, 2)
    blocks.pop(9, 7)
    assert blocks.get_one_block(9) is None and not blocks.contain(9, 7) and len(blocks) == 0


def test_a_key_of_one_block_is_forgotten_with_it():
    blocks = BlockHashToBlockMap()
    blocks.insert(9, 4)
    blocks.pop(9, 4)
    assert blocks.get_one_block(9) is None and len(blocks) == 0


def test_a_pool_works_without_anyone_to_report_to(pool):
    pool.reporter = None
    [block, copy] = pool.get_new_blocks(2)
    cache(pool, [block], [7])
    pool.cache_partial_block(request(7, 8), block, 8, kv_cache_group_id=1)
    pool.move_block_hashes(block, copy)
    assert pool.get_cached_block(8, (1,)) == [copy] and pool.keys_of(block) == []
    pool.free_blocks([block, copy])
    pool.remove_cached_block_hashes(copy, EVICTED)
    assert pool.get_cached_block(8, (1,)) is None
    cache(pool, [block], [9])
    assert pool.reset_prefix_cache() and pool.keys_of(block) == []
    told = len(pool.seen)
    pool.free_blocks([0]), pool.touch([0])
    assert len(pool.seen) == told, "the null block has no users"


def test_each_keyed_block_is_an_event_of_a_recording():
    assert Keyed(1, [4, 5], [70, 71], [4, 8]).rows() == [["key", 4, 70, 1, 4], ["key", 5, 71, 1, 8]]
    assert Moved(4, 5).rows() == [["move", 4, 5]] and Freed([1], [2], []).rows() == [["free", [1], [2]]]


def test_each_change_of_the_pool_is_logged(pool):
    blocks = pool.get_new_blocks(2)
    cache(pool, blocks, [7, 8])
    pool.touch([blocks[0], 0])
    pool.free_blocks([0, *blocks])
    pool.free_blocks(blocks[:1])
    pool.remove_cached_block_hashes(1, EVICTED)
    assert pool.seen == [Keyed(1, [1, 2], [7, 8], [4, 8]), Touched([1]), Freed([], [2], [1]), Freed([], [1], []),
                         Evicted(1, [7])]  # fmt: skip


def test_replaced_keys_are_no_eviction(pool):
    cache(pool, pool.get_new_blocks(1), [7])
    pool.seen.clear()
    pool.remove_cached_block_hashes(1, REPLACED)
    assert pool.seen == [] and pool.reporter.losses == [(1, [15], REPLACED)]
    pool.remove_cached_block_hashes(1, EVICTED)
    assert pool.seen == [] and len(pool.reporter.losses) == 1, "a block without keys loses none"


def test_a_complete_block_replaces_its_part(pool):
    pool.cache_partial_block(request(5), 1, 4, kv_cache_group_id=1)
    cache(pool, [1], [9])
    assert pool.get_cached_block(5, (1,)) is None and pool.keys_of(1) == [19]
    assert pool.reporter.losses == [(1, [11], REPLACED)]


def test_further_blocks_of_a_request_are_published_with_their_own_mask(pool):
    pool.cache_full_blocks(request(5, 6, 7), [1, 2, 3], num_cached_blocks=1, num_full_blocks=3, block_size=4,
                           kv_cache_group_id=0, mask=BlockMask([False, True], "R", ""))  # fmt: skip
    assert [pool.get_cached_block(hashed, (0,)) for hashed in (5, 6, 7)] == [None, None, [3]]
    assert [event for event in pool.seen if isinstance(event, Declined)] == [Declined(3, 8, "R")]


def test_a_known_part_of_a_block_is_published_once(pool):
    for _ in range(2):
        assert pool.cache_partial_block(request(5, 6), 1, 8, kv_cache_group_id=0) == 12
    assert pool.seen == [Keyed(0, [1], [6], [8])] and pool.keys_of(1) == [12]
    assert pool.reporter.entered == [(12, 1, 8), (12, 1, 8)] and pool.reporter.losses == []


@pytest.mark.parametrize(("replaces", "keys", "losses"), [
    (False, [12, 10], []), (True, [10], [(1, [12], REPLACED)]),
])  # fmt: skip
def test_a_shorter_part_of_a_block_is_a_further_key_unless_it_replaces_them(pool, replaces, keys, losses):
    pool.cache_partial_block(request(5, 6), 1, 8, kv_cache_group_id=0)
    pool.cache_partial_block(request(5, 6), 1, 4, kv_cache_group_id=0, replace_existing_hashes=replaces)
    assert (pool.keys_of(1), pool.reporter.losses) == (keys, losses) and pool.ends_at(1, 8) is not replaces


def test_a_known_part_of_a_block_replaces_no_shorter_one(pool):
    """The first key stands for four tokens, a further one for eight."""
    pool.insert_block_hash(10, 1, 4)
    pool.insert_block_hash(12, 1, 8)
    pool.cache_partial_block(request(5, 6), 1, 8, kv_cache_group_id=0)
    assert pool.keys_of(1) == [10, 12] and pool.reporter.losses == []


@pytest.mark.parametrize("units", [0, 3])
def test_a_part_ends_within_the_known_hashes(pool, units):
    with pytest.raises(EngineCoreDied):
        pool.cache_partial_block(request(5, 6), 1, 4 * units, kv_cache_group_id=0)


def test_a_block_that_lost_its_keys_ends_nowhere(pool):
    pool.insert_block_hash(10, 1, 4)
    pool.insert_block_hash(12, 1, 8)
    assert pool.ends_at(1, 4) and not pool.ends_at(1, 8) and not pool.ends_at(2, 0)
    pool.remove_cached_block_hashes(1, EVICTED)
    assert not pool.ends_at(1, 4) and pool.keys_of(1) == []
    pool.insert_block_hash(14, 1, 4)
    assert pool.keys_of(1) == [14], "its further keys are forgotten, too"


def test_moved_keys_are_logged_with_their_groups(pool):
    pool.insert_block_hash(7, 1, 8)
    pool.move_block_hashes(1, 2)
    assert pool.seen == [Keyed(1, [2], [3], [8]), Moved(1, 2)] and pool.ends_at(2, 8)


def test_cells_are_blocks_with_an_owner_users_or_keys(pool):
    """The null block is not listed."""
    taken = pool.get_new_blocks(2)
    cache(pool, [2], [7])
    pool.insert_block_hash(8, 2, 8)
    pool.free_blocks(taken[1:])
    found = pool.cells({4: 9, 0: 9})
    assert [cell._asdict() for cell in found] == [
        {"id": 1, "group": -1, "tokens": 0, "owner": -1, "refs": 1, "place": -1, "keys": 0},
        {"id": 2, "group": 1, "tokens": 4, "owner": -1, "refs": 0, "place": 3, "keys": 2},
        {"id": 4, "group": -1, "tokens": 0, "owner": 9, "refs": 0, "place": 1, "keys": 0},
    ]


def test_every_block_is_listed_with_each_of_its_keys():
    blocks = BlockHashToBlockMap()
    for key, block in ((9, 4), (9, 2), (5, 4)):
        blocks.insert(key, block)
    assert sorted(blocks.items()) == [(5, 4), (9, 2), (9, 4)] and len(blocks) == 2


def test_keys_that_are_not_found_are_noticed(pool):
    pool.insert_block_hash(10, 1, 4)
    pool.check([])
    pool.cached_block_hash_to_block.pop(10, 1)
    with pytest.raises(Crash, match="1 keys of blocks differ"):
        pool.check([])


def test_a_block_that_is_free_and_in_use_is_noticed(pool):
    pool.get_new_blocks(1)
    pool.check([1])
    pool.free_block_queue.append([1])
    with pytest.raises(Crash, match="block 1 has 1 users and is listed in 1 tables"):
        pool.check([1])


@pytest.mark.parametrize(("caching", "order"), [(True, [4, 5, 1]), (False, [1, 4, 5])])
def test_without_a_prefix_cache_all_blocks_join_the_side_of_those_without_keys(caching, order):
    pool = BlockPool(6, 1, enable_caching=caching, hash_block_size=4, emit=lambda event: None,
                     free_side=lambda keyed: BACK if keyed else FRONT)  # fmt: skip
    pool.get_new_blocks(3)
    pool.insert_block_hash(10, 1, 4)
    pool.free_blocks([1])
    assert list(pool.free_block_queue) == order


def test_a_pool_in_use_stays_as_it_is(pool):
    cache(pool, pool.get_new_blocks(1), [3], group=0)
    assert pool.reset_prefix_cache() is False and pool.get_cached_block(3, (0,)) == [1]


def test_a_free_block_that_is_used_again_leaves_the_free_queue(pool):
    pool.free_blocks(pool.get_new_blocks(1))
    pool.touch([1])
    assert list(pool.free_block_queue) == [2, 3, 4, 5] and pool.ref_cnt[1] == 1
    pool.check([1])
