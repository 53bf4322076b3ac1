"""The self-check of a server of vLLM sees every table that disagrees with another one."""

from __future__ import annotations

import pytest

from cachesim.base.errors import Crash
from cachesim.engines.base import Request
from cachesim.engines.registry import ENGINES
from cachesim.engines.vllm.core.encoder_cache_manager import EncoderCacheManager
from cachesim.engines.vllm.kv_offload.cpu_manager import CPUOffloadingManager, RequestCacheAccess
from cachesim.engines.vllm.profiles import V0_33_0
from cachesim.engines.vllm.request import EncoderInput
from cachesim.events import Log
from tests.unit.engines.vllm.requests import make_request

A, B = (EncoderInput(number, offset=0, length=4, identifier=number) for number in range(2))
CHUNKS = [(1, 0), (2, 0)]


def images():
    """A cache of 9 places: one request uses an image, no request uses another one."""
    cache = EncoderCacheManager(9, V0_33_0, 0)
    for number, image in enumerate((A, B)):
        cache.allocate(make_request(number), image)
    cache.free(make_request(1))
    return cache


@pytest.mark.parametrize(("damage", "text"), [
    (lambda cache: cache.cached.pop(A.identifier), "images .* are listed, of which requests use"),
    (lambda cache: cache.cached[A.identifier].add(7), "images .* are listed, of which requests use"),
    (lambda cache: cache.freeable.pop(B.identifier), "images .* are listed, of which requests use"),
    (lambda cache: setattr(cache, "num_free_slots", 2), "1 places for images are free, counted are 2, and 5 with"),
    (lambda cache: setattr(cache, "num_freeable_slots", 4), "1 places for images are free, counted are 1, and 4 with"),
])  # fmt: skip
def test_images_and_their_users_and_places_agree(damage, text):
    cache = images()
    cache.check()
    damage(cache)
    with pytest.raises(Crash, match=text):
        cache.check()


def chunks(policy):
    """A memory of 3 chunks: one is stored, and the next one is being written."""
    manager = CPUOffloadingManager(3, policy)
    manager.prepare_store(CHUNKS, set(), RequestCacheAccess())
    manager.complete_store(CHUNKS[:1], success=True)
    return manager


@pytest.mark.parametrize(("damage", "text"), [
    (lambda manager: manager.free.append(0), "places .0, 0, 1. of 2 hold chunks or are free; 2 chunks have users"),
    (lambda manager: setattr(manager, "capacity", 1), "places .0, 1. of 2 hold"),
    (lambda manager: manager.users.pop(CHUNKS[1]), "places .0, 1. of 2 hold .* 1 chunks have users"),
    (lambda manager: manager.policy.remove(CHUNKS[0]), "the policy knows 1 chunks, 1 of 2 are idle"),
    (lambda manager: manager.policy.insert((3, 0), RequestCacheAccess()), "the policy knows 3 chunks, 1 of 2 are idle"),
])  # fmt: skip
@pytest.mark.parametrize("policy", ["lru", "arc"])
def test_chunks_in_cpu_memory_and_their_places_and_ranks_agree(policy, damage, text):
    manager = chunks(policy)
    manager.check()
    damage(manager)
    with pytest.raises(Crash, match=text):
        manager.check()


def server():
    """A server that has answered a request, and keeps its blocks in the pool and in CPU memory."""
    started = ENGINES["vllm"].start("vllm@0.33.0", "A", {"block_size": 4, "num_gpu_blocks": 12, "num_cpu_chunks": 8},
                                    "none", Log())  # fmt: skip
    started.complete(Request(tuple(range(100, 112)), 2))
    started.inspection.check()
    return started


def lose_key(started):
    found = started.inspection.kv_cache_manager.block_pool.cached_block_hash_to_block
    found.pop(*next(found.items()))


@pytest.mark.parametrize(("damage", "text"), [
    (lose_key, "3 keys of blocks differ from those under which blocks are found"),
    (lambda started: started.inspection.encoder_cache_manager.freeable.update({5: 1}), "images"),
    (lambda started: started.inspection.connector.manager.free.append(0), "places"),
])  # fmt: skip
def test_a_server_checks_its_pool_its_images_and_its_cpu_memory(damage, text):
    started = server()
    damage(started)
    with pytest.raises(Crash, match=text):
        started.inspection.check()
