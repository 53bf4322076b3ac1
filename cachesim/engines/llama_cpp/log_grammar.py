"""llama-server's log for whoever reads a log that was pasted: its lines and what they say."""

from __future__ import annotations

from cachesim.engines.llama_cpp.log_lines import LINES
from cachesim.engines.llama_cpp.log_meanings import MEANINGS
from cachesim.engines.shared.log_grammar import LogGrammar

GRAMMAR = LogGrammar(LINES, MEANINGS, signs=(
    "get_availabl", "operator()", "update_slots", "print_timing", "launch_slot_:", "create_check:", "f_sim_best",
    "prompt_clear", "print_timings:",
), options={
    "n_ctx": "ctx_size", "n_batch": "batch_size", "n_ubatch": "ubatch_size", "n_slots": "parallel",
    "kv_unified": "kv_unified", "max": "ctx_checkpoints", "step": "checkpoint_min_step", "limit_mib": "cache_ram",
})  # fmt: skip
