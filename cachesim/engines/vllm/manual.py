"""Interface of the server: options, models, request fields, and the values that a search draws."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Iterator, Mapping

from cachesim.engines.capabilities import (
    IMAGES,
    MAX_TOKENS,
    MOST_DRAWN_BATCHES,
    Capacity,
    DeviceOption,
    DrawnServer,
    Field,
    Manual,
    ServerLoad,
    SizesOption,
)
from cachesim.engines.shared.advice import Try, ample, shorter_chunks, tries_of
from cachesim.engines.shared.known_models import MODELS, OLDER, KnownModel
from cachesim.engines.vllm.assumed_pool import ASSUMED
from cachesim.engines.vllm.flags import FLAGS, METHODS
from cachesim.engines.vllm.kv_offload.cpu_manager import ARC, LRU
from cachesim.engines.vllm.rules.blocks import DENSE
from cachesim.engines.vllm.rules.schedule import EAGLE, FCFS, PRIORITY
from cachesim.model.hash_mixing import Rng

_CHOSEN = KnownModel("AAAA", "its layers choose rows and keep them all, as attention does",
                     "vllm-project/vllm vllm/models/deepseek_v32, minimax_m3 (0.33.0)")  # fmt: skip
_COMPRESSED = KnownModel(
    "W128 W128 A W128", "two groups of windows, compressed rows with their index as attention, and the states of "
    "compressors that read 128 tokens; those that read 8 have blocks, but no layer here",
    "vllm-project/vllm vllm/models/deepseek_v4 (0.33.0)")  # fmt: skip
KNOWN = {
    **OLDER,
    "mistral-7b-v0.1": MODELS["mistral-7b-v0.1"]._replace(
        layers="W4096", real="all its layers have a window of 4096",
        source="vllm-project/vllm vllm/engine/arg_utils.py, model_executor/layers/attention/attention.py (0.33.0)"),
    **{name: _CHOSEN._replace(also=MODELS[name].also) for name in ("deepseek-v3.2", "glm-5", "glm-5.2", "minimax-m3")},
    **{name: _COMPRESSED._replace(also=MODELS[name].also) for name in ("deepseek-v4", "deepseek-v4-pro")},
}
"""Real models with the layers that represent them in this server's pool."""
STAND_INS = {
    "deepseekv32": "deepseek-v3.2", "glmmoedsa": "glm-5", "deepseekv4": "deepseek-v4",
    **dict.fromkeys(("minimaxm3", "minimaxm3vl", "minimaxm3vltext"), "minimax-m3"),
}  # fmt: skip
"""Model types of configurations, as ``plain`` writes them -> name of the model whose layers represent them."""
STATES = frozenset("GSCH")


