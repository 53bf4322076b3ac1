"""Drawn requests on the released classes of SGLang 0.5.23 and on our server: every turn is compared.

    python -m tests.peers.sglang_schedule FOLDER --ops 10000 --seed 0

FOLDER: an unpacked wheel of sglang, beside the package msgspec. Released are the tree, the queue policy, admission and
the checkpoints of requests with full attention; the loop around them is that of the shared recordings. One operation is
a request or a turn.
"""

import argparse
import random
import time
from array import array
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from cachesim.engines.base import Request
from cachesim.engines.sglang import ENGINE
from cachesim.engines.sglang.events import Turn
from cachesim.engines.shared.page_pool import PagePool
from tests.peers import sglang_source as source
from tests.peers.sglang_tree import Trees

NO_HIT = {"host_hit_length": 0, "storage_hit_length": 0, "auxiliary_swa_host_hit_length": 0}


class RealRow(SimpleNamespace):
    """A request as the released classes read it."""

    def __init__(self, number, prompt, answer, key, priority):
        kv = SimpleNamespace(req_pool_idx=number, cache_protected_len=0, cache_inserted_len=0,
                             get_evicted_seqlen=lambda part: 0, swa_dead_lo=lambda page: 0)  # fmt: skip
        super().__init__(
            rid=number, origin_input_ids=array("q", prompt), output_ids=array("q"), answer=answer, extra_key=key,
            cache_salt=None, priority=priority, session_id=None, kv_rotation_base=None, lock=None, last_node=None,
            kv=kv, prefix_len=0, extend_end=0, computed=0, allocated=0, retracted_stain=False, over=False,
            sampling_params=SimpleNamespace(max_new_tokens=len(answer), ignore_eos=False), cache_request_handle=None,
            swa_branching_seqlen=None, time_stats=SimpleNamespace(wait_queue_entry_time=0), **NO_HIT,
        )  # fmt: skip

    @property
    def full_untruncated_fill_ids(self):
        return self.origin_input_ids + self.output_ids

    @property
    def extend_len(self):
        return self.extend_end - self.prefix_len

    def needs_host_load_back(self):
        return False

    def _compute_max_prefix_len(self, n):
        return n - 1

    def finished(self):
        return self.over

    def speak(self):
        self.output_ids.append(self.answer[len(self.output_ids)])
        self.over = len(self.output_ids) == len(self.answer)


