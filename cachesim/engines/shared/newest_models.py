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
POOLED: Mapping[str, int] = {"qwen4exp": 2, "glm5-next": 3}
"""Architecture of a hybrid with pooled index rows -> keys in an index row: raw and pooled; raw, gate and pooled."""
NEWEST = (*INDEXED, *POOLED, "minimax-m3", "deepseek4")
CONFIGS: Mapping[str, str] = {
    "deepseek_v32": "deepseek32", "glm_moe_dsa": "glm-dsa", "deepseek_v4": "deepseek4", "hy_v4": "hy_v4",
    "dots3_note": "dots3note", "dots3_note_omni": "dots3note", "qwen4_exp": "qwen4exp", "qwen4_exp_text": "qwen4exp",
    "glm5_next": "glm5-next", "glm5_next_text": "glm5-next",
}
"""``model_type`` of a configuration -> architecture."""
BY_KEY: Mapping[str, str] = {"sparse_attention_config": "minimax-m3"}
"""Key of a configuration that shows the architecture, whose ``model_type`` varies."""
SHARED_SINCE = 1048576
"""Context from which on a glm-dsa GGUF without a list of indexes has those of GLM-5.2."""
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


def config_architecture(config: Mapping[str, Any]) -> str:
    """Return the newest architecture of a config.json, "" for any other."""
    by_key = next((arch for key, arch in BY_KEY.items() if config.get(key)), "")
    return by_key or CONFIGS.get(str(config.get("model_type", "")), "")


def config_kinds(config: Mapping[str, Any], arch: str, n: int) -> list[str]:
    """Return the kinds of the layers of a config.json, before their choice of rows: A, W or G."""
    listed = config.get("layer_types")
    kinds = [str(one) for one in listed[:n]] if isinstance(listed, list) else []
    if arch in POOLED:
        every = config.get("full_attention_interval", 4)
        every = every if type(every) is int and every > 0 else 4
        linear = [one == "linear_attention" for one in kinds] or [(i + 1) % every > 0 for i in range(n)]
        return ["G" if one else "A" for one in linear]
    if arch == "dots3note":
        windows = [one == "sliding_attention" for one in kinds] or [i >= 2 and i % 4 != 1 for i in range(n)]
        return ["W" if one else "A" for one in windows]
    return ["A"] * n


def newest_layers(keys: Numbers, arch: str, layers: Sequence[LayerSize]) -> list[LayerSize]:
    """Return the layers of a newest architecture. ``layers``: the same with their K/V rows, as attention and windows.
    Raise BadInput for numbers that are not simulated."""
    if arch == "deepseek4":
        return _compressed(keys, layers)
    if arch == "minimax-m3":
        return _blocks(keys, layers)
    if arch in POOLED:
        return _pools(keys, layers, POOLED[arch])
    return _indexed(keys, layers, arch)


def newest_heads(keys: Numbers, arch: str, heads: Sequence[LayerSize]) -> list[LayerSize]:
    """Return the layers of a newest architecture's MTP head, as the draft context keeps them. ``heads``: the same with
    their K/V rows, as attention."""
    if arch == "deepseek4":
        return [one._replace(kind="W", value=one.key) for one in heads]
    if arch in POOLED:
        width = POOLED[arch] * keys.get("attention.indexer.key_length")
        return [one._replace(kind="P", index_key=width, numbers=_chosen(keys)) for one in heads]
    return list(heads)


GLM_5_2 = (True, True, *(True, False, False, False) * 19)
"""Layers of GLM-5.2 that own an index."""


def _indexed(keys: Numbers, layers: Sequence[LayerSize], arch: str) -> list[LayerSize]:
    """Return layers with an index row of one key, where the layer has an index of its own. Others use the choice of the
    last such layer and stand as attention."""
    count, width = keys.get("attention.indexer.top_k", 0), keys.get("attention.indexer.key_length", 0)
    own = keys.words("attention.indexer.types")
    if not own and arch == "glm-dsa" and keys.get("context_length", 0) >= SHARED_SINCE:
        own = list(GLM_5_2)
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


def _chosen(keys: Numbers) -> str:
    """Return the number of rows that a token chooses, in whole pools."""
    return str(keys.get("attention.indexer.top_k") // POOL * POOL or POOL)


def _pools(keys: Numbers, layers: Sequence[LayerSize], parts: int) -> list[LayerSize]:
    """Return a hybrid whose attention layers have pooled index rows of so many ``parts``."""
    width, own = keys.get("attention.indexer.key_length"), keys.words("attention.indexer.types")
    own = own or keys.words("attention.compress_ratios") or [keys.get("attention.indexer.kpool", 0)]
    pooled = [one.kind == "A" and bool(own[i % len(own)]) for i, one in enumerate(layers)]
    found = [one._replace(kind="P", index_key=parts * width, numbers=_chosen(keys)) if is_pooled else one
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


NAMES: Mapping[str, str] = {
    "index_topk": "attention.indexer.top_k", "index_head_dim": "attention.indexer.key_length",
    "index_kpool": "attention.indexer.kpool", "indexer_budget": "attention.indexer.top_k",
    "indexer_head_dim": "attention.indexer.key_length", "indexer_compress_ratio": "attention.indexer.kpool",
    "compress_ratios": "attention.compress_ratios", "sliding_window": "attention.sliding_window",
    "first_k_dense_replace": "leading_dense_block_count", "max_position_embeddings": "context_length",
    "ple_conv_kernel_size": "ple.conv_kernel", "ngram_size": "ple.ngram_size", "hc_count": "hyper_connection.count",
    "hidden_size": "embedding_length", "sparse_topk_blocks": "attention.indexer.top_k",
    "sparse_index_dim": "attention.indexer.key_length", "sparse_block_size": "attention.indexer.block_size",
}  # fmt: skip
"""Key of a config.json -> key of a GGUF."""


def config_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a GGUF for those of a config.json."""
    sparse = config.get("sparse_attention_config")
    config = {**config, **(sparse if isinstance(sparse, dict) else {})}
    found = {new: config[old] for old, new in NAMES.items() if config.get(old) is not None}
    if isinstance(types := config.get("indexer_types"), list) and types:
        found["attention.indexer.types"] = [one in ("full", 1, True) for one in types]
    if isinstance(ple := config.get("ple_layer_ids"), list):
        found["ple.layers"] = [one - 1 for one in ple if type(one) is int]           # they count from 1
    if isinstance(chosen := config.get("sparse_attention_freq"), list):
        found["leading_dense_block_count"] = next((i for i, one in enumerate(chosen) if one), len(chosen))
    return found
