"""Values that vLLM derives at its start, of drawn command lines, as the released functions and as ours:
``python -m tests.peers.vllm_start [--drawn N] [--seed N]``. Exit code 1 if a value differs.

The functions run with stand-ins for the configuration and the device; the specs of the layers are built from the
numbers of the models. `DERIVED` says what is derived, from what, and where the release does it.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from dataclasses import fields
from inspect import signature
from types import SimpleNamespace
from typing import Any, Mapping, NamedTuple
from unittest.mock import patch

from cachesim.base import exits
from cachesim.base.console import complain, show
from cachesim.base.errors import BadInput
from cachesim.engines.shared.model_layers import RealModel, RopeScaling
from cachesim.engines.shared.model_sizes import real_model, short_notation
from cachesim.engines.vllm.engine import ENGINE
from cachesim.engines.vllm.flags import FITTING, options
from cachesim.engines.vllm.kv_cache_planning import get_kv_cache_config
from cachesim.engines.vllm.page_sizes import model_blocks
from cachesim.engines.vllm.profiles import PROFILES
from cachesim.engines.vllm.start_options import longest_start, resolved
from cachesim.model import parse

try:
    import torch
    import vllm
    from vllm.config import model as lengths
    from vllm.engine import arg_utils
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.core import kv_cache_utils as utils
    from vllm.v1.kv_cache_interface import (
        FullAttentionSpec,
        KVCacheConfig,
        MambaSpec,
        MLAAttentionSpec,
        SlidingWindowSpec,
        UniformTypeKVCacheSpecs,
    )
except ModuleNotFoundError as absent:
    complain(f"not installed: {absent.name!r} (run `make peers`, which makes .venv-peers-vllm)")
    raise SystemExit(exits.NOTHING) from None

if vllm.__version__ >= "0.33":
    from vllm.v1.core import kv_cache_planning as planning
else:
    planning = utils

DERIVED = """
value                   from                                            0.33.0
max_model_len           config.json: positions, rope scaling            config/model.py _get_and_verify_max_len, 2545
max_num_batched_tokens  memory of the device, requests, max_model_len   engine/arg_utils.py EngineArgs, 3165
max_num_seqs            memory of the device, max_num_batched_tokens    engine/arg_utils.py EngineArgs, 3165
num_gpu_blocks          memory of the pool, pages of a group            v1/core/kv_cache_planning.py, 574 and 669
tokens in the log       num_gpu_blocks, blocks of the longest request   v1/core/kv_cache_utils.py, 1061 and 1120
does it start           the same, without the null block                v1/core/kv_cache_planning.py, 50
max_model_len auto      the same: the longest request that fits         v1/core/kv_cache_planning.py, 1288
"""
GIB = 1 << 30
SCALE, SCALE_OF = 4, 128        # bytes of a scale of the index, and the numbers that share it
PACKED_ROW = 656                # bytes of a row in the layout fp8_ds_mla
MODELS = ("qwen3", "qwen3-30b-a3b", "llama-3.1-70b", "gpt-oss-20b", "gemma-3-4b", "qwen3.5-27b", "qwen3.5-0.8b",
          "granite-4.0-h-small", "qwen3-next", "step-3.5-flash", "minimax-m2.5", "kimi-k2.5", "deepseek-v3.2",
          "glm-5.1", "nemotron-3-ultra")  # fmt: skip
SCALINGS = ("", "default", "linear", "dynamic", "yarn", "llama3", "longrope")


class NotDerived(Exception):
    """Ours does not derive the value of a draw, and says so."""


def drawn_length(rng: random.Random) -> str:
    """Return the difference of a drawn model's length, "" if there is none."""
    kind = rng.choice(SCALINGS)
    factor = rng.choice((1.0, 2.0, 4.0, 8.0)) if kind else 1.0
    context, original = rng.choice((2048, 32768, 40960, 131072)), rng.choice((0, 4096))
    given = rng.choice((None, 1024, 32768, 65536, 131072, 200000))
    before = original or context
    rope = {"rope_type": kind or "default", "factor": factor, "original_max_position_embeddings": before}
    config = SimpleNamespace(
        model_type="llama", rope_parameters=rope if kind else None, original_max_position_embeddings=before)
    real = released_length(config, context, given)
    model = RealModel((), "drawn", context=context, scaling=RopeScaling(kind, factor, before))
    most = longest_start(RULES, model)
    mine = given if given is not None else before if kind == "longrope" else most
    if given is not None and given > most:
        mine = 0
    return "" if real == mine else f"length {kind} {factor} {context} {original} {given}: released {real}, ours {mine}"


