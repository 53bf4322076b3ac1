"""Tensors of the tiny models: names, shapes and the deviation of their random values.

Source: names and shapes from the GGUFs of the recorded models; qwen3next's from llama.cpp src/models/qwen3next.cpp
load_arch_tensors (b11549).
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

from cachesim.engines.shared.vocab import PIECES
from cachesim.tools.live.llama_server.tiny_gguf import Tensor

EMBD, HEADS, KV_HEADS, HEAD, FF, TAPS = 64, 4, 2, 16, 96, 4
"""Width of the model, heads of queries and of K/V, width of a head, of the feed-forward; taps of a convolution."""
SSM_INNER, SSM_STATE, SSM_HEADS = 128, 32, 8
EXPERTS, EXPERT_FF = 2, 48                          # every expert is used, so that no rounding decides which
CONV_TAPS = 3                                       # of the short convolution


class Delta(NamedTuple):
    """Sizes of a gated delta net: heads of values, heads of keys, width of a head."""

    heads: int = 4
    keys: int = 2
    width: int = HEAD

    @property
    def inner(self) -> int:
        """Width of all values."""
        return self.heads * self.width


NARROW = Delta()


class Damping(NamedTuple):
    """What the outputs of the trunk's layers, and of the MTP head's, are multiplied with."""

    trunk: float = 1.0
    head: float = 1.0


DAMPED = Damping(0.04, 0.05)
"""Of a model with an MTP head: both then follow the last token mostly, and agree about half of the time."""


def outer(embedding: float, norm: str) -> list[Tensor]:
    """Embedding, last norm and head of the vocabulary."""
    n_vocab = len(PIECES)
    return [
        Tensor("token_embd.weight", (EMBD, n_vocab), embedding),
        Tensor(norm, (EMBD,), 0.1, 1.0),
        Tensor("output.weight", (EMBD, n_vocab), 0.375),
    ]


def _norm(name: str, width: int = EMBD, mean: float = 1.0) -> Tensor:
    return Tensor(name, (width,), 0.1, mean)


def attention(damping: float, head: int = HEAD, *, gated: bool = False, normed: bool = False) -> Iterator[Tensor]:
    """An attention layer. ``head``: width of a head; ``gated``: the queries bring an output gate; ``normed``: queries
    and keys are normed."""
    yield Tensor("attn_q.weight", (EMBD, HEADS * head * (1 + gated)), 0.225)
    yield Tensor("attn_k.weight", (EMBD, KV_HEADS * head), 0.225)
    yield Tensor("attn_v.weight", (EMBD, KV_HEADS * head), 0.125)
    yield Tensor("attn_output.weight", (HEADS * head, EMBD), 0.25 * damping)
    if normed:
        yield _norm("attn_q_norm.weight", head, 1.7)
        yield _norm("attn_k_norm.weight", head, 1.7)


def delta_net(damping: float, delta: Delta = NARROW, *, joint: bool) -> Iterator[Tensor]:
    """A gated delta net. ``joint``: beta and alpha come from one projection."""
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
    """A Mamba-2 layer of one group."""
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
    """LFM2's short convolution."""
    yield Tensor("shortconv.conv.weight", (CONV_TAPS, EMBD), 0.6)
    yield Tensor("shortconv.in_proj.weight", (EMBD, 3 * EMBD), 0.16)
    yield Tensor("shortconv.out_proj.weight", (EMBD, EMBD), 0.16)


def feed_forward(damping: float = 1.0) -> Iterator[Tensor]:
    """A gated feed-forward."""
    yield Tensor("ffn_gate.weight", (EMBD, FF), 0.15)
    yield Tensor("ffn_up.weight", (EMBD, FF), 0.125)
    yield Tensor("ffn_down.weight", (FF, EMBD), 0.1 * damping)


def experts() -> Iterator[Tensor]:
    """A mixture of experts, with a shared one."""
    yield Tensor("ffn_gate_inp.weight", (EMBD, EXPERTS), 0.15)
    yield Tensor("ffn_gate_exps.weight", (EMBD, EXPERT_FF, EXPERTS), 0.15)
    yield Tensor("ffn_up_exps.weight", (EMBD, EXPERT_FF, EXPERTS), 0.125)
    yield Tensor("ffn_down_exps.weight", (EXPERT_FF, EMBD, EXPERTS), 0.1)
    yield Tensor("ffn_gate_inp_shexp.weight", (EMBD,), 0.15)
    yield Tensor("ffn_gate_shexp.weight", (EMBD, EXPERT_FF), 0.15)
    yield Tensor("ffn_up_shexp.weight", (EMBD, EXPERT_FF), 0.125)
    yield Tensor("ffn_down_shexp.weight", (EXPERT_FF, EMBD), 0.1)


def mtp_head(damping: float) -> Iterator[Tensor]:
    """The layer behind the trunk that drafts: one of gated attention, and what joins embedding and hidden state."""
    yield from attention(damping, gated=True, normed=True)
    yield from feed_forward(damping)
    yield Tensor("nextn.eh_proj.weight", (2 * EMBD, EMBD), 0.005, identity=True)
    yield Tensor("nextn.enorm.weight", (EMBD,), 0.02, 1.0)
    yield Tensor("nextn.hnorm.weight", (EMBD,), 0.02, 1.0)
