"""Comparison of our CPU offload with vLLM's manager: ``python -m tests.peers.vllm_offload --ops 100000 --seed 0``."""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter

from cachesim.base import exits
from cachesim.base.console import complain
from cachesim.engines.vllm.kv_offload.cpu_manager import HIT, MISS, PENDING, RequestCacheAccess
from cachesim.engines.vllm.kv_offload.cpu_manager import CPUOffloadingManager as OurManager

try:
    from vllm.v1.kv_offload.base import LookupResult, ReqContext, make_offload_key
    from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager
except ModuleNotFoundError as absent:                # only `make peers` installs vLLM
    complain(f"not installed: {absent.name!r} (run `make peers`, which makes .venv-peers-vllm)")
    sys.exit(exits.NOTHING)

RESULTS = {LookupResult.MISS: MISS, LookupResult.HIT: HIT, LookupResult.HIT_PENDING: PENDING}
PER_WORLD = 400


def real(key):
    """Return vLLM's form of a key, in the same order."""
    return make_offload_key(key[0].to_bytes(8, "big"), key[1])


class World:
    """Both managers, with the same requests."""

    def __init__(self, rng):
        self.rng, self.requests, self.loads, self.stores, self.made = rng, [], [], [], 0
        self.policy, self.chunks = rng.choice(("lru", "arc")), rng.randint(1, 24)
        threshold, tracked = rng.choice((1, 1, 2, 3)), rng.randint(1, 40)
        self.ours = OurManager(self.chunks, self.policy, threshold, tracked)
        self.real = CPUOffloadingManager(self.chunks, self.policy, store_threshold=threshold, max_tracker_size=tracked)

    def keys(self):
        """Draw a prefix of one of a few prompts, in one or two groups."""
        rng, prompt, groups = self.rng, self.rng.randrange(6), self.rng.randint(1, 2)
        first = rng.randrange(8)
        return [(prompt * 16 + at, group) for group in range(groups) for at in range(first, first + rng.randint(1, 8))]

    def step(self):
        """Perform an operation; return its name and both results."""
        rng = self.rng
        if len(self.requests) < 2 or rng.random() < 0.2:
            self.made += 1
            context = ReqContext(str(self.made))
            positions = {}
            if rng.random() < 0.8:
                positions = {(hashed, group): (hashed % 16 + 1) * 4 for hashed in range(96) for group in range(2)}
            for key, end in positions.items():
                context.set_offload_key_position(real(key), end)
            self.real.on_new_request(context)
            self.requests.append((RequestCacheAccess(positions), context))
        name = rng.choice(("look_up", "load", "load", "store", "store", "loaded", "stored", "stored", "finish"))
        if rng.random() < 0.003:
            self.requests.clear()
            self.loads.clear()
            self.stores.clear()
            return "reset", self.ours.reset_cache(), self.real.reset_cache()
        return name, *getattr(self, f"_{name}")(*rng.choice(self.requests))

    def _look_up(self, access, context):
        keys = self.keys()
        return [self.ours.lookup(key) for key in keys], [RESULTS[self.real.lookup(real(key), context)] for key in keys]

    def _load(self, access, context):
        keys = [key for key in self.keys() if self.ours.lookup(key) == HIT]
        self.loads.append((keys, context))
        made = self.ours.prepare_load(keys, access), self.real.prepare_load(list(map(real, keys)), context)
        return made[0], made[1].block_ids.tolist()

    def _loaded(self, access, context):
        if self.loads:
            keys, context = self.loads.pop(self.rng.randrange(len(self.loads)))
            self.ours.complete_load(keys)
            self.real.complete_load(list(map(real, keys)), context)
        return self.shown()

    def _store(self, access, context):
        keys = self.keys()
        made, ours = self.real.prepare_store(list(map(real, keys)), context), None
        missing = self.ours.offer(keys, access)
        free, idle = self.ours.get_room(keys)
        if len(missing) <= free + len(idle):
            gone = self.ours.prepare_store(missing, idle, access)
            self.stores.append((missing, context))
            ours = [*map(real, missing)], [self.ours.places[key] for key in missing], [*map(real, gone)]
        return ours, made and (made.keys_to_store, made.store_spec.block_ids.tolist(), made.evicted_keys)

    def _stored(self, access, context):
        if self.stores:
            (keys, context), success = self.stores.pop(self.rng.randrange(len(self.stores))), self.rng.random() < 0.8
            self.ours.complete_store(keys, success)
            self.real.complete_store(list(map(real, keys)), context, success)
        return self.shown()

    def _finish(self, access, context):
        self.requests = [one for one in self.requests if one[0] is not access]
        self.ours.on_request_finished(access)
        self.real.on_request_finished(context)
        return self.shown()

    def shown(self):
        """Return what both hold."""
        policy, mine = self.real._policy, self.ours.policy
        if self.policy == "arc":
            ours = [[real(key) for key in part] for part in (*mine.lists, *mine.ghosts)]
            return [ours, mine.target], [[list(part) for part in (policy.t1, policy.t2, policy.b1, policy.b2)],
                                         policy.target_t1_size]  # fmt: skip
        return {real(key): rank for key, rank in mine.ranks.items()}, policy._ranks


def main(argv):
    """Run the comparison."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.vllm_offload", description=__doc__)
    parser.add_argument("--ops", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    done, rng = Counter(), random.Random(args.seed)
    while sum(done.values()) < args.ops:
        world = World(rng)
        for _ in range(PER_WORLD):
            name, ours, theirs = world.step()
            done[f"{world.policy} {name}"] += 1
            if ours != theirs:
                complain(f"difference at operation {sum(done.values())}, {world.policy} {name}: {ours}, {theirs}")
                return exits.BROKEN
    for name, n in sorted(done.items()):
        print(f"{name:14} {n:>8}")
    print(f"{sum(done.values())} operations, 0 differences")
    return exits.HOLDS


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)                  # vLLM's background threads do not end