def released_length(config: SimpleNamespace, context: int, given: int | None) -> int:
    """Return the max_model_len of a model with so many positions, 0 if the server does not start."""
    arch = SimpleNamespace(derived_max_model_len_and_key=(context, "max_position_embeddings"))
    platform = SimpleNamespace(check_max_model_len=lambda n: n)
    try:
        with patch.object(lengths, "current_platform", platform):
            return lengths._get_and_verify_max_len(config, arch, None, given, False, None)
    except ValueError:
        return 0


def drawn_batch(rng: random.Random) -> str:
    """Return the difference of the drawn size of a step, "" if there is none."""
    memory = rng.choice((0, 16, 24, 40, 69, 70, 80, 96, 141, 159, 160, 192, 288))
    tokens, seqs = rng.choice((None, 16, 512, 2048, 9000)), rng.choice((None, 1, 2, 8, 256, 2000))
    length = rng.choice((64, 1000, 4096, 40960))
    platform = SimpleNamespace(
        get_device_total_memory=lambda: memory * GIB, get_device_name=lambda: "a device", is_tpu=lambda: False,
        is_device_capability=lambda _: False, is_cpu=lambda: False, is_rocm=lambda: False)  # fmt: skip
    args = arg_utils.EngineArgs(model="", max_num_batched_tokens=tokens, max_num_seqs=seqs)
    args.enable_chunked_prefill = True
    model = SimpleNamespace(max_model_len=length, is_multimodal_model=False, is_mm_prefix_lm=False)
    with patch.object(arg_utils, "current_platform", platform):
        args._set_default_max_num_seqs_and_batched_tokens_args(
            UsageContext.OPENAI_API_SERVER, model, SimpleNamespace(use_batched_dp_moe=False))
    given = {"device_memory": memory, "max_model_len": length}
    given |= {name: value for name, value in (("max_num_batched_tokens", tokens), ("max_num_seqs", seqs)) if value}
    found = resolved(RULES, parse("A"), given)
    real, mine = (args.max_num_batched_tokens, args.max_num_seqs), tuple(found[name] for name in NAMES)
    return "" if real == mine else f"step {given}: released {real}, ours {mine}"


NAMES = ("max_num_batched_tokens", "max_num_seqs")
RULES = PROFILES[f"vllm@{vllm.__version__.partition('+')[0]}"]


