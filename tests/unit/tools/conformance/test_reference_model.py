"""Toy model, whose memory is kept by the caller, and the stand-in for the memory of a block manager."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.reference_model import UNWRITTEN, Memory, PagedMemory, Toy

TOKENS = [5, 9, 2, 7, 5]


@pytest.mark.parametrize("layers", ["A", "W2", "G", "S", "C", "H", "GA", "W2 A"])
def test_a_prompt_in_pieces_gives_the_output_of_the_whole(layers):
    toy = Toy(layers)
    _, whole = toy.feed(toy.empty, TOKENS)
    for cut in range(1, len(TOKENS)):
        memory, _ = toy.feed(toy.empty, TOKENS[:cut])
        after, output = toy.feed(memory, TOKENS[cut:])
        assert output == whole and (memory.length, after.length) == (cut, len(TOKENS))
        assert toy.feed(memory, TOKENS[cut:])[1] == whole           # the memory is unchanged


@pytest.mark.parametrize("layers", ["A", "G", "H"])
def test_every_token_and_its_position_count(layers):
    toy = Toy(layers)
    prompts = [1, 2, 3], [9, 2, 3], [1, 9, 3], [1, 2, 9], [2, 1, 3]
    assert len({toy.feed(toy.empty, tokens)[1].digest for tokens in prompts}) == 5


def test_a_window_reads_its_last_tokens_only():
    toy = Toy("W2")
    assert toy.feed(toy.empty, [1, 2, 3])[1] == toy.feed(toy.empty, [9, 2, 3])[1]
    assert toy.feed(toy.empty, [1, 2, 3])[1] != toy.feed(toy.empty, [1, 9, 3])[1]


def test_a_layer_has_rows_or_a_state_or_both():
    toy = Toy("AGH")
    assert toy.empty == Memory(0, (None,) * 3, (None,) * 3)
    memory, _ = toy.feed(toy.empty, TOKENS)
    assert [None if rows is None else len(rows.digest) for rows in memory.rows] == [5, None, 5]
    assert [state is not None for state in memory.states] == [False, True, True]
    longer, _ = toy.feed(memory, [1])
    assert np.array_equal(longer.rows[0].digest[:5], memory.rows[0].digest) and len(longer.rows[0].digest) == 6


def test_the_predicted_token_is_one_of_the_vocabulary():
    toy = Toy("A", tokens=[70, 71, 72])
    output = toy.feed(toy.empty, TOKENS)[1]
    assert output.token == 70 + output.digest % 3
    assert Toy("A").tokens == range(1_000, 30_000)
    plain = Toy("A").feed(Toy("A").empty, TOKENS)[1]
    assert plain.digest == output.digest and plain.token == 1_000 + plain.digest % 29_000
    with pytest.raises(BadInput):
        Toy("X")


def mix(seen, value):
    """Return the digest of a digest and a value: a multiplication, an addition and a shift, in 64 bits."""
    mixed = ((seen ^ value) * 0x100000001B3 + UNWRITTEN) % 2**64
    return mixed ^ mixed // 2**29


def test_a_slot_holds_the_digest_of_its_token_and_of_what_it_reads():
    memory = PagedMemory(2)
    first = mix(0, 5)
    second = mix(mix(0, first), 9)
    third = mix(mix(mix(0, first), second), 2)
    assert memory.evaluate([4, 7], 0, [5, 9, 2]) == third
    assert memory.slots == {(4, 0): first, (4, 1): second, (7, 0): third}
    assert memory.read([4, 7], 2) == mix(mix(0, first), second) and memory.read([4], 0) == 0
    assert memory.read([4, 7], 4) == mix(mix(mix(mix(0, first), second), third), UNWRITTEN)
    assert memory.evaluate([4, 7], 2, []) == memory.read([4, 7], 2)


def test_a_window_reads_as_many_slots_with_its_own():
    memory = PagedMemory(4, window=2)
    first = mix(0, 5)
    second = mix(mix(0, first), 9)
    assert memory.evaluate([0], 0, [5, 9, 2]) == mix(mix(0, second), 2)
    assert memory.evaluate([0], 2, []) == mix(0, second)
    alone = PagedMemory(4, window=1)
    assert alone.evaluate([0], 0, [5, 9]) == mix(0, 9)


def test_a_copied_block_replaces_the_other():
    memory = PagedMemory(2)
    memory.evaluate([1, 2], 0, [5, 9, 2, 4])
    memory.evaluate([3], 0, [8])
    slots = dict(memory.slots)
    memory.copy(3, 2)
    assert memory.slots == {(1, 0): slots[1, 0], (1, 1): slots[1, 1], (2, 0): slots[3, 0], (3, 0): slots[3, 0]}
    memory.copy(1, 3)
    assert (memory.slots[3, 0], memory.slots[3, 1]) == (slots[1, 0], slots[1, 1])
