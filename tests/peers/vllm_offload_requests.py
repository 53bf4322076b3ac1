"""Comparison with vLLM's offloading connector: ``python -m tests.peers.vllm_offload_requests --steps 20000 --seed 0``.

The real scheduler runs with the real connector. This test plays the worker: a transfer ends when the step that begins
it, or a drawn later one, is processed. Our `Transfers` gets the same calls and must answer the same.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sys
from collections import Counter
from types import SimpleNamespace

from cachesim.base import exits
from cachesim.base.console import complain
from cachesim.engines.shared.cpu_offload import Offload
from cachesim.engines.shared.offload_requests import OffloadClient, Transfers

try:
    from vllm.distributed.kv_transfer.kv_connector.utils import yield_req_data
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading.common import OffloadingWorkerMetadata
    from vllm.v1.kv_offload.base import make_offload_key
    from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec
    from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput
    from vllm.v1.request import RequestStatus

    from tests.peers import vllm_draw, vllm_engine
except ModuleNotFoundError as absent:                # only `make peers` installs vLLM
    complain(f"not installed: {absent.name!r} (run `make peers`, which makes .venv-peers-vllm)")
    sys.exit(exits.NOTHING)

PLAIN = vllm_engine.vllm_config
STEPS = 250


def settings_of(config):
    """Return the settings with a connector."""
    made, told = PLAIN(config), config["offload"]
    page = sum(2 * 4 * group["block_size"] for group in config["groups"]) * told["per_chunk"]
    page += -page % CPUOffloadingSpec.BLOCK_SIZE_ALIGNMENT
    made.kv_transfer_config = SimpleNamespace(
        kv_connector="OffloadingConnector", kv_connector_module_path=None, engine_id="one", is_kv_consumer=True,
        kv_load_failure_policy="recompute", is_kv_producer=True,
        kv_connector_extra_config={"cpu_bytes_to_use": told["chunks"] * page, "blocks_per_chunk": told["per_chunk"],
                                   "eviction_policy": told["policy"], "store_threshold": told["threshold"],
                                   "offload_prompt_only": told["prompt_only"]},
    )  # fmt: skip
    made.scheduler_config.disable_hybrid_kv_cache_manager = False
    vars(made.parallel_config).update(
        rank=0, world_size=1, tensor_parallel_size=1, data_parallel_rank_local=None, nnodes_within_dp=1,
        distributed_executor_backend="uni")  # fmt: skip
    vars(made.model_config).update(use_mla=False, model="m", dtype="float32", get_total_num_kv_heads=lambda: 1)
    vars(made.cache_config).update(cache_dtype="auto", kv_cache_layout=None, prefix_cache_retention_interval=None)
    return made


def draw_config(rng):
    """Return the configuration of a model with full attention, and its CPU memory."""
    while True:
        config = vllm_draw.draw_config(rng)
        if {group["kind"] for group in config["groups"]} == {"full"}:
            break
    config |= {"spec": None, "num_spec": 0, "images": False, "dcp": 1, "async_scheduling": False, "retention": None}
    for group in config["groups"]:
        group["eagle"] = False
    least = 2 + sum(-(-config["max_model_len"] // group["block_size"]) for group in config["groups"])
    config["num_blocks"] = max(config["num_blocks"] * 2 // 3, least)
    return config | {"offload": {"chunks": rng.randint(1, 40), "per_chunk": rng.choice((1, 1, 2, 3)),
                                 "policy": rng.choice(("lru", "arc")), "threshold": rng.choice((0, 0, 0, 2)),
                                 "prompt_only": rng.random() < 0.5}}


def packed(key):
    """Return vLLM's form of a key."""
    return make_offload_key(key[0].to_bytes(32, "big"), key[1])


