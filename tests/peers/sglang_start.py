"""Values that SGLang derives at its start, of drawn command lines, as the released functions and as ours.

    python -m tests.peers.sglang_start FOLDER --release 0.5.23 [--drawn N] [--seed N]

FOLDER: an unpacked wheel of the release, whose functions run as they are; stand-ins give them the options and the
configuration of the model. Exit code 1 if a value differs. `DERIVED` says what is derived, and where.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from contextlib import suppress
from pathlib import Path
from runpy import run_path
from types import ModuleType, SimpleNamespace
from typing import Any, Sequence
from unittest.mock import MagicMock, patch

from cachesim.base import exits
from cachesim.base.console import complain, show
from cachesim.base.errors import BadInput
from cachesim.engines.sglang import PROFILES
from cachesim.engines.sglang.compressed_pools import compressed_slots
from cachesim.engines.sglang.flags import BUFFERED, LAZY, Options, options
from cachesim.engines.sglang.flags import UNBUFFERED as RUNNING
from cachesim.engines.sglang.pool_sizes import most_requests
from cachesim.engines.sglang.profiles.rule_table import Rules
from cachesim.engines.sglang.start_options import chunk_size, context_of
from cachesim.engines.shared.model_layers import RealModel, RopeScaling
from cachesim.engines.shared.model_sizes import real_model
from tests.peers.sglang_defaults import functions

DERIVED = """
value                 from                                    0.5.23
chunked_prefill_size  memory of the device                    arg_groups/memory_hook.py handle_gpu_memory_settings, 87
context_len           config.json: positions, rope scaling    utils/hf_transformers/common.py get_context_length, 677
does it start         context_length above context_len        configs/model_config.py _derive_context_length, 1291
max_running_requests  rows, states, where states come from    mem_cache/kv_cache_configurator.py, 3119
pools of DeepSeek V4  memory, requests, drafts, ratio         model_executor/pool_configurator.py, 1068
"""
CAPPED = ("sglang@0.5.20", "sglang@0.5.21", "sglang@0.5.22", "sglang@0.5.23")
"""Rule sets whose number of requests is compared: 0.5.9 derives it inside a class that allocates memory."""


class Stop(Exception):
    """The value that is compared is known."""


def stop(*args: Any, **more: Any) -> None:
    """End the released function."""
    raise Stop


def released_chunk(folder: Path, memory: int) -> int:
    """Return the size of a chunk that a release sets on a device with so much memory [MiB]."""
    cfg = SimpleNamespace(
        chunked_prefill_size=None, tp_size=1, max_running_requests=None, cuda_graph_max_bs=None, cuda_graph_bs=None,
        device="cuda", cuda_graph_config=SimpleNamespace(decode=MagicMock(max_bs=None, bs=None), prefill=MagicMock()),
        _generate_cuda_graph_batch_sizes=stop)  # fmt: skip
    hook = folder / "sglang" / "srt" / "arg_groups" / "memory_hook.py"
    if not hook.exists():
        name = "_handle_gpu_memory_settings"
        run = getattr(functions(folder / "sglang" / "srt" / "server_args.py", (name,)), name)
        arguments = (cfg, memory)
    else:
        run = functions(
            hook, ("handle_gpu_memory_settings",), copy=SimpleNamespace(deepcopy=lambda one: one),
            resolving_view=lambda args: cfg, get_device_memory_capacity=lambda device: memory,
            declare_resolution=lambda args, name, **found: vars(cfg).update(found)).handle_gpu_memory_settings
        arguments = (cfg,)
    stubs = ModuleType("qwen3_vl")
    stubs.expand_multimodal_decode_graph_to_running_limit = stop
    groups = "sglang.srt.arg_groups"
    modules = {name: MagicMock() for name in (
        "sglang", "sglang.srt", groups, f"{groups}.cuda_graph_hook", f"{groups}.model_overrides")}  # fmt: skip
    modules[f"{groups}.model_overrides.qwen3_vl"] = stubs
    with patch.dict(sys.modules, modules), suppress(Stop):
        run(*arguments)
    return cfg.chunked_prefill_size


class ReleasedRequests:
    """The number of requests that run at a time in a release. ``now``: the options that its functions read."""

    def __init__(self, folder: Path) -> None:
        memory = folder / "sglang" / "srt" / "mem_cache"
        file, sizing = memory / "kv_cache_configurator.py", memory / "allocation_sizing.py"
        names = re.findall(r"^(MAMBA_CACHE_\w+) = ", file.read_text(), re.MULTILINE)
        slots = "get_mamba_tracking_slots"
        given = vars(functions(sizing, (slots,))) if f"def {slots}" in sizing.read_text() else {}
        self.now = SimpleNamespace()
        self.found = functions(
            file, (*names, "resolve_max_num_reqs", "_calculate_mamba_ratio"), **given, get_schedule=lambda: self.now,
            get_memory=lambda: self.now, get_exec=lambda: SimpleNamespace(mamba=self.now),
            envs=SimpleNamespace(SGLANG_OPT_MAMBA_SKIP_DECODE_LOCK=SimpleNamespace(get=lambda: False)))

    def number(self, opts: Options, tokens: int, states: int | None, context: int, most: int = 0) -> int:
        """Return the requests with pools of so many tokens and states (None = the model has none); 0 = the server does
        not start. ``most``: as drawn, if the options have another number."""
        strategy = opts.mamba_radix_cache_strategy
        vars(self.now).update(
            max_running_requests=most or opts.max_running_requests or (48 if opts.speculative_algorithm else None),
            max_mamba_cache_size=states, disable_overlap_schedule=opts.disable_overlap_schedule,
            disable_radix_cache=opts.disable_radix_cache, enable_mamba_extra_buffer=strategy in (BUFFERED, LAZY),
            enable_mamba_extra_buffer_lazy=strategy == LAZY)
        server = SimpleNamespace(
            model_config=SimpleNamespace(context_len=context), attn_dp_size=1, ps=SimpleNamespace(attn_dp_size=1),
            mambaish_config=states, _calculate_mamba_ratio=lambda: self.found._calculate_mamba_ratio(None))
        try:
            return self.found.resolve_max_num_reqs(server, tokens)
        except RuntimeError:
            return 0


def drawn_requests(released: ReleasedRequests, rules: Rules, rng: random.Random) -> str:
    """Return the difference of a drawn number of requests, "" if there is none."""
    strategy = rng.choice((RUNNING, BUFFERED, LAZY))
    opts = options({
        "max_running_requests": rng.choice((0, 0, 4, 64, 3000)), "mamba_radix_cache_strategy": strategy,
        "disable_overlap_schedule": strategy == RUNNING or (strategy == BUFFERED and rng.random() < 0.5),
        "speculative_algorithm": rng.choice(("", "", "EAGLE")), "disable_radix_cache": rng.random() < 0.1})  # fmt: skip
    tokens, context = rng.choice((500, 5000, 432001, 9000000)), rng.choice((4096, 40960, 262144))
    states = rng.choice((None, 4, 20, 64, 5000))
    real = released.number(opts, tokens, states, context)
    mine = max(0, most_requests(rules, opts, tokens=tokens, states=states, context=context))
    return "" if real == mine else f"{opts} {tokens} {states} {context}: released {real}, ours {mine}"


class ReleasedCompressed:
    """The pools of DeepSeek V4 in a release, on a device of NVIDIA with FlashMLA."""

    CLASSES = ("DSV4PoolConfigurator", "MemoryPoolConfigurator")
    HELPERS = ("_operator_swa_full_tokens_ratio", "DSV4_DEFAULT_SWA_FULL_TOKENS_RATIO",
               "_get_dsv4_compress_state_dtype_sizes")  # fmt: skip
    SIZES = ("get_dsv4_indexer_bytes_per_token", "get_compress_state_ring_size", "resolve_compress_state_ring_size",
             "collect_sources_by_ratio", "get_compress_state_write_pad", "uses_draft_swa_ring", "get_swa_ring_size",
             "resolve_compressed_kv_layout", "_num_dsv4_physical_kv_pages")  # fmt: skip

    def __init__(self, folder: Path) -> None:
        root = folder / "sglang"
        memory, pools = root / "srt" / "mem_cache" / "deepseek_v4_memory_pool.py", root / "srt" / "model_executor"
        file = root / "kernels" / "ops" / "attention" / "dsv4" / "kv_layout.py"
        layouts = run_path(str(file))["KVLayout"] if file.exists() else MagicMock()
        self.now = SimpleNamespace(
            enable_hisparse=False, disable_radix_cache=False, swa_prefix_tails=None, disaggregation_mode="null",
            disaggregation_decode_extra_slots=0, _swa_full_tokens_ratio_explicitly_set=True,
            features=SimpleNamespace(enable_encoder_swa_bounded_replay=False),
            kernel=SimpleNamespace(dsv4_attn_backend="flashmla", enable_deepseek_v4_fp4_indexer=False))
        envs = SimpleNamespace(
            SGLANG_OPT_USE_ONLINE_COMPRESS=SimpleNamespace(get=lambda: False),
            SGLANG_DSV4_COMPRESS_STATE_DTYPE=SimpleNamespace(get=lambda: "float32"))
        common: dict[str, Any] = {
            "_is_hip": False, "_is_npu": False, "envs": envs, "ONLINE_C128": False, "KVLayout": layouts,
            "ceil_div": lambda a, b: -(-a // b), "ceil_align": lambda a, b: -(-a // b) * b}  # fmt: skip
        common |= {f"get_{part}": lambda: self.now for part in ("schedule", "memory", "exec", "disagg", "spec")}
        sizes = vars(functions(memory, _defined(memory, self.SIZES), **common))
        sizes |= {"select_dsv4_kv_layout": lambda: (layouts.V4, None), "dsv4_unified_row_bytes": lambda *sizes: 0,
                  "DSV41_INDEX_PAGE_SIZE": 64}  # fmt: skip
        gate = SimpleNamespace(is_unified_kv_fp8=lambda: False, is_unified_kv_triton=lambda: False)
        name = "sglang.srt"
        given = {
            f"{name}.layers.attention.dsv4.unified_kv_gate": gate,
            "sglang.kernels.ops.attention.dsv4.unified_kv_kernels.env_gate": gate,
            f"{name}.mem_cache.deepseek_v4_memory_pool": SimpleNamespace(**sizes)}  # fmt: skip
        above = {word.rpartition(".")[0] for word in given}
        above |= {".".join(word.split(".")[:n]) for word in above for n in range(1, word.count(".") + 1)}
        self.modules = {word: MagicMock() for word in above} | given
        source = pools / "pool_configurator.py"
        self.found = functions(
            source, _defined(source, (*self.HELPERS, *self.CLASSES)), **common, **sizes,
            _DSV4PoolSizes=SimpleNamespace, MemoryPoolConfig=SimpleNamespace,
            check_dsv4_unified_fp8_pd_supported=lambda **given: None,
            max_speculative_num_draft_tokens=lambda: self.now.speculative_num_draft_tokens)

    def slots(self, model: RealModel, opts: Options, room: int) -> tuple[int, int] | None:
        """Return the slots of rows and of windows, None if the server does not start."""
        drafts = opts.speculative_num_steps + 1 if opts.speculative_algorithm else None
        vars(self.now).update(
            swa_full_tokens_ratio=opts.swa_full_tokens_ratio, max_running_requests=opts.max_running_requests or 256,
            speculative_algorithm=opts.speculative_algorithm or None, speculative_num_draft_tokens=drafts,
            chunked_prefill_size=opts.chunked_prefill_size)
        config = SimpleNamespace(
            qk_nope_head_dim=448, qk_rope_head_dim=64, index_head_dim=128, context_len=model.context, window_size=128,
            compress_ratios=[layer.ratio for layer in model.layers], hf_config=SimpleNamespace(kv_source_layer_ids=()))
        algorithm = SimpleNamespace(is_dspark=lambda: False, is_none=lambda: drafts is None, is_eagle=lambda: True)
        runner = SimpleNamespace(
            kv_cache_dtype_str="auto", model_config=config, pp_size=1, sliding_window_size=128, page_size=256,
            layer_info=SimpleNamespace(start_layer=0, end_layer=len(model.layers)), attn_dp_size=1,
            ps=SimpleNamespace(pp_size=1, attn_dp_size=1), spec_algorithm=algorithm)
        with patch.dict(sys.modules, self.modules):
            try:
                sizes = self.found.DSV4PoolConfigurator(runner).calculate_pool_sizes(room, 256)
            except ValueError:
                return None
        return sizes.full_max_total_num_tokens, sizes.swa_max_total_num_tokens


def _defined(file: Path, names: Sequence[str]) -> list[str]:
    """Return the names that a source defines."""
    text = file.read_text()
    return [name for name in names if re.search(rf"^(def {name}\(|class {name}\b|{name} = )", text, re.MULTILINE)]


def drawn_compressed(released: ReleasedCompressed, rules: Rules, rng: random.Random) -> str:
    """Return the difference of the drawn pools of DeepSeek V4, "" if there is none."""
    model = real_model(rng.choice(("deepseek-v4", "deepseek-v4-pro")))
    opts = options({
        "page_size": 256, "max_running_requests": rng.choice((0, 1, 16, 256, 2000)),
        "speculative_algorithm": rng.choice(("", "EAGLE")), "speculative_num_steps": rng.choice((1, 3, 5)),
        "swa_full_tokens_ratio": rng.choice((0.1, 0.1, 0.05, 0.8, 1.0)), "real_model": "deepseek-v4"})  # fmt: skip
    room = rng.choice((0, 1, 8, 40, 300)) * (1 << 30) + rng.randrange(1 << 30)
    real = released.slots(model, opts, room)
    assert rules.compressed_form is not None
    try:
        mine: tuple[int, int] | None = compressed_slots(rules.compressed_form, model, opts, room)
    except BadInput:
        mine = None
    return "" if real == mine else f"DeepSeek V4 {opts} {room}: released {real}, ours {mine}"


def find(folder: Path, text: str) -> Path:
    """Return the file of a release that has a text."""
    return next(file for file in sorted((folder / "sglang" / "srt").rglob("*.py")) if text in file.read_text())


def main(argv: list[str]) -> int:
    """Compare drawn values; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--release", required=True)
    parser.add_argument("--drawn", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    rules, rng = PROFILES[f"sglang@{args.release}"], random.Random(args.seed)
    file = find(args.folder, "def get_context_length(")
    length = functions(file, ("CONTEXT_LENGTH_KEYS", "get_context_length")).get_context_length
    chunks = {memory: released_chunk(args.folder, memory * 1024) for memory in range(1, 300)}
    differ = [f"{memory} GiB" for memory, chunk in chunks.items() if chunk_size(rules, memory) != chunk]
    for _ in range(args.drawn):
        context, kind = rng.choice((2048, 32768, 40960, 131072)), rng.choice(("linear", "yarn", "llama3", "longrope"))
        factor, original = rng.choice((1.0, 2.0, 4.0)), rng.choice((0, 4096))
        rope = {"rope_type": kind, "factor": factor}
        if original:
            rope["original_max_position_embeddings"] = original
        scaled = rng.random() < 0.8
        real = length(SimpleNamespace(max_position_embeddings=context, rope_scaling=rope if scaled else None))
        scaling = RopeScaling(kind, factor, original) if scaled else RopeScaling()
        if real != context_of(RealModel((), "drawn", context=context, scaling=scaling)):
            differ.append(f"{context} {rope} {scaled}")
    if rules.name in CAPPED:
        released = ReleasedRequests(args.folder)
        differ += filter(None, (drawn_requests(released, rules, rng) for _ in range(args.drawn)))
    pools = 0
    if rules.compressed_form is not None:
        compressed, pools = ReleasedCompressed(args.folder), args.drawn
        differ += filter(None, (drawn_compressed(compressed, rules, rng) for _ in range(args.drawn)))
    for line in differ[:5]:
        complain(line)
    requests = args.drawn if rules.name in CAPPED else 0
    show(f"sglang@{args.release}: {len(chunks)} devices, {args.drawn} lengths, {requests} numbers of requests, "
         f"{pools} pools of DeepSeek V4, {len(differ)} differ")  # fmt: skip
    return exits.BROKEN if differ else exits.HOLDS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
