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
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, patch

from cachesim.base import exits
from cachesim.base.console import complain, show
from cachesim.engines.sglang import PROFILES
from cachesim.engines.sglang.flags import BUFFERED, LAZY, Options, options
from cachesim.engines.sglang.flags import UNBUFFERED as RUNNING
from cachesim.engines.sglang.pool_sizes import most_requests
from cachesim.engines.sglang.profiles.rule_table import Rules
from cachesim.engines.sglang.start_options import chunk_size, context_of
from cachesim.engines.shared.model_layers import RealModel, RopeScaling
from tests.peers.sglang_defaults import functions

DERIVED = """
value                 from                                    0.5.23
chunked_prefill_size  memory of the device                    arg_groups/memory_hook.py handle_gpu_memory_settings, 87
context_len           config.json: positions, rope scaling    utils/hf_transformers/common.py get_context_length, 677
does it start         context_length above context_len        configs/model_config.py _derive_context_length, 1291
max_running_requests  rows, states, where states come from    mem_cache/kv_cache_configurator.py, 3119
"""
CAPPED = ("sglang@0.5.20", "sglang@0.5.23")     # 0.5.9 derives the number inside a class that allocates memory


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
    for line in differ[:5]:
        complain(line)
    requests = args.drawn if rules.name in CAPPED else 0
    show(f"sglang@{args.release}: {len(chunks)} devices, {args.drawn} lengths, {requests} numbers of requests, "
         f"{len(differ)} differ")  # fmt: skip
    return exits.BROKEN if differ else exits.HOLDS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
