"""Comparison of block sizes and numbers of groups with the released functions, as stored in the unit tests:
``python -m tests.peers.vllm_blocks [--write]``.

The function runs with stand-ins for the configuration and the attention backend; the shapes and types of states come
from vLLM's own calculators and the numbers of the models' configurations, which stand here once more. ``--write``
stores the numbers for the unit tests. Exit code 1 if a number differs.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack, nullcontext
from itertools import product
from types import SimpleNamespace
from unittest.mock import patch

from cachesim.base import exits
from cachesim.base.console import complain, show
from cachesim.base.errors import BadInput
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.model_sizes import real_model
from cachesim.engines.shared.size_formulas import attention, delta_net
from cachesim.engines.vllm.flags import options
from cachesim.engines.vllm.layer_groups import groups_of
from cachesim.engines.vllm.page_sizes import attention_block
from cachesim.engines.vllm.profiles import V0_33_0
from tests.shared import ROOT

try:
    import torch
    from vllm.model_executor.layers.mamba import abstract
    from vllm.model_executor.layers.mamba.mamba_utils import MambaStateDtypeCalculator as Types
    from vllm.model_executor.layers.mamba.mamba_utils import MambaStateShapeCalculator as Shapes
    from vllm.model_executor.models import ModelRegistry
    from vllm.platforms.interface import Platform
    from vllm.v1.attention.backend import MultipleOf
    from vllm.v1.core import kv_cache_planning as planning
    from vllm.v1.kv_cache_interface import FullAttentionSpec, MambaSpec, SlidingWindowSpec
except ModuleNotFoundError as absent:
    complain(f"not installed: {absent.name!r} (run `make peers`, which makes .venv-peers-vllm)")
    raise SystemExit(exits.NOTHING) from None

STORED = ROOT / "tests" / "unit" / "engines" / "vllm" / "released_blocks.txt"
QWEN = {"num_k_heads": 16, "head_k_dim": 128, "head_v_dim": 128, "conv_kernel_size": 4}
MAMBA = {"state_size": 128, "conv_kernel": 4}
DELTA, SSM, KIMI = "delta net", "Mamba-2", "Kimi's delta attention"
MODELS = {
    "qwen3-next": (DELTA, 2, 256, "", {**QWEN, "num_v_heads": 32}),
    "qwen3.5": (DELTA, 4, 256, "float32", {**QWEN, "num_v_heads": 32}),
    "qwen3.5-0.8b": (DELTA, 2, 256, "float32", {**QWEN, "num_v_heads": 16}),
    "qwen3.5-27b": (DELTA, 4, 256, "float32", {**QWEN, "num_v_heads": 48}),
    "qwen3.5-35b-a3b": (DELTA, 2, 256, "float32", {**QWEN, "num_v_heads": 32}),
    "qwen3.5-122b-a10b": (DELTA, 2, 256, "float32", {**QWEN, "num_v_heads": 64}),
    "granite-4.0-h-350m": (SSM, 4, 64, "", {
        **MAMBA, "intermediate_size": 1536, "n_groups": 1, "num_heads": 48, "head_dim": 32}),
    "granite-4.0-h-small": (SSM, 8, 128, "", {
        **MAMBA, "intermediate_size": 8192, "n_groups": 1, "num_heads": 128, "head_dim": 64}),
    "nemotron-nano-9b-v2": (SSM, 8, 128, "float32", {
        **MAMBA, "intermediate_size": 10240, "n_groups": 8, "num_heads": 128, "head_dim": 80}),
    "nemotron-3-nano": (SSM, 2, 128, "float32", {
        **MAMBA, "intermediate_size": 4096, "n_groups": 8, "num_heads": 64, "head_dim": 64}),
    "nemotron-3-super": (SSM, 2, 128, "float32", {
        **MAMBA, "intermediate_size": 8192, "n_groups": 8, "num_heads": 128, "head_dim": 64}),
    "kimi-linear": (KIMI, 1, 576, "", {"num_heads": 32, "head_dim": 128, "conv_kernel_size": 4}),
}  # fmt: skip
"""Model -> kind of its states, K/V heads, width of a head, type of its recurrent matrices, and its configuration."""
STATES = {
    DELTA: (Shapes.gated_delta_net_state_shape, Types.gated_delta_net_state_dtype),
    SSM: (Shapes.mamba2_state_shape, Types.mamba2_state_dtype),
    KIMI: (Shapes.kda_state_shape, Types.kda_state_dtype),
}
"""Kind of states -> the released functions of their shapes and types. Kimi's attention has latent rows."""
MOST_LAYERS = 20
EVERY = 23                      # of the combinations, this one is stored
FLAGS = {
    "tensor_parallel_size": (1, 2, 4, 8, 16), "kv_cache_dtype": ("auto", "fp8"),
    "mamba_ssm_cache_dtype": ("auto", "float16", "float32"), "num_speculative_tokens": (0, 3),
    "block_size": (16, 32, 300, 1056), "mamba_prefill_checkpoint_alignment": (0, 64),
}  # fmt: skip