class Beside:
    """The real connector, whose calls `Transfers` repeats; ``wrong`` is the first different answer."""

    def __init__(self, server, config, counts):
        """Wrap the methods of the connector."""
        told, groups = config["offload"], config["groups"]
        self.real, self.counts, self.wrong = server.scheduler.connector.connector_scheduler, counts, None
        self.clients, self.requests = {}, {}
        offload = Offload(told["chunks"], told["policy"], max(1, told["threshold"]))
        self.ours = Transfers(offload, [group["block_size"] for group in groups], told["per_chunk"],
                              config["hash_block_size"], config["caching"])  # fmt: skip
        self.loads, self.due, self.prompt_only = [], [], told["prompt_only"]
        for name in ("on_new_request", "get_num_new_matched_tokens", "update_state_after_alloc", "build_connector_meta",
                     "update_connector_output", "request_finished", "reset_cache"):  # fmt: skip
            setattr(self.real, name, self.wrap(name, getattr(self.real, name)))

    def wrap(self, name, real):
        """Return a method that also asks us."""
        def both(*args, **kw):
            result = real(*args, **kw)
            getattr(self, name)(result, *args)
            return result
        return both

    def same(self, what, ours, theirs):
        """Compare two answers."""
        self.counts[what] += 1
        if ours != theirs and not self.wrong:
            self.wrong = f"{what}: ours {ours}, real {theirs}"

    def on_new_request(self, _, request):
        self.requests[request.request_id] = request
        self.clients[request.request_id] = OffloadClient(len(self.ours.sizes))

    def hashes(self, request):
        """Return the hashes of a request as numbers."""
        return [int.from_bytes(one, "big") for one in request.block_hashes]

    def get_num_new_matched_tokens(self, result, request, local, *_):
        ours = self.ours.match(self.clients[request.request_id], self.hashes(request), local, request.num_tokens,
                               not request.skip_reading_prefix_cache)  # fmt: skip
        found = "later" if result[0] is None else "some" if result[0] else "none"
        self.same(f"matches {found}", ours, result[0])

    def update_state_after_alloc(self, _, request, blocks, tokens):
        if tokens:
            tables = [[block.block_id for block in group] for group in blocks.blocks]
            self.loads.append(self.ours.load(self.clients[request.request_id], tables, tokens))

    def build_connector_meta(self, meta, output):
        for name, groups, whole in yield_req_data(output):
            client = self.clients[name]
            self.ours.learn(client, self.hashes(self.requests[name]))
            for mine, new in zip(client.blocks, groups or (), strict=groups is not None):
                mine[:] = [*(() if whole else mine), *new]
        stores = []
        for name in [*output.num_scheduled_tokens, *output.finished_req_ids]:
            if name in self.clients:
                made = self.ours.store(self.clients[name], self.offered(self.requests[name], output))
                stores += [made] if made else []
        for what, ours, theirs in (("loads", self.loads, meta.load_jobs), ("stores", stores, meta.store_jobs)):
            for one in ours:
                self.counts[f"chunks of {what}"] += len(one.keys)
                self.counts["evicted chunks"] += len(one.evicted)
            self.same(what, [(one.number, list(one.places), list(one.blocks)) for one in ours],
                      [(number, *(side.block_ids.tolist() for side in (
                          (job.src_spec, job.dst_spec) if what == "loads" else (job.dst_spec, job.src_spec))))
                       for number, job in theirs.items()])  # fmt: skip
        self.due += [(number, job.req_id, number in meta.load_jobs)
                     for number, job in {**meta.load_jobs, **meta.store_jobs}.items()]  # fmt: skip
        self.loads = []
        for name in output.finished_req_ids:
            if name in self.clients:
                self.ours.offload.finish(self.clients.pop(name).access)
        self.held()

    def offered(self, request, output):
        """Return the tokens whose blocks can be stored after a step."""
        if request.status is RequestStatus.FINISHED_ABORTED:
            n = request.num_computed_tokens
        elif request.is_finished():
            n = max(request.num_prompt_tokens, request.num_tokens - 1)
        else:
            n = request.num_computed_tokens + output.num_scheduled_tokens[request.request_id]
        return min(n, request.num_tokens, request.num_prompt_tokens if self.prompt_only else n)

    def update_connector_output(self, _, output):
        for number in output.kv_connector_worker_meta.completed_jobs if output.kv_connector_worker_meta else ():
            self.ours.end(number)
        self.held()

    def request_finished(self, _, request):
        self.ours.learn(self.clients[request.request_id], self.hashes(request))

    def reset_cache(self, _):
        for name in [name for name in self.clients if self.requests[name].is_finished()]:
            self.ours.offload.finish(self.clients.pop(name).access)
        self.ours.reset([*self.clients.values()])
        self.held()

    def held(self):
        """Compare what is in CPU memory."""
        manager, ours = self.real.manager, self.ours.offload
        theirs = {name: manager._policy.get(packed(name)) for name in ours.places}
        self.same("memory", {name: (ours.places[name], ours.users[name]) for name in ours.places},
                  {name: chunk and (chunk.chunk_id, chunk.ref_cnt) for name, chunk in theirs.items()})
        self.same("size", len(ours.places), manager._num_allocated_chunks - len(manager._free_list))


