"""Combinations that the page about trust lists as refused: the server is not started, and the line names the cause."""

from __future__ import annotations

from typing import Any

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import engine_of

VLLM, OLDER_VLLM = "vllm@0.33.0", "vllm@0.31.0"
SGLANG, OLDER_SGLANG = "sglang@0.5.23", "sglang@0.5.20"
OFFLOAD = {"num_cpu_chunks": 8}
PART = {**OFFLOAD, "block_size": 8, "prefix_match_unit": 4, "kv_groups": "S/8 A/8"}
MTP = {"speculative_method": "mtp", "num_speculative_tokens": 2, "mamba_cache_mode": "all"}
HICACHE = {"enable_hierarchical_cache": True}
NO_BUFFER = {"mamba_radix_cache_strategy": "no_buffer"}
GRID = {"state_grid": 6, "page_size": 4}


@pytest.mark.parametrize(("profile", "model", "flags", "message"), [
    (VLLM, "A", {**OFFLOAD, "decode_context_parallel_size": 2}, "several devices share"),
    (VLLM, "W8 A", {**OFFLOAD, "prefix_cache_retention_interval": -1}, "all kept"),
    (VLLM, "GA", {**OFFLOAD, "prefix_cache_retention_interval": -1}, "all kept"),
    (VLLM, "GA", PART, "last part of a block of states"),
    (VLLM, "SGA", {**OFFLOAD, "kv_groups": "S/8 S/16 A/8"}, "states in blocks of different sizes"),
    (VLLM, "A", {"kv_offloading_size": 4}, "kv_offloading_size"),
    (VLLM, "A", {"kv_groups": "R8/4"}, "reference windows"),
    (OLDER_VLLM, "SA", MTP, "states of drafts"),
    (SGLANG, "W8", {}, "windows only"),
    (OLDER_SGLANG, "W8 A", HICACHE, "HiCache for windows and states"),
    (OLDER_SGLANG, "GA", HICACHE, "HiCache for windows and states"),
    (SGLANG, "A", {**HICACHE, "hicache_size": 4}, "size in GB or a storage"),
    (SGLANG, "A", {**HICACHE, "hicache_storage_backend": "file"}, "size in GB or a storage"),
    (SGLANG, "GA", NO_BUFFER, "disable-overlap-schedule"),
    (SGLANG, "GA", {**NO_BUFFER, "disable_overlap_schedule": True, "page_size": 4}, "page-size 1"),
    (SGLANG, "GA", GRID, "multiple of page_size"),
    (SGLANG, "GA", {**GRID, "mamba_radix_cache_strategy": "extra_buffer_lazy"}, "multiple of page_size"),
])  # fmt: skip
def test_a_refused_combination_names_its_cause(profile: str, model: str, flags: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        engine_of(profile).start(profile, model, flags, "provenance")
