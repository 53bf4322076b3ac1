"""Which keys does a tiny GGUF have? Sizes, the pattern of its layers, and the vocabulary of the recorded models.

Source: GGUFs of the recorded models; llama.cpp src/models/*.cpp load_arch_hparams (b11549).
"""

from __future__ import annotations

from typing import Any

from cachesim.engines.shared.vocab import PIECES, SPECIAL
from cachesim.model import Spec
from cachesim.model.spec import TRAINED_ON
from cachesim.tools.live.llama_server import gguf_tensors as t

TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- set c = message['content'] if message['content'] is string else '' -%}"
    "{%- if message['role'] == 'assistant' and '</think>' in c and not loop.last -%}"
    "{%- set c = c.split('</think>')[-1] -%}{%- endif -%}"
    "{{- '<|im_start|>' + message['role'] + '\n' + c + '<|im_end|>\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"
)
"""The chat template of the recorded models: an earlier answer loses its thinking."""


def sizes(arch: str, spec: Spec, head: int) -> dict[str, Any]:
    """Keys that every architecture reads; ``head``: width of an attention head."""
    attends = arch != "mamba2"
    return {
        "context_length": TRAINED_ON,
        "embedding_length": t.EMBD,
        "block_count": len(spec.layers) + spec.mtp,
        "feed_forward_length": t.FF * attends,
        "attention.head_count": t.HEADS * attends,
        "attention.head_count_kv": t.KV_HEADS * attends,
        "attention.key_length": head * attends,
        "attention.value_length": head * attends,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.dimension_count": head * attends,
        "rope.freq_base": 10000.0,
        "vocab_size": len(PIECES),
    }


def special(arch: str, spec: Spec, delta: t.Delta = t.NARROW) -> dict[str, Any]:
    """Keys of this architecture."""
    layers, out = spec.layers, dict[str, Any]()
    states = [not layer.part for layer in layers]
    if arch in ("mamba2", "granitehybrid", "falcon-h1"):
        out |= _ssm(t.TAPS, t.SSM_INNER, t.SSM_STATE, t.SSM_HEADS, 1)
    if arch in ("granitehybrid", "lfm2"):
        out["attention.head_count_kv"] = [0 if state else t.KV_HEADS for state in states]
    if arch == "lfm2":
        out["shortconv.l_cache"] = t.CONV_TAPS
    if arch in ("qwen3next", "qwen35"):
        out |= _ssm(t.TAPS, delta.inner, delta.width, delta.heads, delta.keys)
        out |= _pattern("full_attention_interval", "attention.recurrent_layers", states, spec.mtp)
    if arch == "qwen3next":
        out |= {"expert_count": t.EXPERTS, "expert_used_count": t.EXPERTS}
        out |= {"expert_feed_forward_length": t.EXPERT_FF, "expert_shared_feed_forward_length": t.EXPERT_FF}
    if arch == "qwen35":
        out["rope.dimension_sections"] = [4, 2, 2, 0]
    if spec.mtp:
        out["nextn_predict_layers"] = 1
    windows = [layer.window > 0 for layer in layers]
    if any(windows):
        out["attention.sliding_window"] = max(layer.window for layer in layers)
    if arch == "gemma3":
        pattern = "attention.sliding_window_pattern"
        out |= {pattern: 0} if all(windows) else _pattern(pattern, pattern, windows)
    return out


def _ssm(taps: int, inner: int, state: int, heads: int, groups: int) -> dict[str, Any]:
    return {
        "ssm.conv_kernel": taps, "ssm.inner_size": inner, "ssm.state_size": state, "ssm.time_step_rank": heads,
        "ssm.group_count": groups,
    }


def _pattern(period: str, each: str, marked: list[bool], more: bool = False) -> dict[str, Any]:
    """Which layers are of a kind: as a period that ends in one that is not, which every build reads; else layer by
    layer. Before b11063 gemma3 reads over the second form and takes a period of 6: another model."""
    n = marked.index(False) + 1
    if all(mark == ((i + 1) % n != 0) for i, mark in enumerate(marked)):
        return {period: n}
    return {each: [int(mark) for mark in marked] + [0] * more}


def vocabulary() -> dict[str, Any]:
    """The vocabulary of the recorded models, and their chat template."""
    byte = {" ": "Ġ", "\n": "Ċ"}
    marks = {token for token, text in SPECIAL.items() if text.startswith("<|")}
    plain = min(SPECIAL)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [byte.get(piece, piece) for piece in PIECES],
        "tokenizer.ggml.token_type": [3 if i in marks else 1 if i < plain else 4 for i in range(len(PIECES))],
        "tokenizer.ggml.merges": ["Ġ Ġ"],
        "tokenizer.ggml.eos_token_id": 96,
        "tokenizer.ggml.eot_token_id": 98,
        "tokenizer.ggml.padding_token_id": 96,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }
