"""Comparison of the defaults with those of a released configuration: ``python -m tests.peers.vllm_defaults RELEASE
[--write]``.

The released code runs on a CPU: `VllmConfig` without a model decides whether steps overlap, `EngineArgs` chooses the
size of a step for a stand-in of the device, and the configuration of the models where states are kept. ``--write``
stores the lines for the unit tests and the grades. Exit code 1 if a line differs.
"""

from __future__ import annotations

import sys
from dataclasses import fields
from itertools import product
from types import SimpleNamespace
from unittest.mock import patch

from cachesim.base import exits
from cachesim.base.console import complain, show
from cachesim.engines.vllm.flags import METHODS, Options
from tests.shared import ROOT
from tests.unit.engines.vllm.released_defaults import answer, stated

try:
    import vllm
    from vllm.config import (
        CacheConfig,
        DeviceConfig,
        ModelConfig,
        ParallelConfig,
        SchedulerConfig,
        SpeculativeConfig,
        VllmConfig,
    )
    from vllm.engine import arg_utils
    from vllm.model_executor.models.config import MambaModelConfig
    from vllm.usage.usage_lib import UsageContext
except ModuleNotFoundError as absent:
    complain(f"not installed: {absent.name!r} (run `make peers`, which makes .venv-peers-vllm)")
    raise SystemExit(exits.NOTHING) from None

STORED = ROOT / "tests" / "unit" / "engines" / "vllm" / "released_defaults.txt"
GIB = 1 << 30
MEMORIES = (0, 24, 69, 70, 80, 159, 160, 192)              # of a device [GiB]
OWN = {"scheduling_policy": "policy", "kv_cache_dtype": "cache_dtype"}       # option -> field of another name
OPEN = {int: 0, float: 0.0}                                                   # our spelling of None
MEASURED = ("num_gpu_blocks", "mamba_cache_mode")                             # not a default of the configuration


def drafted(method):
    """Return the configuration of a drafter, None without one."""
    if not method:
        return None
    made = SpeculativeConfig(method="ngram", num_speculative_tokens=2, prompt_lookup_max=2, target_model_config=None,
                             target_parallel_config=ParallelConfig())  # fmt: skip
    made.method = method
    return made


def async_scheduling(method, given):
    """True if steps overlap, None = the server does not start."""
    scheduler = SchedulerConfig.default_factory(async_scheduling=given)
    try:
        made = VllmConfig(device_config=DeviceConfig(device="cuda"), speculative_config=drafted(method),
                          scheduler_config=scheduler)
    except ValueError:
        return None
    return made.scheduler_config.async_scheduling


def batch_size(memory, tokens):
    """Return the most tokens of a step and the most requests of `vllm serve` on a device with so much memory [GiB].
    ``tokens``: the first one as given, 0 = not given."""
    platform = SimpleNamespace(
        get_device_total_memory=lambda: memory * GIB, get_device_name=lambda: "a device", is_tpu=lambda: False,
        is_device_capability=lambda _: False, is_cpu=lambda: False, is_rocm=lambda: False)  # fmt: skip
    args = arg_utils.EngineArgs(model="", max_num_batched_tokens=tokens or None)
    args.enable_chunked_prefill = True
    model = SimpleNamespace(max_model_len=1 << 20, is_multimodal_model=False, is_mm_prefix_lm=False)
    with patch.object(arg_utils, "current_platform", platform):
        args._set_default_max_num_seqs_and_batched_tokens_args(
            UsageContext.OPENAI_API_SERVER, model, SimpleNamespace(use_batched_dp_moe=False))
    return args.max_num_batched_tokens, args.max_num_seqs


def prefix_caching(attention):
    """True if prefixes of a model with or without attention are cached."""
    return caches_prefixes("decoder" if attention else "attention_free")


def caches_prefixes(kind):
    """True if prefixes of a model of this kind are cached."""
    supported = ModelConfig.is_prefix_caching_supported.fget(SimpleNamespace(pooler_config=None, attn_type=kind))
    args = arg_utils.EngineArgs(model="")
    args._set_default_chunked_prefill_and_prefix_caching_args(SimpleNamespace(
        is_prefix_caching_supported=supported, is_hybrid=kind == "hybrid", is_chunked_prefill_supported=True,
        runner_type="generate"))
    return args.enable_prefix_caching


def mamba_cache_mode(given, caching, has_kernel):
    """Return where states are kept. ``has_kernel``: the kernel of the model can keep a state at the end of every
    block."""
    cache = SimpleNamespace(enable_prefix_caching=caching, mamba_cache_mode=given, mamba_block_size=16, block_size=16)
    model = SimpleNamespace(architecture="a model", max_model_len=64, supports_mamba_prefix_caching=has_kernel)
    MambaModelConfig.verify_and_update_config(SimpleNamespace(
        cache_config=cache, scheduler_config=SimpleNamespace(enable_chunked_prefill=True), model_config=model))
    return cache.mamba_cache_mode


def plain_defaults():
    """Yield name and default of every option that is a field of a released configuration and that nothing resolves."""
    released = (SchedulerConfig.default_factory(), CacheConfig(), ParallelConfig())
    for option in fields(Options):
        name = OWN.get(option.name, option.name)
        owner = next((one for one in released if hasattr(one, name)), None)
        if owner is not None and not option.metadata["flag"].resolved and option.name not in MEASURED:
            default = getattr(owner, name)
            yield option.name, OPEN[type(option.default)] if default is None else default


def released_lines():
    """Yield the answers of the installed release, as the unit tests store them."""
    for method, given in product(METHODS, (None, True, False)):
        yield stated("async_scheduling", (method, given), async_scheduling(method, given))
    for memory, tokens in product(MEMORIES, (0, 16, 512)):
        yield stated("batch_size", (memory, tokens), batch_size(memory, tokens))
    for attention in (True, False):
        yield stated("prefix_caching", (attention,), prefix_caching(attention))
    yield stated("hybrid_caching", (), caches_prefixes("hybrid"))
    modes = ("none", "align", "all") if vllm.__version__ < "0.32" else ("none", "align")
    for args in product(modes, (True, False), (True, False)):
        yield stated("mamba_cache_mode", args, mamba_cache_mode(*args))
    for name, default in plain_defaults():
        yield stated("default", (name,), default)


def main(argv):
    """Compare the installed release; return the exit code."""
    release, *rest = argv
    if not vllm.__version__.startswith(release):
        complain(f"vllm {vllm.__version__} is installed, not {release}")
        return exits.NOTHING
    made = [f"{release} {line}" for line in released_lines()]
    differ = [(line, mine) for line in made if (mine := answer(line)) != line]
    for line, mine in differ:
        complain(f"released: {line}, ours: {mine}")
    show(f"vLLM {release}: {len(made)} defaults, {len(differ)} differ")
    if "--write" in rest:
        others = [line for line in STORED.read_text("utf-8").splitlines() if not line.startswith((release, "#"))]
        head = "# release rule arguments answer"
        STORED.write_text("\n".join((head, *sorted({*others, *made}))) + "\n")
    return exits.BROKEN if differ else exits.HOLDS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