class RealServer:
    """The released classes, and the loop of the recordings around them."""

    def __init__(self, real, opts, requests):
        self.real, self.opts, self.page = real, opts, opts["page_size"]
        trees = Trees(real, (0,), self.page, 0, opts["max_total_tokens"], 4, opts["radix_eviction_policy"], -1, 1)
        self.cache, self.allocator = trees.cache, trees.slots
        self.pool = PagePool(opts["max_total_tokens"], self.page)
        self.allocator.peer = defaultdict(int)                     # no window slots
        self.allocator.full, self.rows = self.pool.free, np.zeros((requests, opts["max_total_tokens"]), np.int64)
        self.cache.req_to_token_pool.req_to_token = self.rows.view(source.Tensor)
        self.cache.req_to_token_pool.write = self.write
        real.policy.get_memory = lambda: SimpleNamespace(radix_eviction_policy="lru")
        self.policy = real.policy.SchedulePolicy(opts["schedule_policy"], self.cache, False, False, False)
        self.waiting, self.running, self.chunked = [], [], None

    def write(self, place, slots):
        number, span = place
        self.rows[number, span] = slots

    def make_room(self, tokens):
        lacking = tokens - self.pool.available
        if lacking > 0:
            self.cache.evict_for_alloc(self.real.params.EvictParams(num_tokens=lacking))

    def allocate(self, row, stop):
        slots = self.rows[row.rid]
        last = int(slots[row.allocated - 1]) if row.allocated else -1
        slots[row.allocated : stop] = self.pool.extend(last, row.allocated, stop)
        row.allocated = stop

    def update(self):
        """Run a turn; return its records."""
        prefill = self.prefill()
        made = [prefill] if prefill is not None else []
        if not (made and made[0]["run"]) and self.running:
            made.append(self.decode())
        return made

    def choose(self, verdicts):
        opts, held = self.opts, len(self.running) + (self.chunked is not None)
        self.policy.calc_priority(self.waiting)
        adder = self.real.policy.PrefillAdder(
            self.page, self.cache, self.allocator, SimpleNamespace(reqs=self.running), opts["new_token_ratio"],
            opts["max_prefill_tokens"], opts["chunked_prefill_size"])
        adder._account_prefill_cache_admission = lambda *args: None          # statistics
        if self.chunked is not None:
            self.chunked = adder.add_chunked_req(self.chunked)
        held -= len(adder.can_run_list)
        other = self.real.policy.AddReqResult.OTHER
        for row in self.waiting:
            if held + len(adder.can_run_list) >= opts["max_running_requests"] or adder.budget_state() == other:
                break
            self.real.common.match_kv_cache(row, self.cache, max_prefix_len=len(row.full_untruncated_fill_ids) - 1)
            row.kv.cache_protected_len = row.prefix_len
            verdict = adder.add_one_req(row, self.chunked is not None, None)
            verdicts.append([row.rid, verdict.name])
            if verdict.name != "CONTINUE":
                break
        self.chunked = adder.new_chunked_req or self.chunked
        return adder.can_run_list

    def prefill(self):
        held = len(self.running) + (self.chunked is not None)
        if not (self.waiting or self.chunked) or (
                held >= self.opts["max_running_requests"] and self.chunked is None):
            return None
        verdicts = []
        chosen = self.choose(verdicts)
        queue = [row.rid for row in self.waiting]
        self.waiting = [row for row in self.waiting if row not in chosen]
        prefixes = [self.cache.path_device_indices(row.last_node) if not row.allocated else None for row in chosen]
        if chosen:
            self.make_room(sum(row.extend_len for row in chosen) + (self.page > 1) * self.page * len(chosen))
        for row, prefix in zip(chosen, prefixes, strict=True):
            if prefix is not None:
                self.rows[row.rid, : len(prefix)], row.allocated = prefix, len(prefix)
            self.allocate(row, row.extend_end)
        run = [[row.rid, row.prefix_len, row.extend_end] for row in chosen]
        for row in chosen:
            row.computed = row.extend_end
            if row.computed == len(row.full_untruncated_fill_ids):
                row.speak()
        for row in chosen:
            if row is not self.chunked:
                self.running.append(row)
            if not self.end(row):
                self.cache.checkpoint_into_tree(row, up_to=row.extend_end)
                row.prefix_len = row.extend_end
        return self.record("prefill", run, chosen, queue=queue, verdicts=verdicts)

    def end(self, row):
        if row.over:
            self.cache.checkpoint_into_tree(row, up_to=row.computed)
            self.release(row)
            self.running.remove(row)
        return row.over

    def release(self, row):
        self.cache.free_kv_row(row.kv, [(row.kv.cache_protected_len, row.computed)])
        self.cache.unlock(row.lock)
        row.lock, row.allocated = None, 0

    def fits(self, rows):
        need = self.page * sum(row.computed % self.page == 0 for row in rows)
        self.make_room(need)
        return self.pool.available >= need

    def decode(self):
        gone = {"retracted": [], "oom": []}
        if not self.fits(self.running):
            order = sorted(self.running, reverse=True,
                           key=lambda row: (len(row.output_ids), -len(row.origin_input_ids)))  # fmt: skip
            first = True
            while len(order) > 1 and (first or not self.fits(order)):
                first, row = False, order.pop()
                gone["retracted"].append(row.rid)
                self.release(row)
                self.make_room(20 * len(order))
                row.kv.cache_protected_len = row.kv.cache_inserted_len = row.computed = row.prefix_len = 0
                self.waiting.append(row)
            if not self.fits(order):
                gone["oom"].append(order[0].rid)
                self.release(order.pop())
            self.running = [row for row in self.running if row in order]
        rows = list(self.running)
        for row in rows:
            self.allocate(row, row.computed + 1)
            row.computed += 1
            row.speak()
        run = [[row.rid, row.computed - 1, row.computed] for row in rows]
        for row in rows:
            self.end(row)
        return self.record("decode", run, rows, **gone)

    def record(self, op, run, rows, **more):
        gone = {name: more.pop(name) for name in ("retracted", "oom") if more.get(name)}
        more = {name: value for name, value in more.items() if name in ("queue", "verdicts")}
        finished = [row.rid for row in rows if row.over]
        return {"op": op, "run": run, **more, **gone, **({"finished": finished} if finished else {})}


