"""CPU time of the released scheduler of vLLM and of our server, by the number of blocks of the pool.

    python -m tests.peers.vllm_growth [--blocks 10000 30000 100000] [--groups F FWS] [--loads prompt requests]

Groups: F = full attention, W = a sliding window, S = states. Loads: ``prompt`` fills half of the pool with one prompt
and sends it again, then a sibling; ``dense`` does that with every window and state retained; ``requests`` fills the
pool twice with short prompts that share their beginnings. Ours runs with provenance, and collects garbage as rarely as
in the commands. The exit code is 1 if ours needs more than MOST times the CPU time of the released one, or if its time
grows with a higher power than EXPONENT of the number of blocks.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import random
import sys
import time
from typing import NamedTuple

from cachesim.base import exits, limits
from cachesim.base.console import complain
from cachesim.base.garbage_collection import with_rare_garbage_collection
from cachesim.engines.base import Request
from cachesim.engines.vllm import ENGINE
from cachesim.engines.vllm.recordings import setup

try:
    from tests.peers.vllm_draw import TOKENS, draw_config
    from tests.peers.vllm_engine import RELEASE, RealServer
except ModuleNotFoundError as absent:                # only `make peers` installs vLLM
    complain(f"not installed: {absent.name!r} (run `make peers`, which makes .venv-peers-vllm)")
    sys.exit(exits.NOTHING)

MOST, EXPONENT = 3, 1.1         # times the CPU time of the released scheduler, and our growth
BLOCK = 16
KINDS = {"F": {"kind": "full"}, "W": {"kind": "swa", "window": 1024}, "S": {"kind": "mamba"}}
DENSE = "dense"
GROUPS = ("F", "W", "FW", "FS", "FWS")
ANSWER = 4                      # tokens
UNLIMITED = 1 << 40
SHORT = 8 * BLOCK               # tokens of a short prompt


class Sizes(NamedTuple):
    """A measured size: number of blocks, and CPU times [s]."""

    blocks: int
    released: float
    ours: float


def config_of(letters, blocks, load):
    """Return the header of a server with such groups."""
    groups = [{**KINDS[letter], "block_size": BLOCK, "eagle": False} for letter in letters]
    retention = None if load == DENSE else 0
    return draw_config(random.Random(0)) | {
        "kind": " ".join(group["kind"] for group in groups), "groups": groups, "max_model_len": blocks * BLOCK,
        "max_num_seqs": 4, "max_num_batched_tokens": 8192, "long_prefill_token_threshold": 0, "policy": "fcfs",
        "watermark": 0.0, "reserve_full": True, "retention": retention, "spec": None, "num_spec": 0,
        "async_scheduling": False, "caching": True, "dcp": 1, "prefix_match_unit": None, "ckpt_align": None,
        "num_blocks": blocks, "images": False, "shared_prefix_checkpoint": False,
    }  # fmt: skip


def one_prompt(letters, blocks):
    """Return a prompt whose rows fill half of the pool, the same prompt, and a sibling that shares half of it."""
    rows = max(1, len(letters.replace("S", "")))
    draw = random.Random(blocks)
    prompt = [draw.choice(TOKENS) for _ in range(blocks * BLOCK // 2 // rows)]
    return [prompt, prompt, prompt[: len(prompt) // 2] + [TOKENS[0]] * 64]


def many_requests(letters, blocks):
    """Return short prompts that fill the pool twice; every second one continues an earlier one."""
    draw = random.Random(blocks)
    prompts, filled = [], 0
    while filled < 2 * blocks:
        known = prompts[draw.randrange(len(prompts))][: SHORT // 2] if prompts and draw.random() < 0.5 else []
        prompts.append(known + [draw.choice(TOKENS) for _ in range(SHORT - len(known))])
        filled += (SHORT - len(known)) // BLOCK * len(letters)
    return prompts


LOADS = {"prompt": one_prompt, DENSE: one_prompt, "requests": many_requests}


def serve(letters, blocks, load):
    """Send requests to both servers in turn; return the CPU times. Raise SystemExit if they end with other blocks."""
    config = config_of(letters, blocks, load)
    prompts = LOADS[load](letters, blocks)
    requests = {str(i): {"prompt": prompt, "answer": [TOKENS[1]] * ANSWER} for i, prompt in enumerate(prompts)}
    theirs = RealServer(config, requests, recorded=False)
    model, flags = setup(config)
    mine = ENGINE.start(f"vllm@{RELEASE}", model, flags, "provenance")
    spent, cached = [0.0, 0.0], {}
    for number, prompt in enumerate(prompts):
        began = time.process_time()
        theirs.add(number)
        while theirs.scheduler.requests:
            theirs.schedule()
            cached |= theirs.update({}).get("cached", {})
        middle = time.process_time()
        with with_rare_garbage_collection():
            mine.complete(Request(tuple(prompt), ANSWER, forced=(TOKENS[1],) * ANSWER))
        spent = [spent[0] + middle - began, spent[1] + time.process_time() - middle]
    compare(theirs, mine, cached)
    return Sizes(blocks, *spent)


def compare(theirs, mine, cached):
    """Raise SystemExit if the free queues or the numbers of cached tokens differ."""
    if [*mine.scheduler.kv_cache_manager.block_pool.free_block_queue] != theirs.state()["free"]:
        raise SystemExit("the servers have other free blocks")
    if cached != {str(row.request_id): row.num_cached_tokens for row in mine.slots}:
        raise SystemExit("the servers found other prefixes")


def measure(letters, load, sizes):
    """Print CPU times by the number of blocks; return whether ours stays within its bounds."""
    found, holds = [], True
    for blocks in sizes:
        gc.collect()
        gc.freeze()                     # vLLM's modules are not visited again
        found.append(serve(letters, blocks, load))
        first, last = found[0], found[-1]
        ratio, growth = last.ours / last.released, ""
        if last is not first:
            power = math.log(last.ours / first.ours) / math.log(last.blocks / first.blocks)
            growth = f", exponent {power:.2f} from {first.blocks} blocks on"
            holds = holds and (blocks < sizes[-1] or power <= EXPONENT)
        holds = holds and ratio <= MOST
        print(f"{letters:4}{load:9}{blocks:8} blocks: released {last.released:.2f} s, ours with provenance "
              f"{last.ours:.2f} s, {ratio:.2f} x{growth}", flush=True)  # fmt: skip
    return holds


def main():
    """Measure; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, nargs="+", default=[10_000, 30_000, 100_000])
    parser.add_argument("--groups", nargs="+", default=GROUPS, choices=GROUPS)
    parser.add_argument("--loads", nargs="+", default=list(LOADS), choices=LOADS)
    args = parser.parse_args()
    limits.lift({limit.name: UNLIMITED for limit in limits.OF_A_RUN})
    serve("FWS", 400, "requests")           # imports modules
    done = [measure(letters, load, args.blocks) for load in args.loads for letters in args.groups
            if load != DENSE or set(letters) & {"W", "S"}]  # fmt: skip
    return exits.HOLDS if all(done) else exits.BROKEN


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)                  # vLLM's background threads do not end
