"""Loads from CPU memory that end inside a block of states (FAULTS.md V-DEF-13).

``python -m tests.peers.vllm_state_load``: rows in blocks of 8 tokens, states in blocks of 16. With a drafter, a prompt
of 40 tokens and one that shares 33 of them: the drafter drops the last block of rows. Without one, a prompt of 89
tokens and its first 39: CPU memory with six places keeps a state without the last block of rows before it. The
decisions of the released scheduler and connector are recorded and replayed on our rules. Exit status: 0 if all
decisions agree and the judge calls the second answer wrong in exactly the expected settings, else 1. ``--record
FOLDER`` writes the recordings with a wrong answer of one drafter and of the full memory instead.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import deque
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.base import exits
from tests.peers import vllm_draw
from tests.peers.vllm_compare import PROFILES, checker, make_trace, replay
from tests.peers.vllm_engine import RELEASE

SHARED = ([*range(100, 133), *range(200, 207)], [*range(100, 133), *range(300, 307)])
BEGINNING = ([*range(100, 189)], [*range(100, 139)])
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


def full_memory():
    """Return the configuration of a server without a drafter, whose CPU memory is full after the first prompt."""
    found = config(None, align=None, drops=False)
    offload = {**found["offload"], "num_cpu_chunks": 6}
    return {**found, "max_num_batched_tokens": 16, "max_model_len": 128, "retention": 32, "num_spec": 0,
            "async_scheduling": True, "num_blocks": 16, "offload": offload}  # fmt: skip


def settings():
    """Yield every setting."""
    for drafter in DRAFTERS:
        for align in (None, 1):
            for drops in (True, False) if drafter != "eagle_keep" else (False,):
                label = f"{drafter:<11} align {align}  drops {drops}"
                yield Setting(label, config(drafter, align, drops), SHARED, expected=drops)
    yield FULL_MEMORY


class Setting(NamedTuple):
    """A configuration and two prompts; ``expected``: the second answer is wrong."""

    label: str
    config: Mapping[str, Any]
    prompts: Sequence[Sequence[int]]
    expected: bool

    def record(self):
        """Return the recording of the released classes."""
        vllm_draw.Client = lambda rng, server, requests: TwoPrompts(self.prompts, server, requests)
        return vllm_draw.record(0, draw=lambda rng: dict(self.config))


class TwoPrompts:
    """Client that sends the second of two prompts when the first is answered. ``begun``: for each step in flight the
    transfers that end with its results: loads of the step, and stores of earlier ones."""

    def __init__(self, prompts, server, requests):
        self.prompts = prompts
        self.server = server
        self.requests = requests
        self.begun = deque[list[int]]()

    def next(self, done):
        """Perform an operation and return its step; None at the end."""
        server = self.server
        busy = server.scheduler.has_requests()
        in_flight = server.config["async_scheduling"] and busy
        if len(server.pending) > in_flight:
            transfers = self.begun.popleft()
            return server.update(dict, [number for number in transfers if number in server.jobs.open])
        if not busy:
            number = len(self.requests)
            if number == len(self.prompts):
                return None
            self.requests[str(number)] = {"prompt": self.prompts[number], "answer": [7]}
            return server.add(number)
        earlier = {*server.jobs.open}
        step = server.schedule()
        self.begun.append([number for number, loads in server.jobs.open.items() if loads or number in earlier])
        return step


FULL_MEMORY = Setting("full memory", full_memory(), BEGINNING, expected=RELEASE >= "0.33")
KEPT = {
    "state-load-drafter": Setting("", config("eagle_hash", align=None, drops=True), SHARED, expected=True),
    "state-load-full-memory": FULL_MEMORY,
}


def keep(folder):
    """Write the recordings that the tests keep."""
    for name, setting in KEPT.items():
        data = {**setting.record(), "name": name}
        Path(folder, f"{name}.json").write_text(json.dumps(data, separators=(",", ":")))
    return exits.HOLDS


def compare():
    """Print each setting with the first difference of decisions and the wrong answers; return the exit code."""
    agree = True
    for setting in settings():
        data = setting.record()
        found = replay(make_trace(Path(data["name"]), data, PROFILES), "provenance", checker())
        agree = agree and found.first is None and bool(found.broken) is setting.expected
        print(f"{setting.label}: first difference {found.first}, wrong answers at steps {found.broken}")
    return exits.HOLDS if agree else exits.BROKEN


def main(argv):
    """Compare, or write the kept recordings."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.vllm_state_load", description=__doc__)
    parser.add_argument("--record", metavar="FOLDER", help="write the recordings that the tests keep instead")
    args = parser.parse_args(argv)
    return keep(args.record) if args.record else compare()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
