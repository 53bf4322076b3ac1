"""Interface of the server: options, models, and the values that a search draws."""

from __future__ import annotations

from functools import partial
from typing import Any, Mapping

from cachesim.engines.capabilities import (
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
from cachesim.engines.sglang.assumed_pool import ASSUMED
from cachesim.engines.sglang.flags import BUFFERED, FLAGS, IGNORED, LAZY, UNBUFFERED
from cachesim.engines.sglang.pool_sizes import WINDOW_POOLS
from cachesim.engines.sglang.rules.host import POLICIES
from cachesim.engines.sglang.rules.schedule import ORDERS
from cachesim.engines.sglang.sparse_models import MODEL_OPTIONS
from cachesim.engines.shared import advice
from cachesim.engines.shared.known_models import MODELS, KnownModel
from cachesim.model.hash_mixing import Rng

STRATEGIES = "auto", BUFFERED, BUFFERED, LAZY, UNBUFFERED
"""Sources of states that a search draws."""
LEAST_TOKENS = 8192
LEAST_STATES = 256
"""Sizes of pools that advice tries at least."""


def _tokens(name: str, now: Mapping[str, Any], load: ServerLoad) -> int:
    """Return slots for all conversations twice, and for their chunks; those of windows only if they are given."""
    given = int(now[name])
    return max(given, LEAST_TOKENS, 4 * load.total) if given else 0


def _states(now: Mapping[str, Any], load: ServerLoad) -> int:
    """Return states for all requests."""
    return max(int(now["max_mamba_cache_size"]), LEAST_STATES, 16 * load.conversations)


CAPACITIES = (
    Capacity("max_total_tokens", partial(_tokens, "max_total_tokens")),
    Capacity("swa_tokens", partial(_tokens, "swa_tokens")),
    Capacity("max_mamba_cache_size", _states),
)
TRIES = advice.tries_of(
    FLAGS, *map(advice.ample, CAPACITIES), partial(advice.shorter_chunks, "chunked_prefill_size")
)


_FULL = KnownModel("AAAA", "its windows lie in the pool of full attention (no hybrid SWA memory in SGLang)",
                   "SGLang 0.5.23 python/sglang/srt/configs/model_config.py is_hybrid_swa_model")  # fmt: skip
_CHOSEN = KnownModel("AAAA", "its layers choose rows and keep them all, as attention does",
                     "sgl-project/sglang python/sglang/srt/arg_groups/model_overrides (0.5.23)")  # fmt: skip
_COMPRESSED = KnownModel(
    "W128 A", "windows, and compressed rows with their index as attention",
    "sgl-project/sglang python/sglang/srt/mem_cache/deepseek_v4_memory_pool.py (0.5.23)")  # fmt: skip
STAND_INS = {
    "deepseekv32": "deepseek-v3.2", "glmmoedsa": "glm-5", "deepseekv4": "deepseek-v4",
    **dict.fromkeys(("minimaxm3", "minimaxm3vl", "minimaxm3vltext"), "minimax-m3"),
}  # fmt: skip
"""Model types of configurations, as ``plain`` writes them -> name of the model whose layers represent them."""
KNOWN = {**MODELS, **{name: _FULL._replace(also=MODELS[name].also)
                      for name in ("gemma-2", "gemma-3", "gemma-3-4b", "command-a", "olmo-3", "exaone-4")},
         **{name: _CHOSEN._replace(also=MODELS[name].also)
            for name in ("deepseek-v3.2", "glm-5", "glm-5.2", "minimax-m3")},
         **{name: _COMPRESSED._replace(also=MODELS[name].also)
            for name in ("deepseek-v4", "deepseek-v4-pro")}}  # fmt: skip
"""Real models with the layers that represent them in this server's pools."""


def draw(rng: Rng, model: str) -> DrawnServer:
    """Draw a server for this model: small pools, short chunks. Long answers in a tight pool lead to retractions."""
    states = not set(model) <= set("AW0123456789 ")
    convolution = "C" in model
    strategy = rng.one(("auto", UNBUFFERED) if convolution else STRATEGIES) if states else "auto"
    page = 1 if states and (strategy == UNBUFFERED or convolution) else rng.one((1, 1, 4, 8))
    overlaps = strategy == LAZY or (strategy != UNBUFFERED and not rng.chance(25))
    chunk = rng.one((2048, 2048, 64, 32, 16))
    tight = rng.chance(30)
    most = rng.one((32, 64)) if tight else min(400, MOST_DRAWN_BATCHES * chunk)
    tokens = (most + 56 if tight else rng.one((1, 1, 2, 4)) * (most + 80 + 4 * page)) // page * page
    server = {
        "page_size": page, "max_total_tokens": tokens, "chunked_prefill_size": chunk,
        "max_running_requests": rng.one((8, 3, 2, 1)), "schedule_policy": rng.one(("fcfs", "lpm", *ORDERS)),
        "radix_eviction_policy": rng.one(("lru", "lru", "lfu", "slru")), "state_grid": rng.one((page, 2 * page)),
        "mamba_radix_cache_strategy": strategy, "disable_overlap_schedule": not overlaps,
        "mamba_track_interval": rng.one((8, 16, 256)),
        "max_mamba_cache_size": rng.one((64, 40, 30)), "swa_eviction_interval": rng.one((1, 4, 128)),
        "swa_full_tokens_ratio": 1.0 if tight else rng.one((1.0, 0.8, 0.6)),
        "new_token_ratio": 0.0 if tight else rng.one((0.7, 0.3)),
    }  # fmt: skip
    if rng.chance(30):
        server["mamba_max_states_per_path"] = 2
    if rng.chance(30):
        server |= {"speculative_algorithm": rng.one(("EAGLE", "EAGLE", "NGRAM")), "draft_window": rng.one((0, 12))}
    if rng.chance(40 if set(model) <= {"A"} else 25):
        server |= {"enable_hierarchical_cache": True, "hicache_ratio": rng.one((2.0, 1.0, 0.5)),
                   "hicache_write_policy": rng.one(POLICIES)}  # fmt: skip
    drawn = DrawnServer("sglang", model, server, edges=(1, page, 2 * page, chunk, chunk + 1),
                        most=min(most, tokens // 2))  # fmt: skip
    return drawn._replace(answers=(8, 16, 24, 36)) if tight else drawn


def draw_fields(rng: Rng, server: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the number of accepted draft tokens."""
    return {"draft_else": rng.below(4)} if server.get("speculative_algorithm") else {}


MANUAL = Manual(
    flags=FLAGS, models=("llama", "gemma3", "qwen3_next", "falcon_h1"),
    drawn=("A", "AA", "W8 A", "W6 A", "GA", "GGGA", "W8 A G", "CA", "H"), draw=draw, draw_fields=draw_fields,
    slots=False, pool=True, takes=frozenset({"cache_prompt", "cancel_at", "eog", "drafts", "draft_else"}),
    fields=(
        Field("cache_salt", "", "prefixes are shared only with requests of the same salt", ("x", "y")),
        Field("extra_key", "", "prefixes are shared only with requests of the same key, such as an adapter", ("k",)),
        Field("priority", 0, "a higher priority keeps nodes longer, under the eviction policy `priority`", (0, 2)),
        MAX_TOKENS,
    ),
    route="prefix",
    length="context_len",
    device=DeviceOption(
        "device_memory", "chunked_prefill_size", "less than 20 GiB", kind="page_size",
        kinds="1, or what the model needs; a B200, GB200 or B300 takes 64 (--page-size 64)",
        unless="--attention-backend"),
    assumed=ASSUMED, silent=IGNORED, plenty={"max_total_tokens": 65536, "max_mamba_cache_size": 256},
    headline=("page_size", "max_total_tokens"), tries=TRIES, capacities=CAPACITIES, known=KNOWN, stand_ins=STAND_INS,
    model_options=MODEL_OPTIONS, window_pools=WINDOW_POOLS,
    sizes=SizesOption("real_model", "the sizes of its layers are not known: pools as the options state"),
)  # fmt: skip
