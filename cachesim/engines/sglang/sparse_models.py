"""Models that choose or compress rows: the pages that the server sets for them, and their pools.

Chosen rows lie in the pool of full attention. Compressed rows (DeepSeek V4) have pages of full attention; the windows
and the states of the compressors, which read no more than a window, have pages of the window pool. Source: SGLang
python/sglang/srt/arg_groups/model_overrides/deepseek_v4.py, deepseek_v2.py, minimax_m3.py,
mem_cache/deepseek_v4_memory_pool.py, mem_cache/kv_cache_builder.py (0.5.20 to 0.5.23).
"""

from __future__ import annotations

from typing import Mapping

from cachesim.base.errors import BadInput, NotInBuild, quoted
from cachesim.engines.capabilities import Option
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.model_sizes import real_model
from cachesim.model.layer_kinds import KINDS

CHOOSING = ("deepseek_v32", "glm_moe_dsa")      # architectures of layers that choose rows, as far as they were read
FORCED_PAGES: Mapping[str, int] = {"D": 256, "I": 64}
"""Kind of layers -> tokens of a page that the server sets whatever --page-size says."""
V4: Mapping[str, Option] = {"page_size": 256, "swa_full_tokens_ratio": 0.1}
DSA: Mapping[str, Option] = {"page_size": 64}
M3: Mapping[str, Option] = {"page_size": 128}
MODEL_OPTIONS: Mapping[str, Mapping[str, Option]] = {
    "deepseek-v4": V4, "deepseek-v4-pro": V4, "deepseek-v3.2": DSA, "glm-5": DSA, "glm-5.2": DSA, "minimax-m3": M3,
}  # fmt: skip
"""Name of a model -> options that the server sets if the command line does not, on devices of NVIDIA."""


def served_model(word: str) -> RealModel:
    """Return the layers of a real model. Raise BadInput for layers whose pools were not read in the server."""
    model = real_model(word)
    for layer in model.layers:
        is_read = layer.kind in ("D", "B") or (layer.kind == "I" and model.arch in CHOOSING)
        if layer.kind and KINDS[layer.kind].newest and not is_read:
            raise BadInput(f"sglang: model {quoted(word)} is not simulated: its layers have {KINDS[layer.kind].words}")
    return model


def forced_page(model: RealModel) -> int:
    """Return the tokens of a page that the server sets for a model, 0 = as the flag says."""
    return max((FORCED_PAGES.get(layer.kind, 0) for layer in model.layers), default=0)


def check_derived(knows_compressed: bool, model: RealModel) -> None:
    """Raise NotInBuild for a model whose pools are not derived from the memory of the device: one that compresses rows,
    in a release whose sizes were not read, and one in which layers use the choice of others, whose indexes the releases
    store differently."""
    if model.compressed and not knows_compressed:
        raise NotInBuild("sglang: pools of layers that compress rows are not derived", hint="--max-total-tokens N")
    chooses = {layer.kind for layer in model.full}
    if model.indexed and not (chooses == {"I"} and model.arch in CHOOSING) and "B" not in chooses:
        raise NotInBuild("sglang: pools of layers that use the choice of others are not derived",
                         hint="--max-total-tokens N")  # fmt: skip
