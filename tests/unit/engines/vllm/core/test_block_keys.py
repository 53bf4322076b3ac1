"""Keys of blocks: several keys of a block, several blocks of a key."""

from __future__ import annotations

from cachesim.engines.vllm.core.block_keys import BlockKeys


def made(*pairs):
    keys = BlockKeys(4)
    for block, key in pairs:
        keys.add(block, key)
    return keys


def test_a_block_has_its_first_key_as_primary_key():
    keys = made((1, 7), (1, 9))
    assert (keys.primary[1], [*keys.of(1)], [*keys.of(2)]) == (7, [7, 9], [])
    assert keys.has(1, 9) and not keys.has(2, 9) and not keys.has(1, 8)


def test_the_block_that_has_had_a_key_longest_is_found():
    keys = made((3, 7), (1, 7), (2, 7))
    assert keys.find(7) == 3 and keys.has(2, 7)
    assert [*keys.remove(3)] == [7] and keys.find(7) == 1


def test_a_removed_block_is_not_found_under_any_of_its_keys():
    keys = made((1, 7), (1, 9), (2, 9))
    assert [*keys.remove(1)] == [7, 9]
    assert (keys.find(7), keys.find(9), [*keys.of(1)]) == (None, 2, [])
    keys.remove(2)
    assert keys.find(9) is None
    keys.add(1, 8)
    assert [*keys.of(1)] == [8]
