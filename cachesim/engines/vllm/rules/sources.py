"""Files of vLLM in which the rules stand."""

from __future__ import annotations

from typing import Callable

from cachesim.engines.rule import Source


def file(path: str) -> Callable[..., Source]:
    """Return a function that returns the source of a function in this file, of the newest release by default. ``spec``:
    number of the decision in the specification of the engine."""

    def source(where: str, release: str = "0.33.0", spec: str = "") -> Source:
        """Return the source of a function."""
        note = f"specification {spec}" if spec else ""
        return Source("vllm-project/vllm", path, where, release, note=note)

    return source


CORE = "vllm/v1/core"
pool, utils, manager, scheduler = (file(f"{CORE}/{name}.py") for name in (
    "block_pool", "kv_cache_utils", "kv_cache_manager", "sched/scheduler"))
coordinator, groups = file(f"{CORE}/kv_cache_coordinator.py"), file(f"{CORE}/single_type_kv_cache_manager.py")
planning, platform = file(f"{CORE}/kv_cache_planning.py"), file("vllm/platforms/interface.py")
interface, config = file("vllm/v1/kv_cache_interface.py"), file("vllm/config/vllm.py")
kernels = file("vllm/model_executor/layers/mamba/checkpoint.py")
runner = file("vllm/v1/worker/gpu/model_states/mamba_hybrid.py")
