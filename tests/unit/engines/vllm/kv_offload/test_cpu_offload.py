"""Chunks in CPU memory: what is stored, evicted and found. `make peers-vllm` compares drawn operations with vLLM."""

from __future__ import annotations

import pytest

from cachesim.engines.vllm.kv_offload.cpu_offload import HIT, MISS, PENDING, Access, Offload

PROMPT = [(at, 0) for at in range(4)]
OTHER = [(at, 0) for at in range(8, 12)]


def store(offload, keys, access):
    """Store the missing chunks; return them with their places and the evicted ones, None = they have no room."""
    missing = offload.offer(keys, access)
    free, idle = offload.room(keys)
    if len(missing) > free + len(idle):
        return None
    gone = offload.store(missing, idle, access)
    return missing, [offload.places[key] for key in missing], gone


def stored(offload, keys, access=None):
    """Store chunks for a request with known positions, which then ends."""
    access = access or Access({key: at for at, key in enumerate(keys, 1)})
    made = store(offload, keys, access)
    offload.stored(made[0], success=True)
    offload.finish(access)
    return made


def found(offload, keys):
    """Return the keys that can be loaded."""
    return [key for key in keys if offload.look_up(key) == HIT]


def test_a_chunk_is_found_once_it_is_written():
    offload = Offload(4)
    assert offload.look_up(PROMPT[0]) == MISS
    assert store(offload, PROMPT[:2], Access()) == (PROMPT[:2], [0, 1], [])
    assert offload.look_up(PROMPT[0]) == PENDING
    offload.stored(PROMPT[:1], success=True)
    offload.stored(PROMPT[1:2], success=False)
    assert [offload.look_up(key) for key in PROMPT[:2]] == [HIT, MISS]
    assert store(offload, PROMPT, Access()) == (PROMPT[1:], [2, 3, 1], [])


def test_lru_evicts_the_end_of_the_oldest_prompt_first():
    offload = Offload(4)
    stored(offload, PROMPT)
    assert stored(offload, OTHER[:2]) == (OTHER[:2], [2, 3], [PROMPT[3], PROMPT[2]])
    assert stored(offload, [(20, 0), (21, 0), (22, 0)])[2] == [PROMPT[1], PROMPT[0], OTHER[1]]


def test_a_running_request_keeps_the_rank_of_its_start():
    offload, first, second = Offload(4), Access(dict(zip(PROMPT, range(4), strict=True))), Access({OTHER[0]: 1})
    store(offload, PROMPT[:2], first)
    store(offload, OTHER[:1], second)
    store(offload, PROMPT[2:3], first)
    offload.stored([*PROMPT[:3], *OTHER[:1]], success=True)
    assert store(offload, [(20, 0), (21, 0)], Access())[2] == [PROMPT[2], PROMPT[1]]


@pytest.mark.parametrize("policy", ["lru", "arc"])
def test_chunks_in_use_and_those_offered_stay(policy):
    offload, reader = Offload(4, policy), Access()
    stored(offload, PROMPT)
    assert offload.load(PROMPT[:3], reader) == [0, 1, 2]
    assert store(offload, OTHER[:2], Access()) is None
    assert found(offload, PROMPT) == PROMPT
    assert store(offload, [*PROMPT[3:], *OTHER[:1]], Access()) is None
    offload.loaded(PROMPT[:3])
    assert store(offload, [*PROMPT[3:], *OTHER[:1]], Access())[0] == OTHER[:1]
    assert offload.look_up(PROMPT[3]) == HIT


def test_arc_keeps_what_a_second_request_reused():
    offload, second = Offload(4, "arc"), Access()
    stored(offload, PROMPT)
    offload.load(PROMPT[:2], second)
    offload.loaded(PROMPT[:2])
    offload.finish(second)
    assert [list(part) for part in offload.policy.lists] == [PROMPT[3:1:-1], PROMPT[1::-1]]
    assert stored(offload, OTHER[:2])[2] == [PROMPT[3], PROMPT[2]]
    assert list(offload.policy.ghosts[0]) == [PROMPT[3], PROMPT[2]]
    stored(offload, PROMPT[2:3])
    assert offload.policy.target == 1
    assert PROMPT[2] not in offload.policy.ghosts[0]


def test_a_chunk_is_stored_once_enough_requests_offered_it():
    offload = Offload(4, threshold=2, tracked=2)
    assert store(offload, PROMPT[:2], Access())[0] == []
    assert store(offload, PROMPT[1:3], Access())[0] == PROMPT[1:2]
    assert set(offload.offers) == {PROMPT[1], PROMPT[2]}


def test_a_reset_forgets_every_chunk():
    offload = Offload(2)
    stored(offload, PROMPT[:2])
    offload.reset()
    assert found(offload, PROMPT) == []
    assert store(offload, PROMPT[:2], Access())[1] == [0, 1]
