"""Recordings of vLLM's classes: their options, and their steps on our server."""

from __future__ import annotations

import pytest

from cachesim.engines.vllm import ENGINE, recordings
from cachesim.engines.vllm.recordings import CLASSES, undecided

CONFIG = {
    "groups": [{"kind": "mamba", "block_size": 8, "eagle": True},
               {"kind": "swa", "window": 6, "block_size": 4, "eagle": False},
               {"kind": "rswa", "window": 5, "block_size": 4, "eagle": False},
               {"kind": "chunked", "chunk": 16, "block_size": 4, "eagle": False}],
    "spec": None, "retention": None, "prefix_match_unit": None, "ckpt_align": None, "num_blocks": 30,
    "max_model_len": 128, "max_num_batched_tokens": 24, "max_num_seqs": 6, "long_prefill_token_threshold": 10,
    "caching": True, "policy": "priority", "watermark": 0.0, "reserve_full": True, "async_scheduling": False,
    "num_spec": 0, "shared_prefix_checkpoint": False, "dcp": 1,
}  # fmt: skip
FLAGS = {
    "num_gpu_blocks": 30, "max_model_len": 128, "max_num_batched_tokens": 24, "max_num_seqs": 6,
    "long_prefill_token_threshold": 10, "enable_prefix_caching": True, "scheduling_policy": "priority",
    "watermark": 0.0, "scheduler_reserve_full_isl": True, "async_scheduling": False, "num_speculative_tokens": 0,
    "enable_mamba_shared_prefix_checkpoint": False, "decode_context_parallel_size": 1,
    "kv_groups": "S/8e W6/4 R5/4 K16/4", "prefix_cache_retention_interval": -1, "prefix_match_unit": 0,
    "speculative_method": "", "multi_module_mtp": False, "disable_lookahead_block_hashes": False,
    "disable_eagle_block_drop": False, "multimodal": False, "mamba_cache_mode": "align",
    "mamba_prefill_checkpoint_alignment": 0,
}  # fmt: skip


@pytest.mark.parametrize(("given", "flags"), [
    ({}, {}), ({"retention": 16, "prefix_match_unit": 4, "ckpt_align": 2},
               {"prefix_cache_retention_interval": 16, "prefix_match_unit": 4,
                "mamba_prefill_checkpoint_alignment": 2}),
    ({"spec": "ngram", "num_spec": 3}, {"speculative_method": "ngram", "num_speculative_tokens": 3}),
    ({"spec": "mtp_hash"}, {"speculative_method": "mtp", "multi_module_mtp": True}),
    ({"spec": "eagle_drop"}, {"speculative_method": "eagle", "disable_lookahead_block_hashes": True}),
    ({"spec": "eagle_keep"}, {"speculative_method": "eagle", "disable_eagle_block_drop": True}),
    ({"images": True, "mamba_cache_mode": "all", "offload": {"num_cpu_chunks": 8}},
     {"multimodal": True, "mamba_cache_mode": "all", "num_cpu_chunks": 8}),
])  # fmt: skip
def test_a_header_names_model_and_options(given, flags):
    """States come first: wrong rows mark no state in a recording. Reference windows stand for full attention."""
    assert recordings.setup({**CONFIG, **given}) == ("S W6 A K16", {**FLAGS, **flags})


def test_answers_that_read_reference_windows_are_not_judged():
    assert undecided({"config": CONFIG}) == "reference windows are not computed"
    assert undecided({"config": {**CONFIG, "groups": CONFIG["groups"][:2]}}) == ""
    assert CLASSES.wrong({"bad": {"3": ["wrong"], "4": ["draft_wrong"]}}) == {3} and CLASSES.wrong({}) == set()


def test_a_server_that_performs_a_recording_keeps_no_restore_points():
    server = ENGINE.start("vllm@0.33.0", "A", {"block_size": 4}, "none")
    play = CLASSES.play(server, {"requests": {"0": {"prompt": [*range(9)], "answer": [7]}}})
    found = [play({"op": op, **more}).fields for op, more in (("add", {"req": 0}), ("schedule", {"run": [[0, 9]]}))]
    assert (found[0], found[1]["run"][0][:3]) == ({"req": 0, "hashes": [0, 1]}, [0, 0, 9])
    assert not server.points.reports and [*server.points.kept()] == []