def drawn_pool(rng: random.Random) -> str:
    """Return the difference of a drawn pool, "" if there is none. Raise NotDerived."""
    model, given = drawn_server(rng)
    given["max_model_len"] = rng.choice((1000, 8192, 32768, 131072, 500000))
    if not model.states and not model.indexed and rng.random() < 0.7:
        given["block_size"] = rng.choice((16, 32, 64))
    pool = released_pool(model, given)
    length = released_length(SimpleNamespace(model_type=model.arch), model.context, given["max_model_len"])
    needed = sum(-(-group.kv_cache_spec.max_memory_usage_bytes(pool.config) // group.kv_cache_spec.page_size_bytes)
                 for group in pool.groups)  # fmt: skip
    released = length > 0 and needed <= pool.blocks - 1
    tokens = utils.get_kv_cache_capacity(pool.config, KVCacheConfig(
        num_blocks=pool.blocks, kv_cache_tensors=[], kv_cache_groups=pool.groups))[0]  # fmt: skip
    spec = parse(short_notation(model))
    try:
        mine = resolved(RULES, spec, given)["num_gpu_blocks"]
        ENGINE.check_start(RULES, short_notation(model), given)
        without = {name: value for name, value in given.items() if name != "kv_cache_memory_bytes"}
        again = resolved(RULES, spec, {**without, "kv_cache_size_tokens": tokens})["num_gpu_blocks"]
    except BadInput as refused:
        return f"pool {given}: released {pool.blocks} blocks, ours {refused}" if released else ""
    if released and mine == again == pool.blocks:
        return ""
    return f"pool {given}: released {pool.blocks}, starts {released}, ours {mine}, of the tokens in the log {again}"


def drawn_server(rng: random.Random) -> tuple[RealModel, dict[str, Any]]:
    """Return a drawn model, and options with the memory of its pool."""
    name = rng.choice(MODELS)
    given = {
        "real_model": name, "tensor_parallel_size": rng.choice((1, 1, 2)),
        "kv_cache_dtype": rng.choice(("auto", "fp8")),
        "kv_cache_memory_bytes": rng.choice((0, 1, 3, 7, 20, 60)) * GIB + rng.randrange(1, GIB),
        "max_num_batched_tokens": rng.choice((512, 2048, 8192)), "async_scheduling": rng.random() < 0.5}  # fmt: skip
    if rng.random() < 0.2:
        given["enable_prefix_caching"] = False
    return real_model(name), given


class ReleasedPool(NamedTuple):
    """A pool that the released functions make."""

    groups: Any
    config: SimpleNamespace
    each: int           # bytes of a block
    blocks: int


def released_pool(model: RealModel, given: Mapping[str, Any]) -> ReleasedPool:
    """Return the pool of a release. Raise NotDerived for a mode in which we do not know the blocks."""
    known = {name: value for name, value in given.items() if name != "kv_cache_memory_bytes"}
    opts = options(resolved(RULES, parse(short_notation(model)), known))
    try:
        groups, config = released_groups(model, opts)
    except BadInput as refused:
        raise NotDerived(str(refused)) from None
    layout = SimpleNamespace(is_block_outermost=False)
    each = planning._get_kv_cache_bytes_per_block(groups, layout) if planning is not utils else pool_bytes(groups)
    return ReleasedPool(groups, config, each, given["kv_cache_memory_bytes"] // each)


def drawn_auto(rng: random.Random) -> str:
    """Return the difference of a length that the server fits into a drawn pool, "" if there is none. Raise
    NotDerived."""
    model, given = drawn_server(rng)
    given["max_model_len"] = FITTING
    own = model.context
    pool = released_pool(model, {**given, "max_model_len": own})
    pool.config.attention_config = SimpleNamespace(hisparse_config=None)
    room = (pool.blocks - 1) * pool.each
    estimate = planning._estimate_max_model_len_from_groups
    absent = [None] * (len(signature(estimate).parameters) - 3)
    with patch.object(planning, "_pool_bytes_per_block_from_builder", lambda *_: pool.each, create=True):
        real = estimate(*absent, pool.config, pool.groups, room) if room > 0 else 0
    try:
        found = resolved(RULES, parse(short_notation(model)), given)
        mine = get_kv_cache_config(RULES, options(found), parse(short_notation(model))).max_model_len
    except BadInput:
        mine = 0
    return "" if real == min(mine, own) else f"auto {given}: released {real}, ours {mine}"


def pool_bytes(groups) -> int:
    """Return the bytes of a block of a release before 0.33: pages of one size, or those of the only group."""
    if isinstance(groups[0].kv_cache_spec, UniformTypeKVCacheSpecs):
        return groups[0].kv_cache_spec.page_size_bytes
    return max(len(group.layer_names) for group in groups) * groups[0].kv_cache_spec.page_size_bytes


def released_groups(model, opts):
    """Return the groups that the released functions make of a model's layers, and a stand-in of the configuration."""
    sizes = model_blocks(RULES, opts, model)
    ranks = opts.tensor_parallel_size
    kind = torch.uint8 if opts.kv_cache_dtype == "fp8" else torch.bfloat16
    specs, page = {}, 0

    def rows(layer, block):
        heads = max(1, layer.kv_heads // ranks)
        return {"block_size": block, "num_kv_heads": heads, "head_size": layer.key // layer.kv_heads, "dtype": kind}

    for i, layer in enumerate(model.full):
        specs[f"full.{i}"] = FullAttentionSpec(**rows(layer, sizes.full)) if layer.value else latent_rows(
            layer, sizes.full, kind, "fp8_ds_mla" if layer.kind == "I" and opts.kv_cache_dtype == "fp8" else None)
        if layer.index_key:
            index = layer._replace(key=layer.index_key + layer.index_key // SCALE_OF * SCALE)
            specs[f"full.{i}.index"] = latent_rows(index, sizes.full, torch.uint8, None)
        page = specs[f"full.{i}"].page_size_bytes
    for i, layer in enumerate(model.windows):
        specs[f"window.{i}"] = SlidingWindowSpec(**rows(layer, sizes.window), sliding_window=model.window)
    for i, _ in enumerate(model.states):
        specs[f"state.{i}"] = MambaSpec(block_size=sizes.state, shapes=((1,),), dtypes=(torch.float32,),
                                        page_size_padded=page, mamba_cache_mode=opts.mamba_cache_mode)  # fmt: skip
    kinds = {key.partition(".")[0] for key in specs}
    make = planning._get_kv_cache_groups_uniform_spec
    if len(kinds) > 1:
        make = planning._get_kv_cache_groups_uniform_page_size
    elif model.indexed:
        make = uniform_type_groups
    in_flight = opts.max_num_batched_tokens * (2 if opts.async_scheduling else 1)
    config = SimpleNamespace(
        model_config=SimpleNamespace(max_model_len=opts.max_model_len), max_in_flight_tokens=in_flight,
        parallel_config=SimpleNamespace(decode_context_parallel_size=1, prefill_context_parallel_size=1),
        cache_config=SimpleNamespace(mamba_cache_mode=opts.mamba_cache_mode),
        scheduler_config=SimpleNamespace(max_num_batched_tokens=opts.max_num_batched_tokens))  # fmt: skip
    return make(specs), config


def latent_rows(layer, block, kind, name):
    """Return the spec of rows without values. ``name``: of the layout of the numbers, None = one after another. In
    newer releases, the layer states the bytes of such a row."""
    states_bytes = "state_content_bytes" in {field.name for field in fields(MLAAttentionSpec)}
    more = {"state_content_bytes": PACKED_ROW} if name and states_bytes else {}
    return MLAAttentionSpec(
        block_size=block, num_kv_heads=1, head_size=layer.key, dtype=kind, cache_dtype_str=name, **more)


def uniform_type_groups(specs):
    """Return the group of layers that keep rows of all tokens, of several widths."""
    return planning._get_kv_cache_groups_uniform_type(UniformTypeKVCacheSpecs.from_specs(specs))


def main(argv: list[str]) -> int:
    """Compare drawn command lines; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--drawn", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    if planning is not utils:
        planning.logger.setLevel("ERROR")
    utils.logger.setLevel("ERROR")
    differ = 0
    for draw in (drawn_length, drawn_batch, drawn_pool, drawn_auto):
        rng = random.Random(args.seed)
        compared = 0
        found, refused = [], Counter[str]()
        while compared < args.drawn:
            try:
                found += filter(None, [draw(rng)])
                compared += 1
            except NotDerived as why:
                refused[str(why)] += 1
        for line in found[:5]:
            complain(line)
        show(f"{RULES.name} {draw.__name__}: {compared} compared, {len(found)} differ")
        for why, number in refused.items():
            show(f"  {number} more not derived: {why}")
        differ += len(found)
    return exits.BROKEN if differ else exits.HOLDS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
