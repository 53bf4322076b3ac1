"""Loads from CPU memory that end inside a block of states (FAULTS.md V-DEF-13).

``python -m tests.peers.vllm_state_load``: a prompt of 40 tokens, then one that shares 33 of them; rows in blocks of 8,
states in blocks of 16. For each kind of drafter the decisions of the released scheduler and connector are recorded and
replayed on our rules. Exit status: 0 if all decisions agree and the judge calls the second answer wrong exactly where
the drafter drops the last block of a hit, else 1.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from cachesim.base import exits
from tests.peers import vllm_draw
from tests.peers.vllm_compare import PROFILES, checker, make_trace, replay

PROMPTS = ([*range(100, 133), *range(200, 207)], [*range(100, 133), *range(300, 307)])
DRAFTERS = ("eagle_drop", "eagle_hash", "eagle_keep", "mtp_hash")


def config(drafter, align, drops):
    """Return the configuration of a server. ``align``: grid of states inside chunks, None = none; ``drops``: hits lose
    their last block."""
    return {
        "kind": "full mamba", "max_num_seqs": 4, "max_num_batched_tokens": 64, "max_model_len": 64,
        "long_prefill_token_threshold": 0, "policy": "fcfs", "watermark": 0.0, "reserve_full": True, "retention": 0,
        "spec": drafter, "num_spec": 3, "async_scheduling": False, "images": False, "caching": True, "dcp": 1,
        "prefix_match_unit": None, "ckpt_align": align, "shared_prefix_checkpoint": False, "num_blocks": 64,
        "groups": [{"kind": "full", "block_size": 8, "eagle": drops},
                   {"kind": "mamba", "block_size": 16, "eagle": False}],
        "offload": {"num_cpu_chunks": 16, "blocks_per_chunk": 1, "eviction_policy": "lru", "store_threshold": 0,
                    "offload_prompt_only": True},
        "late": 0,
    }  # fmt: skip


class TwoPrompts:
    """Client that sends the second prompt when the first is answered."""

    def __init__(self, rng, server, requests):
        self.server = server
        self.requests = requests

    def next(self, done):
        """Perform an operation and return its step; None at the end."""
        server = self.server
        running = any(not request.is_finished() for request in server.scheduler.requests.values())
        if not running and not server.pending and not server.scheduler.has_requests():
            number = len(self.requests)
            if number == len(PROMPTS):
                return None
            self.requests[str(number)] = {"prompt": PROMPTS[number], "answer": [7]}
            return server.add(number)
        if server.pending:
            return server.update(dict, server.jobs.drawn(random.Random(1), 0))
        return server.schedule()


def main():
    """Print each setting with the first difference of decisions and the wrong answers; return the exit code."""
    vllm_draw.Client = TwoPrompts
    agree = True
    for drafter in DRAFTERS:
        for align in (None, 1):
            for drops in (True, False) if drafter != "eagle_keep" else (False,):
                drawn = config(drafter, align, drops)
                data = vllm_draw.record(0, draw=lambda rng, drawn=drawn: dict(drawn))
                found = replay(make_trace(Path(data["name"]), data, PROFILES), "provenance", checker())
                agree = agree and found.first is None and bool(found.broken) is drops
                print(f"{drafter:<11} align {align}  drops {drops}: first difference {found.first}, "
                      f"wrong answers at steps {found.broken}")  # fmt: skip
    return exits.HOLDS if agree else exits.BROKEN


if __name__ == "__main__":
    sys.exit(main())
