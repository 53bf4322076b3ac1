"""A server reuses as many tokens as a plain cache does, for any requests of one client after the other.

ik_llama.cpp is left out: where a slot's cells wrap around those of others, it takes the position of the first cell by
index for the first position of the slot, and evaluates the prompt again (IK-CKPT-NEED).
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import event, given, settings

from cachesim.engines.base import Request
from cachesim.engines.registry import ENGINES, present_name
from cachesim.events import Log
from tests.properties.histories import histories, requests
from tests.properties.plain_caches import Blocks, Entries, Slots, Tree

SERVERS = {
    "llama_cpp": ({"parallel": 3, "cache_ram": 0, "slot_prompt_similarity": 0.25, "ctx_size": 1024},
                  lambda: Slots(3, Fraction(1, 4))),
    "mlx_lm": ({"prompt_cache_size": 4}, lambda: Entries(4)),
    "vllm": ({"block_size": 4, "num_gpu_blocks": 24, "async_scheduling": False}, lambda: Blocks(24, 4)),
    "sglang": ({"max_total_tokens": 100, "disable_overlap_schedule": True}, lambda: Tree(100)),
}  # fmt: skip
"""Options of a server that has little memory, and its plain cache."""
EXAMPLES = pytest.mark.parametrize("examples", [15, pytest.param(100, marks=pytest.mark.long)])


@EXAMPLES
@pytest.mark.parametrize("engine", SERVERS)
def test_a_server_reuses_what_a_plain_cache_reuses(engine, examples):
    options, make_cache = SERVERS[engine]
    reused = set()

    @settings(max_examples=examples)
    @given(histories)
    def holds(history):
        server = ENGINES[engine].start(present_name(engine), "A", options, "none", Log())
        cache = make_cache()
        for prompt, more in requests(history):
            answer = server.complete(Request(prompt, max(1, more["n"])))
            expected = cache.ask(prompt, answer.tokens)
            assert answer.cache_n == expected
            reused.add(expected > 0)
            event(f"reused {expected // 16 * 16} or more")

    holds()
    assert reused == {False, True}
