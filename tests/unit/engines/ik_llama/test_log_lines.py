"""Options that follow from the numbers of a log."""

from __future__ import annotations

import pytest

from cachesim.engines.ik_llama.log_lines import options


@pytest.mark.parametrize("facts, found", [
    ({"n_ctx": 512, "needed": 9_000}, {"ctx_size": 512}),                # printed: nothing is assumed
    ({}, {"ctx_size": 4096}), ({"needed": 1_000}, {"ctx_size": 4096}),
    ({"needed": 4_095}, {"ctx_size": 8_192}), ({"needed": 4_096}, {"ctx_size": 16_384}),
    ({"needed": 4_096, "n_slots": 2}, {"parallel": 2, "ctx_size": 32_768}),
    ({"needed": "x"}, {}), ({"n_slots": "x"}, {"parallel": "x"}),
    ({"n_ctx": 512, "max": 8, "n_batch": 64, "n_ubatch": 32, "limit_mib": 100, "lcp": 5},
     {"ctx_size": 512, "ctx_checkpoints": 8, "batch_size": 64, "ubatch_size": 32, "cache_ram": 100}),
])  # fmt: skip
def test_a_context_has_room_for_the_longest_prompt_of_every_slot(facts, found):
    assert options(facts) == found