def compare(theirs, ours):
    """Compare pools and trees."""
    core, tree = theirs.cache.tree_core, ours.tree
    full = core.component_types[0]
    assert list(theirs.pool.free) == list(ours.kv.full.free)
    assert (core.component_evictable_size_[full], core.component_protected_size_[full]) == (
        tree.evictable[0], tree.protected[0])  # fmt: skip
    nodes = [(node.key, tuple(node.value[0]), node.hits, node.lock[0]) for node in tree.nodes()]
    level, real = [core.root_node], []
    while level:
        level = [child for node in level for child in node.children.values()]
        real += [(tuple(node.key.token_ids), tuple(node.component_data[full].value), node.hit_count,
                  node.component_data[full].lock_ref) for node in level]  # fmt: skip
    assert nodes == real


def campaign(real, seed, tried, seconds):
    """Send drawn requests to both servers."""
    draw = random.Random(seed)
    page = draw.choice([1, 1, 2, 4])
    opts = {"page_size": page, "max_total_tokens": draw.choice([80, 96, 128, 240]), "max_prefill_tokens": 64,
            "chunked_prefill_size": draw.choice([8, 16, 64]), "max_running_requests": draw.choice([2, 4, 8]),
            "schedule_policy": draw.choice(["fcfs", "fcfs", "lpm", "dfs-weight", "lof", "shortest-prefill-first"]),
            "radix_eviction_policy": draw.choice(list(source.POLICIES)),
            "new_token_ratio": draw.choice([0.0, 0.2, 0.7])}
    theirs = RealServer(real, opts, 40)
    ours = ENGINE.start("sglang@0.5.23-recorded", "A", {**opts, "in_batch_threshold": 32}, "provenance")
    texts = [tuple(draw.randrange(50) for _ in range(60)) for _ in range(3)]
    for number in range(40):
        prompt = (*draw.choice(texts)[: draw.randrange(1, 50)], draw.randrange(50))
        answer, key = tuple(range(100, 101 + draw.randrange(20))), draw.choice(["", "", "", "k"])
        priority = draw.randrange(2)
        ours.submit(Request(prompt, len(answer), forced=answer, extra={"extra_key": key, "priority": priority}))
        ours.take_tasks()
        theirs.waiting.append(RealRow(number, prompt, answer, key or None, priority))
        for _ in range(draw.choice([0, 1, 1, 3, 12 if number < 39 else 400])):
            first, began = len(ours.log.events), time.process_time()
            ours.update()
            middle = time.process_time()
            made = theirs.update()
            seconds.update(ours=middle - began, released=time.process_time() - middle)
            turns = [event.record() for event in ours.log.events[first:] if isinstance(event, Turn)]
            assert turns == made, (turns, made)
            compare(theirs, ours)
            tried.update(turns=1, retractions=sum("retracted" in turn for turn in turns))
            if not (ours.waiting or ours.running or ours.chunked):
                break
        tried["requests"] += 1
    ours.check()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ops", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    real, tried, seconds, seed = source.load(args.folder, schedule=True), Counter(), Counter(), args.seed
    while tried["turns"] + tried["requests"] < args.ops:
        try:
            campaign(real, seed, tried, seconds)
        except AssertionError as error:
            raise AssertionError(f"campaign {seed}") from error
        seed += 1
    print(", ".join(f"{n} {name}" for name, n in tried.items()) + ", 0 mismatches")
    print(f"CPU time: released classes {seconds['released']:.1f} s, ours with provenance {seconds['ours']:.1f} s, "
          f"{seconds['ours'] / seconds['released']:.2f} x")  # fmt: skip


if __name__ == "__main__":
    main()