class Server(vllm_engine.RealServer):
    """The real scheduler with its connector, and a worker that this test plays."""

    def __init__(self, rng, config, requests, counts):
        """Build both sides."""
        vllm_engine.vllm_config = settings_of
        super().__init__(config, requests, recorded=False)
        self.rng, self.beside = rng, Beside(self, config, counts)
        self.late = rng.choice((0, 0.6, 0.9))

    def step(self):
        """Schedule a step and process its results."""
        output = self.scheduler.schedule()
        said = {}
        for name in output.num_scheduled_tokens:
            request = self.scheduler.requests[name]
            n = request.num_output_tokens
            rest = [*self.requests[name]["answer"][n:], vllm_engine.FILLER]
            said[name] = [] if request.is_prefill_chunk else rest[:1]
        flush = output.kv_connector_metadata.jobs_to_flush or ()
        ended = [one for one in self.beside.due if one[0] in flush or self.rng.random() >= self.late]
        self.beside.due = [one for one in self.beside.due if one not in ended]
        told = KVConnectorOutput(
            finished_recving={name for _, name, is_load in ended if is_load},
            kv_connector_worker_meta=OffloadingWorkerMetadata({number: 1 for number, _, _ in ended}))
        self.scheduler.update_from_output(output, ModelRunnerOutput(
            [*said], {name: at for at, name in enumerate(said)}, [*said.values()], kv_connector_output=told))
        return bool(said)

    def clear(self):
        """Reset the prefix cache and the CPU memory. vLLM raises if requests are preempted while another one loads."""
        loading = any(one.status is RequestStatus.WAITING_FOR_REMOTE_KVS for one in self.scheduler.requests.values())
        preempts = not loading and not self.beside.due and self.rng.random() < 0.5
        self.scheduler.reset_prefix_cache(reset_running_requests=preempts, reset_connector=True)


def run(seed, counts):
    """Compare a drawn server; return the first difference."""
    rng = random.Random(seed)
    config = draw_config(rng)
    try:
        server = Server(rng, config, requests := {}, counts)
    except (ValueError, AssertionError) as refused:
        counts[f"refused: {str(refused)[:60]}"] += 1
        return None
    counts[f"servers {config['offload']['policy']}"] += 1
    left = rng.randint(5, 40)
    for _ in range(STEPS):
        if left and (rng.random() < 0.25 or not server.scheduler.requests):
            left -= 1
            number = len(requests)
            requests[str(number)] = vllm_draw.draw_request(rng, list(requests.values()), config)
            server.add(number)
        elif server.scheduler.requests and rng.random() < 0.01:
            server.abort(int(rng.choice([*server.scheduler.requests])))
        elif rng.random() < 0.004:
            counts["resets"] += 1
            server.clear()
        counts["steps"] += 1
        server.step()
        if server.beside.wrong:
            return f"seed {seed}: {server.beside.wrong} ({config['offload']}, {config['kind']})"
        if not left and not server.scheduler.requests and not server.beside.due:
            break
    return None


def main(argv):
    """Run the comparison."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.vllm_offload_requests", description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    logging.disable(logging.WARNING)
    counts, seed, wrong = Counter(), args.seed, None
    while counts["steps"] < args.steps and not wrong:
        seed += 1
        wrong = run(seed, counts)
    for name, n in sorted(counts.items()):
        print(f"{name:24} {n:>9}")
    if wrong:
        complain(f"difference: {wrong}")
        return exits.BROKEN
    print("0 differences")
    return exits.HOLDS


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)                  # vLLM's background threads do not end
