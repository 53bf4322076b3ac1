"""Tensors of the tiny models: names, shapes and the deviation of their random values.

Source: names and shapes from the GGUFs of the recorded models; those of qwen3next from llama.cpp
src/models/qwen3next.cpp load_arch_tensors (b11549).
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

from cachesim.engines.shared.vocab import PIECES
from cachesim.tools.live.llama_server.tiny_gguf import Tensor

EMBD, HEADS, KV_HEADS, HEAD, FF, TAPS = 64, 4, 2, 16, 96, 4
"""Width of the model, number of query and K/V heads, width of a head and of the feed-forward; convolution taps."""
SSM_INNER, SSM_STATE, SSM_HEADS = 128, 32, 8
EXPERTS, EXPERT_FF = 2, 48                          # every expert is used, so rounding cannot change the selection
CONV_TAPS = 3                                       # taps of the short convolution


class DeltaNetSizes(NamedTuple):
    """Sizes of a gated delta net: number of value heads and of key heads, width of a head."""

    heads: int = 4
    keys: int = 2
    width: int = HEAD

    @property
    def inner(self) -> int:
        """Width of all values."""
        return self.heads * self.width


NARROW = DeltaNetSizes()


class OutputDamping(NamedTuple):
    """Factors for the outputs of the trunk's layers and of the MTP head's layers."""

    trunk: float = 1.0
    head: float = 1.0


DAMPED = OutputDamping(0.04, 0.05)
"""Factors for a model with an MTP head: both outputs then follow mostly the last token, and agree about half of the
time."""


def outer(embedding: float, norm: str) -> list[Tensor]:
    """Return embedding, final norm and output projection."""
    n_vocab = len(PIECES)
    return [
        Tensor("token_embd.weight", (EMBD, n_vocab), embedding),
        Tensor(norm, (EMBD,), 0.1, 1.0),
        Tensor("output.weight", (EMBD, n_vocab), 0.375),
    ]


def _norm(name: str, width: int, mean: float = 1.0) -> Tensor:
    return Tensor(name, (width,), 0.1, mean)


def attention(
    damping: float, head: int = HEAD, *, gated: bool = False, normed: bool = False, biased: bool = False
) -> Iterator[Tensor]:
    """Yield an attention layer. ``head``: width of a head; ``gated``: queries include an output gate; ``normed``:
    queries and keys are normalised; ``biased``: queries, keys and values have a bias."""
    yield Tensor("attn_q.weight", (EMBD, HEADS * head * (1 + gated)), 0.225)
    yield Tensor("attn_k.weight", (EMBD, KV_HEADS * head), 0.225)
    yield Tensor("attn_v.weight", (EMBD, KV_HEADS * head), 0.125)
    yield Tensor("attn_output.weight", (HEADS * head, EMBD), 0.25 * damping)
    if normed:
        yield _norm("attn_q_norm.weight", head, 1.7)
        yield _norm("attn_k_norm.weight", head, 1.7)
    if biased:
        for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            yield Tensor(f"attn_{name}.bias", (heads * head,), 0.1)


def delta_net(damping: float, delta: DeltaNetSizes = NARROW, *, joint: bool) -> Iterator[Tensor]:
    """Yield a gated delta net. ``joint``: beta and alpha come from a single projection."""
    inner, conv = delta.inner, (2 * delta.keys + delta.heads) * delta.width
    yield Tensor("attn_qkv.weight", (EMBD, conv), 0.15)
    yield Tensor("attn_gate.weight", (EMBD, inner), 0.15)
    yield Tensor("ssm_conv1d.weight", (TAPS, conv), 0.6)
    yield Tensor("ssm_dt.bias", (delta.heads,), 0.2, -1.0)
    yield Tensor("ssm_a", (delta.heads,), decay=0.3)
    if joint:
        yield Tensor("ssm_ba.weight", (EMBD, 2 * delta.heads), 0.125)
    else:
        yield Tensor("ssm_beta.weight", (EMBD, delta.heads), 0.125)
        yield Tensor("ssm_alpha.weight", (EMBD, delta.heads), 0.125)
    yield _norm("ssm_norm.weight", delta.width)
    yield Tensor("ssm_out.weight", (inner, EMBD), 0.1875 * damping)


def ssm() -> Iterator[Tensor]:
    """Yield a Mamba-2 layer with a single group."""
    conv = SSM_INNER + 2 * SSM_STATE
    yield Tensor("ssm_in.weight", (EMBD, SSM_INNER + conv + SSM_HEADS), 0.15)
    yield Tensor("ssm_conv1d.weight", (TAPS, conv), 0.6)
    yield Tensor("ssm_conv1d.bias", (conv,), 0.05)
    yield Tensor("ssm_dt.bias", (SSM_HEADS,), 0.2, -1.0)
    yield Tensor("ssm_a", (1, SSM_HEADS), decay=0.6)
    yield Tensor("ssm_d", (1, SSM_HEADS), 0.1, 1.0)
    yield Tensor("ssm_norm.weight", (SSM_INNER, 1), 0.1, 1.0)
    yield Tensor("ssm_out.weight", (SSM_INNER, EMBD), 0.13)


def short_convolution() -> Iterator[Tensor]:
    """Yield the short convolution of LFM2."""
    yield Tensor("shortconv.conv.weight", (CONV_TAPS, EMBD), 0.6)
    yield Tensor("shortconv.in_proj.weight", (EMBD, 3 * EMBD), 0.16)
    yield Tensor("shortconv.out_proj.weight", (EMBD, EMBD), 0.16)


def feed_forward(damping: float) -> Iterator[Tensor]:
    """Yield a gated feed-forward."""
    yield Tensor("ffn_gate.weight", (EMBD, FF), 0.15)
    yield Tensor("ffn_up.weight", (EMBD, FF), 0.125)
    yield Tensor("ffn_down.weight", (FF, EMBD), 0.1 * damping)


def experts(gated: bool = True) -> Iterator[Tensor]:
    """Yield a mixture of experts with a shared expert; ``gated``: the shared expert has a gate."""
    yield Tensor("ffn_gate_inp.weight", (EMBD, EXPERTS), 0.15)
    yield Tensor("ffn_gate_exps.weight", (EMBD, EXPERT_FF, EXPERTS), 0.15)
    yield Tensor("ffn_up_exps.weight", (EMBD, EXPERT_FF, EXPERTS), 0.125)
    yield Tensor("ffn_down_exps.weight", (EXPERT_FF, EMBD, EXPERTS), 0.1)
    if gated:
        yield Tensor("ffn_gate_inp_shexp.weight", (EMBD,), 0.15)
    yield Tensor("ffn_gate_shexp.weight", (EMBD, EXPERT_FF), 0.15)
    yield Tensor("ffn_up_shexp.weight", (EMBD, EXPERT_FF), 0.125)
    yield Tensor("ffn_down_shexp.weight", (EXPERT_FF, EMBD), 0.1)


def mtp_head(damping: float) -> Iterator[Tensor]:
    """Yield the drafting layer after the trunk: gated attention, and the projection of embedding and hidden state."""
    yield from attention(damping, gated=True, normed=True)
    yield from feed_forward(damping)
    yield Tensor("nextn.eh_proj.weight", (2 * EMBD, EMBD), 0.005, is_identity=True)
    yield Tensor("nextn.enorm.weight", (EMBD,), 0.02, 1.0)
    yield Tensor("nextn.hnorm.weight", (EMBD,), 0.02, 1.0)
