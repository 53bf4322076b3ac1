"""Groups of models with compressed rows, as the released planning makes them of the specs of the released layers:
``python -m tests.peers.vllm_packed [--models N]``. Exit code 1 if a group differs.

The layers are built without weights; the models are DeepSeek V4's, and drawn ones with other numbers of layers.
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import fields, replace
from types import SimpleNamespace
from unittest.mock import patch

from cachesim.base import exits
from cachesim.base.console import complain, show
from cachesim.engines.shared.model_layers import layers_of_config
from cachesim.engines.shared.newest_sizes import CONFIGURATIONS
from cachesim.engines.vllm.compressed_layers import layer_caches, packed_groups
from cachesim.engines.vllm.flags import options
from cachesim.engines.vllm.page_sizes import block_bytes
from cachesim.engines.vllm.profiles import PROFILES

try:
    import torch
    import vllm
    from vllm.models.deepseek_v4 import compressor
    from vllm.models.deepseek_v4.attention import DeepseekV4Attention, DeepseekV4IndexerCache
    from vllm.v1.attention.backends.mla import sparse_swa
    from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
    from vllm.v1.kv_cache_interface import KVCacheSpec, SlidingWindowSpec, iter_layer_specs
except ModuleNotFoundError as absent:
    complain(f"not installed: {absent.name!r} (run `make peers`, which makes .venv-peers-vllm)")
    raise SystemExit(exits.NOTHING) from None

if vllm.__version__ >= "0.33":
    from vllm.v1.core import kv_cache_planning as planning
else:
    from vllm.v1.core import kv_cache_utils as planning

BLOCK = 256
FP8, BYTES = "fp8_ds_mla", torch.uint8
CONTEXT = SimpleNamespace(compilation_config=SimpleNamespace(static_forward_context={}))
INDEX_ROW = 132                             # 128 numbers and a scale


def settings(has_draft):
    """Return the attributes of `VllmConfig` that layers and planning read."""
    drafter = SimpleNamespace(method="mtp", use_eagle=lambda: True, use_eagle_block_drop=lambda: True)
    layout = SimpleNamespace(is_block_outermost=True)
    return SimpleNamespace(
        cache_config=SimpleNamespace(cache_dtype=FP8, block_size=BLOCK, get_resolved_kv_cache_layout=lambda: layout),
        speculative_config=drafter if has_draft else None,
        model_config=SimpleNamespace(hf_config=SimpleNamespace(model_type="deepseek_v4")),
    )  # fmt: skip


def released_specs(model, drafted, config):
    """Return the specs of all caches by name, in the order in which the server registers them."""
    specs = {}
    for i, ratio in enumerate([*(layer.ratio for layer in model.layers), *[0] * drafted]):
        name = f"layers.{i}"
        cache = SimpleNamespace(cache_config=config.cache_config, head_dim=INDEX_ROW, dtype=BYTES, compress_ratio=ratio)
        if ratio == 4:
            specs[f"{name}.index"] = DeepseekV4IndexerCache.get_kv_cache_spec(cache, config)
            specs[f"{name}.index.state"] = state(2 * 2 * 128, ratio, f"{name}.index.state", config)
        window = sparse_swa.DeepseekV4SWACache(512, model.window, BYTES, f"{name}.swa", config.cache_config)
        specs[f"{name}.swa"] = window.get_kv_cache_spec(config)
        if ratio:
            rows = SimpleNamespace(compress_ratio=ratio, kv_cache_dtype=FP8, head_dim=512, kv_cache_torch_dtype=BYTES)
            specs[name] = DeepseekV4Attention.get_kv_cache_spec(rows, config)
            specs[f"{name}.state"] = state(2 * (2 if ratio == 4 else 1) * 512, ratio, f"{name}.state", config)
        if i >= len(model.layers) and "is_draft" in {field.name for field in fields(KVCacheSpec)}:
            specs = {one: replace(spec, is_draft=one.startswith(f"{name}.")) for one, spec in specs.items()}
    return specs


def state(width, ratio, name, config):
    """Return the spec of a compressor's state."""
    return compressor.CompressorStateCache(width, torch.float32, ratio, name).get_kv_cache_spec(config)


def released_groups(model, drafted):
    """Return the released groups (window, block, drafter, layers, bytes of a block), and from 0.33.0 on the bytes of
    the pool that a block takes."""
    config = settings(bool(drafted))
    CONTEXT.compilation_config.static_forward_context.clear()
    with patch.object(compressor, "get_current_vllm_config", lambda: CONTEXT), \
            patch.object(sparse_swa, "get_current_vllm_config", lambda: CONTEXT):  # fmt: skip
        specs = released_specs(model, drafted, config)
    groups = planning._get_packed_kv_cache_groups(config, specs)
    drafts = {name for name, spec in specs.items() if getattr(spec, "is_draft", False)}
    found = []
    for group in groups:
        first = next(iter(iter_layer_specs(group.kv_cache_spec)))
        window = first.sliding_window if isinstance(first, SlidingWindowSpec) else 0
        is_draft = group.is_eagle_group or not drafts.isdisjoint(group.layer_names)
        found.append((window, first.block_size, is_draft, len(group.layer_names), group.kv_cache_spec.page_size_bytes))
    if planning.__name__.endswith("planning"):
        found.append(planning._get_kv_cache_bytes_per_block(groups, config.cache_config.get_resolved_kv_cache_layout()))
    return found


def our_groups(model, drafted):
    """Return our groups in the same form."""
    found = []
    for group in packed_groups(layer_caches(model, BLOCK, drafted)):
        first = group.caches[0]
        is_draft = any(cache.is_draft for cache in group.caches)
        found.append((first.window, first.block, is_draft, len(group.caches), group.bytes))
    if planning.__name__.endswith("planning"):
        opts = options({"speculative_method": "mtp", "num_speculative_tokens": 1} if drafted else {})
        found.append(block_bytes(PROFILES["vllm@0.33.0"], opts, model))
    return found


def models(number):
    """Yield the configurations of DeepSeek V4, then drawn ones."""
    rng = random.Random(0)
    base = dict(CONFIGURATIONS["deepseek-v4"][1])
    yield from (dict(CONFIGURATIONS[name][1]) for name in ("deepseek-v4", "deepseek-v4-pro"))
    for _ in range(number):
        ratios = [rng.choice((0, 4, 4, 128)) for _ in range(rng.randint(2, 90))] + [4]
        yield base | {"num_hidden_layers": len(ratios), "compress_ratios": [*ratios, 0]}


def main(argv):
    """Compare all models with and without a drafter; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.vllm_packed", description=__doc__)
    parser.add_argument("--models", type=int, default=300, help="number of drawn models")
    register_all_kvcache_specs(None)
    compared = differ = 0
    for config in models(parser.parse_args(argv).models):
        for drafted in (0, 1):
            model = layers_of_config(config, "drawn")
            compared += 1
            if our_groups(model, drafted) != (real := released_groups(model, drafted)):
                differ += 1
                complain(f"{config['compress_ratios']}, {drafted} drafted: released {real}")
    show(f"vLLM {vllm.__version__}: groups of {compared} models with compressed rows, {differ} differ")
    return exits.BROKEN if differ else exits.HOLDS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
