"""Keys and tensors of tiny models with one of the newest memories: index rows, pooled index rows, compressed rows.

Sizes are those of the recorded models, so that rows and rings have the declared bytes. Feed-forwards are dense where
the architecture allows it, and otherwise use every expert, so that rounding cannot change the selection.
Source: GGUFs of the recorded models; llama.cpp src/models/{qwen4exp,deepseek32,dots3note,deepseek4}.cpp
load_arch_hparams and load_arch_tensors (b11549).
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from cachesim.engines.shared.vocab import PIECES
from cachesim.model import Layer
from cachesim.tools.live.llama_server import gguf_tensors as t
from cachesim.tools.live.llama_server.tiny_gguf import Tensor, Uint64s

NEWEST = (
    ("qwen4exp", "GP", "GP"),
    ("deepseek32", "I", "I"),
    ("dots3note", "IW", "IW"),
    ("deepseek4", "D", "DW"),
)
"""Architecture, kinds of layers that it requires, and kinds that it allows."""
STREAMS = 4                                         # of the hyper-connections
WIDE, LOW_RANK = STREAMS * t.EMBD, 16               # width of all streams, and of the projection between them
POOL = 4                                            # tokens of a pooled index row
LORA, ROPE, NOPE = 32, 16, 16                       # widths of latent rows, and of the parts of a query head
INDEX_HEADS, INDEX_WIDTH, POOL_WIDTH = 8, 64, 16
GRAM, GRAM_TAPS, GRAM_WIDTH = 3, 3, 16              # tokens of an n-gram, convolution taps, width of its embedding
TABLES = (61, 67, 71, 73)                           # rows of the embeddings, by hash
COMPRESSED, GROUPS = 4, 2                           # tokens of a compressed row; groups of the output projection
MIXED = (2 + STREAMS) * STREAMS


def newest_keys(arch: str, layers: Sequence[Layer]) -> dict[str, Any]:
    """Return the keys of an architecture with one of the newest memories; some replace a key of every model."""
    keys: dict[str, Any] = {
        "attention.indexer.head_count": INDEX_HEADS,
        "attention.indexer.key_length": POOL_WIDTH if arch == "qwen4exp" else INDEX_WIDTH,
        "attention.indexer.top_k": max(layer.count for layer in layers),
        "expert_count": t.EXPERTS,
        "expert_used_count": t.EXPERTS,
        "expert_feed_forward_length": t.EXPERT_FF,
    }
    if arch == "qwen4exp":
        return {**keys, **_pooled_keys(layers)}
    keys |= {"attention.head_count_kv": 1, "attention.q_lora_rank": LORA, "expert_shared_count": 1}
    keys["rope.dimension_count"] = ROPE
    return {**keys, **(_compressed_keys(layers) if arch == "deepseek4" else _latent_keys(arch, layers))}


def _pooled_keys(layers: Sequence[Layer]) -> dict[str, Any]:
    return {
        "expert_shared_feed_forward_length": t.EXPERT_FF,
        "rope.dimension_sections": [4, 2, 2, 0],
        "hyper_connection.count": STREAMS,
        "hyper_connection.low_rank": LOW_RANK,
        "attention.compress_ratios": [POOL if layer.count else 0 for layer in layers],
        "embedding_length_per_layer_input": GRAM_WIDTH,
        "ple.layers": [next(i for i, layer in enumerate(layers) if layer.kind == "G")],
        "ple.ngram_size": GRAM,
        "ple.heads_per_ngram": len(TABLES) // (GRAM - 1),
        "ple.conv_kernel": GRAM_TAPS,
        "ple.eos_token_id": 96,
        "ple.layer_multipliers": Uint64s((1, 7919, 104729)),
        "ple.head_offsets": Uint64s(tuple(sum(TABLES[:place]) for place in range(len(TABLES)))),
        "ple.head_vocab_sizes": Uint64s(TABLES),
    }


def _compressed_keys(layers: Sequence[Layer]) -> dict[str, Any]:
    return {
        "attention.key_length": LORA,
        "attention.value_length": LORA,
        "attention.output_group_count": GROUPS,
        "attention.output_lora_rank": LOW_RANK,
        "attention.compress_rope_freq_base": 40000.0,
        "attention.compress_ratios": [layer.ratio for layer in layers],
        "hyper_connection.count": STREAMS,
        "hyper_connection.sinkhorn_iterations": 3,
        "hyper_connection.epsilon": 1e-6,
        "hash_layer_count": 0,
        "swiglu_clamp_exp": 10.0,
        "expert_gating_func": 4,
        "expert_weights_scale": 1.0,
        "expert_weights_norm": True,
    }


def _latent_keys(arch: str, layers: Sequence[Layer]) -> dict[str, Any]:
    latent = {"kv_lora_rank": LORA, "key_length_mla": ROPE + NOPE, "value_length_mla": NOPE,
              "key_length": LORA + ROPE, "value_length": LORA}  # fmt: skip
    keys: dict[str, Any] = {f"attention.{name}": value for name, value in latent.items()}
    keys |= {"leading_dense_block_count": len(layers), "expert_gating_func": 2}
    if arch == "dots3note":
        windows = [int(layer.window > 0) for layer in layers]
        keys |= {f"attention.{name}_swa": value for name, value in latent.items()}
        keys |= {"rope.dimension_count_swa": ROPE, "rope.freq_base_swa": 10000.0}
        keys["attention.sliding_window_pattern"] = windows
        keys["attention.indexer.types"] = [1 - window for window in windows]
    return keys


def newest_outer(arch: str) -> list[Tensor]:
    """Return the tensors outside of the layers."""
    if arch == "qwen4exp":
        shape = (t.EMBD, len(PIECES))
        grams = Tensor("per_layer_token_embd.weight", (GRAM_WIDTH, sum(TABLES)), 1.0)
        own = [Tensor("token_embd.weight", shape, 1.0), Tensor("output.weight", shape, 0.75)]
        return [*own, grams, *_mixer("output_hc")]
    outer = t.outer(1.0, "output_norm.weight")
    if arch == "deepseek4":
        outer.append(Tensor("output_hc_fn.weight", (WIDE, STREAMS), 0.03))
        outer.append(Tensor("output_hc_base.weight", (STREAMS,), 0.2))
        outer.append(Tensor("output_hc_scale.weight", (1,), 0.0, 1.0))
    return outer


def newest_layer(arch: str, layer: Layer) -> Iterator[Tensor]:
    """Yield the tensors of a layer of an architecture with one of the newest memories."""
    if arch == "qwen4exp":
        yield from _pooled_layer(layer)
    elif arch == "deepseek4":
        yield from _compressed_layer(layer)
    else:
        yield from _latent_layer(arch, layer)


def _norm(name: str, width: int, mean: float = 1.0) -> Tensor:
    return Tensor(name, (width,), 0.1, mean)


def _mixer(name: str) -> Iterator[Tensor]:
    """Yield the mixer of the streams before a part of a layer, or at the end."""
    yield _norm(f"{name}_norm.weight", WIDE)
    yield Tensor(f"{name}_down.weight", (WIDE, LOW_RANK), 0.0625)
    yield Tensor(f"{name}_up.weight", (LOW_RANK, WIDE), 0.25)


def _pooled_layer(layer: Layer) -> Iterator[Tensor]:
    for name in ("hc_attn", "hc_ffn"):
        yield from _mixer(name)
        yield Tensor(f"{name}_inject.weight", (WIDE, STREAMS), 0.0625)
    if layer.kind == "G":
        yield from t.delta_net(1.0, joint=False)
    else:
        yield from t.attention(1.0, gated=True, normed=True)
        yield Tensor("indexer.q_proj.weight", (t.EMBD, INDEX_HEADS * POOL_WIDTH), 0.225)
        yield Tensor("indexer.k_proj.weight", (t.EMBD, POOL_WIDTH), 0.225)
        yield _norm("indexer.q_norm.weight", POOL_WIDTH, 1.7)
        yield _norm("indexer.k_norm.weight", POOL_WIDTH, 1.7)
    yield from t.experts()


def with_n_grams(layer: Sequence[Tensor]) -> list[Tensor]:
    """Return the tensors of a layer with those of n-gram embeddings, which a model with pooled index rows has once."""
    own = [Tensor(f"ple_norm_{name}.weight", (WIDE,), 0.1, 1.0) for name in ("key", "query", "conv")]
    own.append(Tensor("ple_key.weight", (t.EMBD, WIDE), 0.125))
    own.append(Tensor("ple_value.weight", (t.EMBD, t.EMBD), 0.125))
    own.append(Tensor("ple_conv1d.weight", (GRAM_TAPS, WIDE), 0.5))
    return [*layer, *own]


def _latent_layer(arch: str, layer: Layer) -> Iterator[Tensor]:
    yield _norm("attn_norm.weight", t.EMBD)
    yield Tensor("attn_q_a.weight", (t.EMBD, LORA), 0.1875)
    yield _norm("attn_q_a_norm.weight", LORA)
    yield Tensor("attn_q_b.weight", (LORA, t.HEADS * (ROPE + NOPE)), 0.3125)
    yield Tensor("attn_kv_a_mqa.weight", (t.EMBD, LORA + ROPE), 0.225)
    yield _norm("attn_kv_a_norm.weight", LORA)
    yield Tensor("attn_k_b.weight", (NOPE, LORA, t.HEADS), 0.3125)
    yield Tensor("attn_v_b.weight", (LORA, NOPE, t.HEADS), 0.1775)
    yield Tensor("attn_output.weight", (t.HEADS * NOPE, t.EMBD), 0.125)
    if arch == "dots3note":
        yield _norm("attn_k_norm.weight", ROPE, 1.5)
        yield Tensor("attn_gate.weight", (t.EMBD, t.HEADS), 0.125)
    if layer.count:
        yield _norm("indexer.k_norm.weight", INDEX_WIDTH, 1.5)
        yield Tensor("indexer.k_norm.bias", (INDEX_WIDTH,), 0.05)
        yield Tensor("indexer.proj.weight", (t.EMBD, INDEX_HEADS), 0.125)
        yield Tensor("indexer.attn_k.weight", (t.EMBD, INDEX_WIDTH), 0.225)
        yield Tensor("indexer.attn_q_b.weight", (LORA, INDEX_HEADS * INDEX_WIDTH), 0.3125)
    yield _norm("ffn_norm.weight", t.EMBD)
    yield from t.feed_forward(1.0)


def _compressed_layer(layer: Layer) -> Iterator[Tensor]:
    yield _norm("attn_norm.weight", t.EMBD)
    yield Tensor("attn_sinks.weight", (t.HEADS,), 0.1, -2.0)
    yield Tensor("attn_q_a.weight", (t.EMBD, LORA), 0.1875)
    yield _norm("attn_q_a_norm.weight", LORA)
    yield Tensor("attn_q_b.weight", (LORA, t.HEADS * LORA), 0.265)
    yield Tensor("attn_kv.weight", (t.EMBD, LORA), 0.1875)
    yield _norm("attn_kv_a_norm.weight", LORA, 1.6)
    yield Tensor("attn_output_a.weight", (t.HEADS * LORA // GROUPS, LOW_RANK * GROUPS), 0.1775)
    yield Tensor("attn_output_b.weight", (LOW_RANK * GROUPS, t.EMBD), 0.25)
    for name in ("hc_attn", "hc_ffn"):
        yield Tensor(f"{name}_fn.weight", (WIDE, MIXED), 0.03)
        yield Tensor(f"{name}_base.weight", (MIXED,), 0.75, 0.3)
        yield Tensor(f"{name}_scale.weight", (3,), 0.0, 1.0)
    if layer.ratio:
        yield from _compressor("attn", LORA, 1.6)
        yield Tensor("indexer.proj.weight", (t.EMBD, INDEX_HEADS), 0.25)
        yield Tensor("indexer.attn_q_b.weight", (LORA, INDEX_HEADS * INDEX_WIDTH), 0.3125)
        yield from _compressor("indexer", INDEX_WIDTH, 1.5)
    yield _norm("ffn_norm.weight", t.EMBD)
    yield Tensor("exp_probs_b.bias", (t.EXPERTS,), 0.04)
    yield from t.experts(gated=False)


def _compressor(name: str, width: int, mean: float) -> Iterator[Tensor]:
    """Yield the tensors that make a compressed row of two halves, which overlap."""
    yield Tensor(f"{name}_compressor_kv.weight", (t.EMBD, 2 * width), 0.1875)
    yield Tensor(f"{name}_compressor_gate.weight", (t.EMBD, 2 * width), 0.1875)
    yield Tensor(f"{name}_compressor_ape.weight", (2 * width, COMPRESSED), 0.3)
    yield _norm(f"{name}_compressor_norm.weight", width, mean)
