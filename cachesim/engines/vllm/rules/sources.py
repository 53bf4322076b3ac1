"""Files of vLLM in which the rules stand."""

from __future__ import annotations

from functools import partial

from cachesim.engines.rule import Source

vllm = partial(Source, "vllm-project/vllm")
"""Source in vLLM: file, function, release."""

CORE = "vllm/v1/core"
POOL, UTILS = f"{CORE}/block_pool.py", f"{CORE}/kv_cache_utils.py"
COORDINATOR, GROUPS = f"{CORE}/kv_cache_coordinator.py", f"{CORE}/single_type_kv_cache_manager.py"
MANAGER, SCHEDULER = f"{CORE}/kv_cache_manager.py", f"{CORE}/sched/scheduler.py"
INTERFACE = "vllm/v1/kv_cache_interface.py"
STATES = "vllm/v1/worker/mamba_utils.py"
RUNNER = "vllm/v1/worker/gpu/model_states/mamba_hybrid.py"
NOW = "0.33.0"
