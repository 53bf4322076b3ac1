"""Tensors of the tiny models: their shapes, and the scale of their numbers."""

from __future__ import annotations

import pytest

from cachesim.tools.live.llama_server.gguf_tensors import (
    EMBD,
    FF,
    DeltaNetSizes,
    attention,
    delta_net,
    experts,
    feed_forward,
    mtp_head,
    outer,
    short_convolution,
    ssm,
)


def shapes(tensors, std=False):
    """Return the shapes of tensors by their names without ".weight"; ``std``: the deviations."""
    return {tensor.name.removesuffix(".weight"): tensor.std if std else tensor.shape for tensor in tensors}


def means(tensors):
    """Return (mean, decay) of the tensors whose numbers are not around 0."""
    return {tensor.name.removesuffix(".weight"): (tensor.mean, tensor.decay) for tensor in tensors
            if tensor.mean or tensor.decay}  # fmt: skip


def test_the_outer_tensors_have_the_vocabulary() -> None:
    found = outer(0.5, "norm.weight")
    assert shapes(found) == {"token_embd": (64, 320), "norm": (64,), "output": (64, 320)}
    assert shapes(found, std=True) == {"token_embd": 0.5, "norm": 0.1, "output": 0.375}
    assert means(found) == {"norm": (1.0, 0.0)}


def test_attention_has_four_heads_of_queries_and_two_of_keys_and_values() -> None:
    plain = [*attention(0.5)]
    assert shapes(plain) == {"attn_q": (64, 64), "attn_k": (64, 32), "attn_v": (64, 32), "attn_output": (64, 64)}
    assert shapes(plain, std=True) == {"attn_q": 0.225, "attn_k": 0.225, "attn_v": 0.125, "attn_output": 0.125}
    full = [*attention(1.0, 8, gated=True, normed=True, biased=True)]
    assert shapes(full) == {
        "attn_q": (64, 64), "attn_k": (64, 16), "attn_v": (64, 16), "attn_output": (32, 64), "attn_q_norm": (8,),
        "attn_k_norm": (8,), "attn_q.bias": (32,), "attn_k.bias": (16,), "attn_v.bias": (16,),
    }  # fmt: skip
    assert means(full) == {"attn_q_norm": (1.7, 0.0), "attn_k_norm": (1.7, 0.0)} and means(plain) == {}
    assert {name: std for name, std in shapes(full, std=True).items() if std == 0.1} == dict.fromkeys(
        ("attn_q_norm", "attn_k_norm", "attn_q.bias", "attn_k.bias", "attn_v.bias"), 0.1)  # fmt: skip


def test_a_delta_net_has_one_projection_of_beta_and_alpha_or_two() -> None:
    joint = [*delta_net(0.5, joint=True)]
    assert shapes(joint) == {
        "attn_qkv": (64, 128), "attn_gate": (64, 64), "ssm_conv1d": (4, 128), "ssm_dt.bias": (4,), "ssm_a": (4,),
        "ssm_ba": (64, 8), "ssm_norm": (16,), "ssm_out": (64, 64),
    }  # fmt: skip
    assert shapes(joint, std=True) == {
        "attn_qkv": 0.15, "attn_gate": 0.15, "ssm_conv1d": 0.6, "ssm_dt.bias": 0.2, "ssm_a": 0.0, "ssm_ba": 0.125,
        "ssm_norm": 0.1, "ssm_out": 0.09375,
    }  # fmt: skip
    wide = [*delta_net(1.0, DeltaNetSizes(8, 4, 32), joint=False)]
    assert shapes(wide) == {
        "attn_qkv": (64, 512), "attn_gate": (64, 256), "ssm_conv1d": (4, 512), "ssm_dt.bias": (8,), "ssm_a": (8,),
        "ssm_beta": (64, 8), "ssm_alpha": (64, 8), "ssm_norm": (32,), "ssm_out": (256, 64),
    }  # fmt: skip
    assert shapes(wide, std=True)["ssm_beta"] == shapes(wide, std=True)["ssm_alpha"] == 0.125
    assert means(joint) == means(wide) == {"ssm_dt.bias": (-1.0, 0.0), "ssm_a": (0.0, 0.3), "ssm_norm": (1.0, 0.0)}


def test_a_mamba_layer_has_a_single_group() -> None:
    found = [*ssm()]
    assert shapes(found) == {
        "ssm_in": (64, 328), "ssm_conv1d": (4, 192), "ssm_conv1d.bias": (192,), "ssm_dt.bias": (8,), "ssm_a": (1, 8),
        "ssm_d": (1, 8), "ssm_norm": (128, 1), "ssm_out": (128, 64),
    }  # fmt: skip
    assert shapes(found, std=True) == {
        "ssm_in": 0.15, "ssm_conv1d": 0.6, "ssm_conv1d.bias": 0.05, "ssm_dt.bias": 0.2, "ssm_a": 0.0, "ssm_d": 0.1,
        "ssm_norm": 0.1, "ssm_out": 0.13,
    }  # fmt: skip
    assert means(found) == {"ssm_dt.bias": (-1.0, 0.0), "ssm_a": (0.0, 0.6), "ssm_d": (1.0, 0.0),
                            "ssm_norm": (1.0, 0.0)}  # fmt: skip


def test_a_short_convolution_has_three_parts_and_three_taps() -> None:
    found = [*short_convolution()]
    assert shapes(found) == {"shortconv.conv": (3, 64), "shortconv.in_proj": (64, 192), "shortconv.out_proj": (64, 64)}
    assert shapes(found, std=True) == {"shortconv.conv": 0.6, "shortconv.in_proj": 0.16, "shortconv.out_proj": 0.16}


def test_experts_are_two_and_a_shared_one() -> None:
    found = [*experts()]
    assert shapes(found) == {
        "ffn_gate_inp": (64, 2), "ffn_gate_exps": (64, 48, 2), "ffn_up_exps": (64, 48, 2), "ffn_down_exps": (48, 64, 2),
        "ffn_gate_inp_shexp": (64,), "ffn_gate_shexp": (64, 48), "ffn_up_shexp": (64, 48), "ffn_down_shexp": (48, 64),
    }  # fmt: skip
    assert [*shapes(found, std=True).values()] == [0.15, 0.15, 0.125, 0.1] * 2 and means(found) == {}


def test_a_drafting_layer_is_damped_and_nearly_repeats_its_input() -> None:
    found = [*mtp_head(0.5)]
    assert found[:9] == [*attention(0.5, gated=True, normed=True), *feed_forward(0.5)]
    assert [tuple(tensor) for tensor in found[9:]] == [
        ("nextn.eh_proj.weight", (128, 64), 0.005, 0.0, 0.0, True),
        ("nextn.enorm.weight", (64,), 0.02, 1.0, 0.0, False),
        ("nextn.hnorm.weight", (64,), 0.02, 1.0, 0.0, False),
    ]  # fmt: skip
    assert shapes(found)["attn_q"] == (64, 128) and [tensor.is_identity for tensor in found[:9]] == [False] * 9


@pytest.mark.parametrize("damping", [1.0, 0.5])
def test_only_the_last_tensor_of_a_feed_forward_is_damped(damping: float) -> None:
    assert [tuple(tensor)[:3] for tensor in feed_forward(damping)] == [
        ("ffn_gate.weight", (EMBD, FF), 0.15), ("ffn_up.weight", (EMBD, FF), 0.125),
        ("ffn_down.weight", (FF, EMBD), 0.1 * damping),
    ]  # fmt: skip
