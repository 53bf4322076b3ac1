"""Parts of a server that has no feature of its own: the defaults that callers rely on."""

import numpy as np
import pytest

from cachesim.engines.inspection import RowsPart, StatePart, StoredBytes, StoredObject, TokenPrefix
from cachesim.engines.server_parts import CacheCells, Inspection, MemorySizes, SequenceMemory, Tasks


class Plain(Inspection):
    """Three slots with two tokens each; a stored object says that its key has one token."""

    n_slots = 3

    def tokens_of(self, slot):
        return slot, slot + 1

    def answer_at(self, slot):
        return None

    def kept(self):
        return []

    def stored(self, key, start=0):
        return StoredObject(key[0], key[1], (99,), 2, (RowsPart(start, np.arange(2), {}),), StatePart(1, {}))


def test_all_slots_may_hold_tokens_and_are_named_by_their_numbers():
    plain = Plain()
    assert [*plain.occupied_slots()] == [0, 1, 2]
    assert [plain.slot_with_id(number) for number in (-1, 0, 2)] == [0, 0, 2]
    assert plain.prefix_of(1) == TokenPrefix((1, 2), 2)


def test_a_server_without_features_has_no_checkpoints_limits_or_further_completions():
    plain = Plain()
    assert (plain.is_further(0), plain.memory_matches(0)) == (False, True)
    assert plain.checkpoints(0) == plain.exceeded_limits() == []
    assert plain.check() is None


def test_a_live_slot_has_the_tokens_of_the_slot_and_a_copy_of_its_memory():
    live = Plain().live(2)
    assert (live.kind, live.owner, live.tokens, live.resume) == ("slot", 2, (2, 3), 2)
    content = Plain().content(("entry", 1, 0), 7)
    assert (content.rows[0].window, content.state) == (7, StatePart(1, {}))
    assert Plain().content(("entry", 1, 0)).rows[0].window == 0


def test_a_server_without_a_queue_has_no_tasks():
    tasks = Tasks()
    assert (tasks.queued, [*tasks.at_work()], [*tasks.waiting()]) == (0, [], [])
    assert (tasks.arrival_is_unlogged, tasks.disconnect_is_next, tasks.take_queue()) == (False, False, None)


@pytest.mark.parametrize("context", [0, 512])
def test_a_server_that_stores_nothing_has_no_bytes(context):
    sizes = MemorySizes(context)
    assert (sizes.n_ctx_slot, sizes.stored_bytes()) == (context, StoredBytes(0, 0))
    assert (sizes.uncounted_bytes(), sizes.stored_sizes()) == (0, [])
    assert MemorySizes().n_ctx_slot == 0


def test_a_memory_without_sequences_has_no_positions():
    memory = SequenceMemory()
    assert (memory.held(0).tolist(), memory.held(0).dtype) == ([], np.int64)
    assert (memory.checkpoint_spans(0), memory.draft_memory(0), memory.reevaluates_draft(2)) == ([], None, False)
    assert memory.observe_removals(print) is None


def test_a_server_without_pool_and_tree_has_no_cells():
    assert (CacheCells().blocks(), CacheCells().nodes()) == ((), ())
