"""Host memory (HiCache): nodes come back from it with the right rows, and leave it when it is full."""

import numpy as np
import pytest

from cachesim.base.errors import Crash
from cachesim.engines.base import Request
from cachesim.engines.inspection import RowsPart
from cachesim.engines.sglang.inspection import HOST_COPIES
from cachesim.engines.sglang.mem_cache.allocator import NO_SLOT
from cachesim.engines.sglang.mem_cache.pool_host import HostKVCache
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL
from cachesim.events import Decided

A, B, C = (tuple(range(n, n + 40)) for n in (100, 200, 300))
NEXT = (*A, 7, 8)
LOAD, BACK_UP = HostKVCache.load_to_device, HostKVCache.backup_from_device


def start(engine, mode="provenance", **flags):
    flags = {"max_total_tokens": 64, "enable_hierarchical_cache": True, **flags}
    return engine.start("sglang@0.5.23", "AA", flags, mode)


def core_of(server):
    return server.scheduler.tree_cache.tree_core


def talk(server, *prompts):
    answers = [server.complete(Request(prompt, 2)) for prompt in prompts]
    server.inspection.check()
    server.scheduler.tree_cache.check_hicache_events()          # copies are complete, nodes unlocked
    assert not any(any(node.lock_ref) for node in core_of(server).nodes())
    return answers


def happened(server, kind):
    return [event for event in server.log.events if event.ev == kind]


@pytest.mark.parametrize("mode", ["provenance", "exact"])
@pytest.mark.parametrize("flags", [{}, {"page_size": 4}, {"hicache_write_policy": "write_back"},
                                   {"chunked_prefill_size": 8}])  # fmt: skip
def test_a_conversation_that_comes_back_from_host_memory_answers_as_a_cold_run(engine, mode, flags):
    server = start(engine, mode, **flags)
    warm = talk(server, A, B, NEXT)[-1]
    (cold,) = talk(start(engine, mode, **flags), NEXT)
    assert (warm.cache_n, cold.cache_n, warm.deciding) == (40, 0, "SG-HOST-LOAD-BACK.TEN") and happened(server, "load")
    assert [one.digest for one in warm.outputs] == [one.digest for one in cold.outputs]
    assert mode == "provenance" or all(
        (mine.logits == theirs.logits).all() for mine, theirs in zip(warm.outputs, cold.outputs, strict=True))


@pytest.mark.parametrize(("name", "wrong"), [
    ("load_to_device", lambda host, slots, device_slots: LOAD(host, slots, device_slots[::-1])),
    ("backup_from_device", lambda host, device_slots, slots: BACK_UP(host, device_slots - 1, slots)),
])  # fmt: skip
def test_rows_copied_to_wrong_places_are_seen(engine, monkeypatch, name, wrong):
    """Attention does not depend on the order of all rows, so a request reads a part of them."""
    part = (*A[:20], 9)
    (cold,) = talk(start(engine), part)
    for fault in (False, True):
        if fault:
            monkeypatch.setattr(HostKVCache, name, wrong)
        warm = talk(start(engine), A, B, NEXT, part)[-1]
        assert warm.cache_n == 20 and (warm.outputs[0].digest != cold.outputs[0].digest) is fault


@pytest.mark.parametrize(("policy", "copied"), [
    ("write_through", [41, 44, 44]), ("write_through_selective", [0, 40, 43]), ("write_back", [0, 0, 0]),
])  # fmt: skip
def test_the_policy_decides_when_a_node_is_copied(engine, policy, copied):
    server, found = start(engine, hicache_write_policy=policy), []
    for prompt in (A, NEXT, NEXT):
        talk(server, prompt)
        found.append(sum(event.tokens for event in happened(server, "backup")))
    assert found == copied
    assert talk(server, B, NEXT)[-1].cache_n == 41 and sum(event.tokens for event in happened(server, "load")) == 41


def test_a_full_host_memory_drops_leaves_in_the_order_of_the_policy(engine):
    server = start(engine, hicache_ratio=1.0)
    talk(server, A, B, C)
    rooms = [event for event in server.log.events if isinstance(event, Decided) and event.rule == "SG-HOST-EVICT.LEAF"]
    assert rooms and talk(server, A)[0].cache_n == 0
    assert talk(start(engine, hicache_ratio=4.0), A, B, C, NEXT)[-1].cache_n == 40


def test_a_copy_without_room_is_not_made(engine):
    server = start(engine, hicache_ratio=0.5)
    assert talk(server, A, B, NEXT)[-1].cache_n == 0 and not happened(server, "load")
    server = start(engine, hicache_ratio=0.5, hicache_write_policy="write_back")
    assert talk(server, A, B, NEXT)[-1].cache_n == 0 and happened(server, "gone")


def test_few_tokens_are_evaluated_again_and_revive_their_node(engine):
    server = start(engine)
    talk(server, A[:9], B, C)
    again = talk(server, (*A[:9], 1))[0]
    assert again.cache_n == 0 and not happened(server, "load") and happened(server, "revive")
    assert [turn.run for turn in happened(server, "turn") if turn.op == "prefill"][-1] == [[3, 0, 10]]


def test_inspection_reads_the_copy_of_an_evicted_node(engine):
    server = start(engine)
    talk(server, A, B)
    (node,) = [node for node in core_of(server).nodes() if node.value[FULL] is None and node.start == 0]
    cold = start(engine)
    talk(cold, A)
    (mine,), (theirs,) = (one.inspection.stored(("node", number, 0)).rows
                          for one, number in ((server, node.id), (cold, 1)))  # fmt: skip
    assert isinstance(mine, RowsPart) and [HOST_COPIES[FULL]] in [cell.held for cell in server.cache_cells.nodes()]
    assert all((mine.rows[i].digest == theirs.rows[i].digest[: node.end]).all() for i in (0, 1))


def damage_free(server):
    server.scheduler.tree_cache.cache_controller.mem_pool_host[FULL].free_pages.pop()


def damage_slots(server):
    node = next(node for node in core_of(server).nodes() if node.backuped)
    node.host_value[FULL] = np.concatenate((node.host_value[FULL][:-1], node.host_value[FULL][:1]))


def damage_leaves(server):
    core_of(server).evictable_host_leaves.clear()


def damage_parent(server):
    node = next(node for node in core_of(server).nodes() if node.value[FULL] is None and not node.children)
    node.value[FULL] = server.scheduler.pools.token_to_kv_pool_allocator.alloc_extend(NO_SLOT, 0, len(node.key))


@pytest.mark.parametrize("damage", [damage_free, damage_slots, damage_leaves, damage_parent])
def test_check_covers_host_memory(engine, damage):
    server = start(engine)
    talk(server, A, B)
    damage(server)
    with pytest.raises(Crash):
        server.inspection.check()
