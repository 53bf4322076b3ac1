"""Layers of the newest architectures of llama.cpp, from the keys of a GGUF or a config.json.

Source: llama.cpp src/models/{deepseek4,deepseek32,glm-dsa,hy-v4,dots3note,minimax-m3,qwen4exp}.cpp,
src/llama-model.cpp create_memory, conversion/{deepseek,glm,hy_v4,dots3,minimax,qwen4exp}.py (b11549).
"""

from __future__ import annotations

from typing import Any, Mapping, Protocol, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.shared.size_formulas import LayerSize, attention

INDEXED = ("deepseek32", "glm-dsa", "hy_v4", "dots3note")
"""Architectures with latent rows and index rows."""
NEWEST = (*INDEXED, "minimax-m3", "qwen4exp", "deepseek4")
CONFIGS: Mapping[str, str] = {
    "deepseek_v32": "deepseek32", "glm_moe_dsa": "glm-dsa", "deepseek_v4": "deepseek4", "hunyuan_v4": "hy_v4",
}
"""``model_type`` of a configuration -> architecture."""
MEMORIES: Mapping[str, str] = {
    "dsv4": "W{0} D4.{0} D128.{0}", "dsa": "I2048", "dsa_iswa": "W{0} I2048", "msa": "A B128", "hybrid_idx": "G P2048",
}
"""Class of memory, as the lines of a log name it (``llama_kv_cache_dsa``) -> layers that have it, for a window."""
BLOCK, POOL = 16, 4           # rows of a block and of a pool that are simulated


class Numbers(Protocol):
    """Sizes by key."""

    keys: Mapping[str, Any]
    file: str

    def get(self, name: str, default: int | None = None) -> int:
        """Return the number of this name."""

    def words(self, name: str) -> list[Any]:
        """Return the list of this name, [] if it is missing."""


def newest_layers(keys: Numbers, arch: str, layers: Sequence[LayerSize]) -> list[LayerSize]:
    """Return the layers of a newest architecture. ``layers``: the same with their K/V rows, as attention and windows.
    Raise BadInput for numbers that are not simulated."""
    if arch == "deepseek4":
        return _compressed(keys, layers)
    if arch == "minimax-m3":
        return _blocks(keys, layers)
    if arch == "qwen4exp":
        return _pools(keys, layers)
    return _indexed(keys, layers)


def _indexed(keys: Numbers, layers: Sequence[LayerSize]) -> list[LayerSize]:
    """Return layers with an index row of one key, where the layer has an index of its own. Others use the choice of the
    last such layer and stand as attention."""
    count, width = keys.get("attention.indexer.top_k", 0), keys.get("attention.indexer.key_length", 0)
    own = keys.words("attention.indexer.types")
    if not count:
        return [*layers]
    return [one._replace(kind="I", index_key=width, numbers=str(count))
            if one.kind == "A" and (not own or own[i % len(own)]) else one for i, one in enumerate(layers)]  # fmt: skip


def _blocks(keys: Numbers, layers: Sequence[LayerSize]) -> list[LayerSize]:
    """Return layers that choose blocks, behind the dense ones. The index cache has V rows, too."""
    size, count = keys.get("attention.indexer.block_size", BLOCK), keys.get("attention.indexer.top_k")
    dense, width = keys.get("leading_dense_block_count", 0), keys.get("attention.indexer.key_length")
    value = keys.get("attention.value_length", 0) or layers[0].value // max(1, layers[0].kv_heads)
    blocks = str(max(1, count * size // BLOCK))          # as many rows in blocks of the simulated size
    return [one if i < dense else one._replace(kind="B", index_key=width, index_value=value, numbers=blocks)
            for i, one in enumerate(layers)]  # fmt: skip


def _pools(keys: Numbers, layers: Sequence[LayerSize]) -> list[LayerSize]:
    """Return a hybrid whose attention layers have pooled index rows: a raw key beside the pooled one."""
    ratios, width = keys.words("attention.compress_ratios"), keys.get("attention.indexer.key_length")
    count = keys.get("attention.indexer.top_k") // POOL * POOL or POOL
    pooled = [one.kind == "A" and bool(ratios) and bool(ratios[i % len(ratios)]) for i, one in enumerate(layers)]
    found = [one._replace(kind="P", index_key=2 * width, numbers=str(count)) if is_pooled else one
             for one, is_pooled in zip(layers, pooled, strict=True)]  # fmt: skip
    history = (keys.get("ple.conv_kernel", 1) - 1) * keys.get("ple.ngram_size", 0)
    history *= keys.get("hyper_connection.count", 1) * keys.get("embedding_length", 0)
    first = keys.words("ple.layers")[:1]
    return [one._replace(history=history) if [i] == first else one for i, one in enumerate(found)]


def _compressed(keys: Numbers, layers: Sequence[LayerSize]) -> list[LayerSize]:
    """Return window layers and those that also have compressed rows. K is also V."""
    ratios, window = keys.words("attention.compress_ratios"), keys.get("attention.sliding_window")
    count, width = keys.get("attention.indexer.top_k", 0), keys.get("attention.indexer.key_length", 0)
    if len(ratios) < len(layers):
        raise BadInput("key attention.compress_ratios is shorter than the layers", file=keys.file)
    found = []
    for ratio, one in zip(ratios, layers, strict=False):
        rows = attention(1, one.key, 0, "D" if ratio else "W")
        if ratio:
            chosen = f".{count}" if ratio == POOL and count else ""
            index = width if ratio == POOL else 0
            rows = rows._replace(numbers=f"{ratio}.{window}{chosen}", index_key=index, ratio=ratio)
        found.append(rows)
    return found


def config_keys(config: Mapping[str, Any], arch: str) -> dict[str, Any]:
    """Return the keys of a GGUF for those of a config.json."""
    names = {"index_topk": "attention.indexer.top_k", "index_head_dim": "attention.indexer.key_length",
             "compress_ratios": "attention.compress_ratios", "sliding_window": "attention.sliding_window",
             "first_k_dense_replace": "leading_dense_block_count"}  # fmt: skip
    found = {new: config[old] for old, new in names.items() if config.get(old) is not None}
    if types := config.get("indexer_types"):
        found["attention.indexer.types"] = [one in ("full", 1, True) for one in types]
    return found
