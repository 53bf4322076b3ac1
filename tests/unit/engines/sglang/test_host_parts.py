"""Windows and recurrent states in host memory (HiCache): what is copied, what comes back, what is dropped."""

import numpy as np
import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.base import Request
from cachesim.engines.sglang.mem_cache.pool_host import HostKVCache, MambaPoolHost
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA, SWA

A, B, C = (tuple(range(n, n + 24)) for n in (100, 200, 300))
MODELS = {"W8 A": "S", "GA": "M", "W8 A G": "SM"}
STATES = {"mamba_radix_cache_strategy": "no_buffer", "disable_overlap_schedule": True, "max_mamba_cache_size": 8}


def start(engine, model, mode="provenance", rules="sglang@0.5.23", **flags):
    flags = {"max_total_tokens": 48, "enable_hierarchical_cache": True, "chunked_prefill_size": 24,
             "swa_full_tokens_ratio": 1.0, **STATES, **flags}  # fmt: skip
    return engine.start(rules, model, flags, mode)


def core_of(server):
    return server.scheduler.tree_cache.tree_core


def talk(server, *prompts, answer=2):
    answers = [server.complete(Request(prompt, answer)) for prompt in prompts]
    server.inspection.check()
    server.scheduler.tree_cache.check_hicache_events()
    assert not any(any(node.lock_ref) or any(node.host_lock_ref) for node in core_of(server).nodes())
    server.inspection.check()
    return answers


def holders(server, part):
    """Return the ends of the nodes whose part is on the device, and of those whose part is in host memory."""
    nodes = list(core_of(server).nodes())
    return ([node.end for node in nodes if node.value[part] is not None],
            [node.end for node in nodes if node.host_value[part] is not None])  # fmt: skip


@pytest.mark.parametrize("mode", ["provenance", "exact"])
@pytest.mark.parametrize("policy", ["write_through", "write_back"])
@pytest.mark.parametrize("model", MODELS)
def test_a_conversation_that_comes_back_answers_as_a_cold_run(engine, model, policy, mode):
    server = start(engine, model, mode, hicache_write_policy=policy)
    first = talk(server, A)[0]
    text = (*A, *first.tokens[:1])
    talk(server, B)
    assert not any(core_of(server).nodes_by_id[one].value[FULL] is not None
                   for one in list(core_of(server).nodes_by_id)[:1])
    warm = talk(server, (*text, 7, 8))[0]
    (cold,) = talk(start(engine, model, mode), (*text, 7, 8))
    assert (warm.cache_n, cold.cache_n, warm.deciding) == (25, 0, "SG-HOST-LOAD-BACK.TEN")
    assert [one.digest for one in warm.outputs] == [one.digest for one in cold.outputs]
    assert mode == "provenance" or all(
        (mine.logits == theirs.logits).all() for mine, theirs in zip(warm.outputs, cold.outputs, strict=True))


@pytest.mark.parametrize(("pool", "name", "model", "wrong"), [
    (HostKVCache, "load_to_device", "W8 A", lambda copy, host, slots, want: copy(host, slots, want[::-1])),
    (HostKVCache, "backup_from_device", "W8 A", lambda copy, host, have, slots: copy(host, have[::-1], slots)),
    (MambaPoolHost, "load_to_device", "GA", lambda copy, host, slot, want: None),
    (MambaPoolHost, "backup_from_device", "GA", lambda copy, host, have, slot: None),
])  # fmt: skip
def test_a_copy_of_something_else_is_a_wrong_answer(engine, monkeypatch, pool, name, model, wrong):
    copy = getattr(pool, name)
    monkeypatch.setattr(pool, name, lambda *args: wrong(copy, *args))
    server = start(engine, model)
    text = (*A, *talk(server, A, B)[0].tokens[:1], 7)
    warm = talk(server, text)[0]
    monkeypatch.undo()
    (cold,) = talk(start(engine, model), text)
    assert warm.cache_n == 25 and warm.outputs[0].digest != cold.outputs[0].digest


@pytest.mark.parametrize(("model", "part"), [("W8 A", SWA), ("GA", MAMBA)])
def test_write_through_copies_windows_and_states_with_their_node(engine, model, part):
    server = start(engine, model)
    talk(server, A)
    device, host = holders(server, part)
    assert device == host and 25 in host


@pytest.mark.parametrize(("model", "part"), [("W8 A", SWA), ("GA", MAMBA)])
def test_write_back_copies_them_when_the_device_is_full(engine, model, part):
    server = start(engine, model, hicache_write_policy="write_back")
    talk(server, A)
    assert holders(server, part)[1] == []
    talk(server, B)
    assert 25 in holders(server, part)[1]


def test_a_new_state_at_a_node_with_a_copy_is_copied(engine):
    server = start(engine, "GA", max_total_tokens=200)
    talk(server, (*A, *B), (*A, *C), answer=1)          # both end a chunk after 24 tokens; the first keeps its state
    node = next(node for node in core_of(server).nodes() if node.end == 24)
    assert node.value[MAMBA] is not None and node.host_value[MAMBA] is not None


def test_full_host_memory_for_states_drops_the_oldest_ones(engine):
    server = start(engine, "GA", max_total_tokens=60, max_mamba_cache_size=5, hicache_ratio=0.5)
    talk(server, A, B, C)
    pool = server.scheduler.tree_cache.cache_controller.mem_pool_host[MAMBA]
    assert pool.size == 3 and len(holders(server, MAMBA)[1]) + pool.available_size() == 3


@pytest.mark.parametrize(("rules", "why"), [("sglang@0.5.20", "not modelled for"),
                                            ("sglang@0.5.9", "not modelled for")])  # fmt: skip
def test_older_releases_are_refused_with_windows_or_states(engine, rules, why):
    with pytest.raises(BadInput, match=why):
        start(engine, "W8 A", rules=rules)
    assert start(engine, "A", rules=rules).complete(Request(A, 1)).predicted_n == 1


def test_inspection_reads_copies(engine):
    server = start(engine, "W8 A G")
    talk(server, A, B)
    node = next(node for node in core_of(server).nodes() if node.evicted and node.end == 25)
    window = server.inspection.stored(("node", node.id, 0)).rows[1]
    state = server.inspection.stored(("state", node.id, 0)).state
    cold = start(engine, "W8 A G")
    talk(cold, A)
    twin = next(one for one in core_of(cold).nodes() if one.end == 25)
    theirs = cold.inspection.stored(("node", twin.id, 0)).rows[1]
    assert all(np.array_equal(window.rows[i].digest[-8:], theirs.rows[i].digest[-8:]) for i in window.rows)
    like = cold.inspection.stored(("state", twin.id, 0)).state
    assert (state.pos, [one and one.hash for one in state.rows.values()]) == (
        24, [one and one.hash for one in like.rows.values()])
    held = next(cell.held for cell in server.cache_cells.nodes() if cell.id == node.id)
    assert held == ["copy in host memory", "window in host memory", "state in host memory"]