def released(model, given):
    """The block of attention that the released function sets."""
    kind, heads, width, own, config = MODELS[model]
    ranks, drafts = given["tensor_parallel_size"], given["num_speculative_tokens"]
    ssm = given["mamba_ssm_cache_dtype"]
    ssm = own or ssm if ssm == "auto" else ssm
    shape, types = STATES[kind]
    sized = {"tp_world_size": ranks, "num_spec": drafts, **config}
    states = SimpleNamespace(
        get_mamba_state_shape_from_config=lambda found: shape(**sized),
        get_mamba_state_dtype_from_config=lambda found: types(torch.bfloat16, "auto", ssm))  # fmt: skip
    backend = SimpleNamespace(get_supported_kernel_block_sizes=lambda: [MultipleOf(16)], customize_spec=lambda one: one)
    cache = SimpleNamespace(
        cache_dtype=given["kv_cache_dtype"], block_size=given["block_size"], mamba_cache_mode="align",
        mamba_block_size=None, mamba_page_size_padded=None, kv_cache_dtype_skip_layers=())  # fmt: skip
    config = SimpleNamespace(
        cache_config=cache, parallel_config=SimpleNamespace(tensor_parallel_size=ranks),
        model_config=SimpleNamespace(
            dtype=torch.bfloat16, use_mla=kind == KIMI, architecture=model, get_head_size=lambda: width,
            get_num_kv_heads=lambda parallel: max(1, heads // ranks)))  # fmt: skip
    grid = given["mamba_prefill_checkpoint_alignment"] or None
    with ExitStack() as stack:
        for patched in (
            patch.object(ModelRegistry, "resolve_model_cls", lambda *names, **more: (states, None)),
            patch.object(abstract, "get_mamba_prefill_checkpoint_alignment", lambda found: grid),
            patch.object(Platform, "_find_non_ssm_backends", classmethod(lambda cls, found: [backend])),
            patch("vllm.config.vllm.set_current_vllm_config", lambda found: nullcontext()),
        ):
            stack.enter_context(patched)
        Platform._align_hybrid_block_size(config, backend)
    return cache.block_size


def ours(model, given):
    """The block of attention that our engine sets."""
    drafts = {"speculative_method": "mtp"} if given["num_speculative_tokens"] else {}
    return attention_block(V0_33_0, options({**given, **drafts, "real_model": model}), real_model(model))


def released_groups(counts):
    """The number of groups of full attention, windows and states that the released function makes."""
    rows = {"block_size": 16, "num_kv_heads": 1, "head_size": 64, "dtype": torch.bfloat16}
    makers = (
        lambda: FullAttentionSpec(**rows), lambda: SlidingWindowSpec(**rows, sliding_window=128),
        lambda: MambaSpec(block_size=16, shapes=((1,),), dtypes=(torch.float32,), page_size_padded=4096))  # fmt: skip
    specs = {f"{kind}.{i}": make() for kind, (make, count) in enumerate(zip(makers, counts, strict=True))
             for i in range(count)}  # fmt: skip
    groups = planning._get_kv_cache_groups_uniform_page_size(specs)
    kinds = [group.layer_names[0].partition(".")[0] for group in groups]
    return tuple(kinds.count(str(kind)) for kind in range(len(makers)))


def compare_groups():
    """Compare the number of groups for all numbers of layers up to MOST_LAYERS of each kind; return how many differ."""
    planning.logger.setLevel("ERROR")                       # it warns of every group that is filled up
    differ, every = 0, [counts for counts in product(range(0, MOST_LAYERS), repeat=3) if sum(map(bool, counts)) > 1]
    for counts in every:
        kinds = (attention(1, 64, 64), attention(1, 64, 64, "W"), delta_net(4, 1, 1, 8, 8))
        layers = [layer for layer, count in zip(kinds, counts, strict=True) for _ in range(count)]
        mine, real = groups_of(RealModel(tuple(layers), "drawn"))[:3], released_groups(counts)
        if mine != real:
            differ += 1
            complain(f"{counts} layers: released {real} groups, ours {mine}")
    show(f"{len(every)} numbers of groups, {differ} differ")
    return differ


def main(argv):
    """Compare all models under all combinations of flags; return the exit code."""
    differ, lines = 0, []
    for model, *values in product(MODELS, *FLAGS.values()):
        given = dict(zip(FLAGS, values, strict=True))
        if model == "kimi-linear" and given["mamba_ssm_cache_dtype"] == "float16":
            continue                                          # refused by vLLM, not by us
        try:
            real = released(model, given)
        except AssertionError:
            real = None                                       # the server does not start
        try:
            mine = ours(model, given)
        except BadInput:
            mine = None
        lines.append(f"{model} {' '.join(map(str, values))} {real}")
        if real != mine:
            differ += 1
            complain(f"{model} {given}: released {real}, ours {mine}")
    show(f"{len(lines)} block sizes, {differ} differ")
    differ += compare_groups()
    if "--write" in argv:
        STORED.write_text("\n".join((f"# model {' '.join(FLAGS)} block", *lines[::EVERY])) + "\n")
    return exits.BROKEN if differ else exits.HOLDS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