def draw(rng: Rng, model: str) -> DrawnServer:
    """Draw a server for this model: few, small blocks; where the model has states, often larger blocks for them."""
    block = rng.one((16, 16, 8, 4, 4, 2))
    most = min(400, MOST_DRAWN_BATCHES * block)
    blocks = 3 + rng.one((2, 2, 3, 8)) * (-(-(most + 80) // block))
    server: dict[str, Any] = {
        "block_size": block, "num_gpu_blocks": blocks,
        "max_num_batched_tokens": rng.one((2048, 2048, 64, 4 * block, block)),
        "max_num_seqs": rng.one((128, 128, 2, 1)), "scheduling_policy": rng.one((FCFS, FCFS, PRIORITY)),
        "watermark": rng.one((0.0, 0.0, 0.1)), "scheduler_reserve_full_isl": rng.chance(70)}
    if rng.chance(20):
        server["long_prefill_token_threshold"] = rng.one((block, 2 * block + 1))
    step = block
    if states := set(model) & STATES:
        if set(model) - STATES and rng.chance(40):
            server["mamba_block_size"] = step = block * rng.one((2, 2, 4))
        server["mamba_prefill_checkpoint_alignment"] = rng.one((0, 0, 1, 2))
    if states or "W" in model:
        server["prefix_cache_retention_interval"] = rng.one((0, 0, DENSE, 2 * step))
    if not set(model) - STATES:
        server["enable_prefix_caching"] = True
    if rng.chance(30):
        server["async_scheduling"] = False
    if rng.chance(30) and "K" not in model:
        server |= draw_drafts(rng, step)
    if rng.chance(30):
        server |= draw_chunks(rng, server, step)
    edges = (1, block - 1 or 1, block, block + 1, 2 * block)
    return DrawnServer("vllm", model, server, edges=edges, most=most)


def draw_drafts(rng: Rng, step: int) -> dict[str, Any]:
    """Draw the options of a drafter. A draft is shorter than a block, as in every real model with states."""
    method = rng.one(METHODS[1:])
    k = min(rng.one((1, 2, 3)), step - 1)
    modules = method == "mtp" and rng.chance(50)
    return {"speculative_method": method, "num_speculative_tokens": k, "multi_module_mtp": modules,
            "disable_lookahead_block_hashes": method in EAGLE and rng.chance(30),
            "disable_eagle_block_drop": method in EAGLE and not modules and rng.chance(20)}


def draw_chunks(rng: Rng, server: Mapping[str, Any], step: int) -> dict[str, Any]:
    """Draw the options of CPU offload, often with too few chunks. The interval of kept blocks fits them."""
    per_chunk = rng.one((1, 1, 2, 3))
    found = {"num_cpu_chunks": rng.one((64, 16, 6, 2)), "blocks_per_chunk": per_chunk,
             "eviction_policy": rng.one((LRU, ARC)), "store_threshold": rng.one((0, 0, 2)),
             "offload_prompt_only": rng.chance(50)}  # fmt: skip
    if "prefix_cache_retention_interval" in server:
        found["prefix_cache_retention_interval"] = rng.one((0, step * per_chunk))
    return found


def draw_fields(rng: Rng, server: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the number of accepted draft tokens."""
    k = int(server.get("num_speculative_tokens", 0))
    return {"draft_else": rng.below(k + 1)} if k else {}


def _blocks(now: Mapping[str, Any], load: ServerLoad) -> int:
    """Return blocks for all conversations in every group, with those of other requests beside them."""
    sizes = [int(size) for size in _GROUP_BLOCK.findall(now["kv_groups"])]
    stated = (int(now["attention_block_size"] or now["block_size"]), int(now["mamba_block_size"]))
    smallest = min(filter(None, sizes or stated))
    return max(int(now["num_gpu_blocks"]), LEAST_BLOCKS, 8 * load.total // smallest)


def _chunks(now: Mapping[str, Any], load: ServerLoad) -> int:
    """Return CPU chunks for all conversations, as ``_blocks``."""
    return max(int(now["num_cpu_chunks"]), _blocks({**now, "num_gpu_blocks": 0}, load))


def _length(now: Mapping[str, Any], load: ServerLoad) -> int:
    """Return a longest request that lets every request pass; a length that is not given stays."""
    longest = int(now["max_model_len"])
    return max(longest, load.longest) if longest > 0 else longest


def _equal_blocks(now: Mapping[str, Any], load: ServerLoad) -> Iterator[Try]:
    """Yield the groups with the smallest block in place of a longer one, one group at a time; then in all groups."""
    groups = str(now["kv_groups"])
    sizes = [int(size) for size in _GROUP_BLOCK.findall(groups)]
    longer = [found for found in _GROUP_BLOCK.finditer(groups) if int(found[1]) > min(sizes)]
    for found in longer:
        yield {"kv_groups": f"{groups[: found.start(1)]}{min(sizes)}{groups[found.end(1) :]}"}
    if len(longer) > 1:
        yield {"kv_groups": _GROUP_BLOCK.sub(f"/{min(sizes)}", groups)}


def _no_drafts(now: Mapping[str, Any], load: ServerLoad) -> Iterator[Try]:
    """Yield no drafts."""
    if now["speculative_method"]:
        yield {"speculative_method": "", "num_speculative_tokens": 0}


LEAST_BLOCKS = 256         # blocks that are tried at least
_GROUP_BLOCK = re.compile(r"/(\d+)")
CAPACITIES = (
    Capacity("num_gpu_blocks", _blocks),
    Capacity("num_cpu_chunks", _chunks),
    Capacity("max_model_len", _length),
)

BEFORE = {"0.8.0": "before 0.8.0 prefixes are reused only with --enable-prefix-caching"}
"""Source: vllm/engine/arg_utils.py EngineArgs: the default was true for the engine V1 alone, which 0.8.0 made the
default."""

MANUAL = Manual(
    flags=FLAGS, models=(), known=KNOWN, stand_ins=STAND_INS,
    drawn=("A", "AA", "W8 A", "W8", "K8 A", "GA", "GGGA", "CA", "H", "S"),
    draw=draw, draw_fields=draw_fields, slots=False, pool=True, refused=frozenset(),
    image_sizes=lambda server: ("2x2", "4x2", "1x6", "4x4") if server.get("multimodal") else (),
    takes=frozenset({"cache_prompt", "cancel_at", "eog", "drafts", "draft_else", IMAGES}),
    fields=(
        Field("cache_salt", "", "blocks are shared only with requests of the same salt", ("x", "y")),
        Field("lora", "", "adapter of the request; blocks are shared only under the same adapter", ("a", "b")),
        Field("priority", 0, "the smallest is served first, with the priority policy", (0, 1)),
        MAX_TOKENS,
    ),
    tries=tries_of(FLAGS, *map(ample, CAPACITIES), _equal_blocks, _no_drafts,
                  partial(shorter_chunks, "max_num_batched_tokens")), capacities=CAPACITIES,
    group_options=frozenset({"kv_groups"}),
    sizes=SizesOption("real_model", "the sizes of its layers are not known: blocks as --block-size states; "
                                    "attention_block_size takes the number in the server's log"),
    length="max_model_len",
    device=DeviceOption(
        "device_memory", "max_num_batched_tokens", "less than 70 GiB", kind="block_size",
        kinds="16, or what the model needs; latent rows on a B200 take 32, an XPU takes 64, a CPU 128 (--block-size N)",
        unless="--attention-backend"),
    plenty={"num_gpu_blocks": 2048}, assumed=ASSUMED, headline=("block_size", "num_gpu_blocks"),
    route="least-loaded", before=BEFORE,
)  # fmt: skip
