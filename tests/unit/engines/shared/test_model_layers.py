"""Layers of real models from configurations and headers: what differs between layers, and bounds."""

import json
import struct

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.shared.model_sizes import real_model, short_notation

BASE = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 64, "head_dim": 16}


def config(tmp_path, **keys):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**BASE, **keys}))
    return real_model(str(file))


def gguf(tmp_path, arch, keys):
    """A GGUF whose sizes follow its vocabulary."""
    def text(word):
        return struct.pack("<Q", len(word)) + word.encode()

    body = text("general.architecture") + struct.pack("<I", 8) + text(arch)
    body += text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b")
    for name, value in keys.items():
        body += text(f"{arch}.{name}")
        many = isinstance(value, list)
        body += struct.pack("<IIQ", 9, 4, len(value)) if many else struct.pack("<I", 4)
        body += struct.pack(f"<{len(value)}I", *value) if many else struct.pack("<I", value)
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys) + 2) + body)
    return real_model(str(file))


KEYS = {"block_count": 6, "embedding_length": 64, "attention.head_count": 4, "attention.head_count_kv": 2}


@pytest.mark.parametrize(("arch", "more", "notation"), [
    ("gemma3", {"attention.sliding_window": 32}, "W32 W32 W32 W32 W32 A"),
    ("gpt-oss", {"attention.sliding_window": 128}, "W128 A"), ("phi3", {"attention.sliding_window": 128}, "A"),
    ("smallthinker", {"attention.sliding_window": 8}, "A W8 W8 W8 A W8"),
    ("gemma3", {"attention.sliding_window": 32, "attention.sliding_window_pattern": 3}, "W32 W32 A"),
    ("gemma4", {"attention.sliding_window": 32, "attention.sliding_window_pattern": [1, 0, 0]}, "W32 A A"),
    ("qwen3next", {"full_attention_interval": 3, "ssm.conv_kernel": 4, "ssm.group_count": 1, "ssm.time_step_rank": 2,
                   "ssm.state_size": 8, "ssm.inner_size": 16}, "GGA"),
    ("nemotron_h", {"attention.head_count_kv": [0, 2, 0], "feed_forward_length": [0, 0, 9], "ssm.conv_kernel": 4,
                    "ssm.inner_size": 16, "ssm.state_size": 8}, "SA"),
])  # fmt: skip
def test_an_architecture_has_its_pattern_of_layers(tmp_path, arch, more, notation):
    assert short_notation(gguf(tmp_path, arch, {**KEYS, **more})) == notation


def test_layers_of_an_mtp_head_are_not_in_the_trunk(tmp_path):
    found = gguf(tmp_path, "qwen3", {**KEYS, "nextn_predict_layers": 1, "context_length": 4096})
    assert (len(found.layers), len(found.heads), found.context) == (5, 1, 4096)


def test_the_rows_of_mla_are_k_rows_only(tmp_path):
    keys = {"attention.head_count_kv": 1, "attention.key_length": 576, "attention.value_length": 512,
            "attention.key_length_mla": 192}  # fmt: skip
    assert {(one.key, one.value) for one in gguf(tmp_path, "deepseek2", {**KEYS, **keys}).layers} == {(576, 0)}
    found = config(tmp_path, num_hidden_layers=2, kv_lora_rank=512, qk_rope_head_dim=64)
    assert {(one.key, one.value) for one in found.layers} == {(576, 0)}


def test_windows_may_have_other_heads_and_last_layers_share_rows(tmp_path):
    keys = {"attention.head_count_kv": [8, 2] * 3, "attention.key_length": 512, "attention.value_length": 512,
            "attention.key_length_swa": 256, "attention.value_length_swa": 256, "attention.sliding_window": 32,
            "attention.sliding_window_pattern": [1, 0], "attention.shared_kv_layers": 2}  # fmt: skip
    found = gguf(tmp_path, "gemma4", {**KEYS, **keys})
    assert [(one.kind, one.key) for one in found.layers[-4:]] == [("W", 2048), ("A", 1024), ("", 0), ("", 0)]
    types = ["sliding_attention", "full_attention"] * 2
    other = config(tmp_path, layer_types=types, sliding_window=32, global_head_dim=32, num_global_key_value_heads=1,
                   num_kv_shared_layers=2)  # fmt: skip
    assert [(one.kind, one.key) for one in other.layers] == [("W", 32), ("A", 32), ("", 0), ("", 0)]


@pytest.mark.parametrize(("keys", "notation"), [
    ({"num_hidden_layers": 2, "model_type": "falcon_h1", "mamba_d_ssm": 32, "mamba_d_state": 8}, "H"),
    ({"hybrid_override_pattern": "M-M*-E", "mamba_num_heads": 2, "mamba_head_dim": 8, "ssm_state_size": 4}, "SSA"),
    ({"num_hidden_layers": 4, "model_type": "gemma2", "sliding_window": 16}, "W16 A"),
    ({"num_hidden_layers": 3, "sliding_window": 16}, "A"),
])
def test_a_configuration_has_its_pattern_of_layers(tmp_path, keys, notation):
    assert short_notation(config(tmp_path, **keys)) == notation


@pytest.mark.parametrize("keys", [
    {"hybrid_override_pattern": "MX"}, {"num_hidden_layers": 2, "head_dim": -1},
    {"num_hidden_layers": 2, "num_key_value_heads": 1 << 60}, {"num_hidden_layers": 2, "num_kv_shared_layers": "x"},
])  # fmt: skip
def test_bad_numbers_are_refused(tmp_path, keys):
    with pytest.raises(BadInput):
        config(tmp_path, **keys)


@pytest.mark.parametrize(("keys", "message"), [
    ({"num_attention_heads": 0, "head_dim": 0}, "key num_attention_heads is 0"), ({"head_dim": 0}, "key head_dim is 0"),
    ({"num_attention_heads": 0, "head_dim": 16}, "key num_attention_heads is 0"),
    ({"num_key_value_heads": 1 << 60}, "key num_key_value_heads is not an integer from 0 to"),
])  # fmt: skip
def test_a_missing_width_is_named(tmp_path, keys, message):
    with pytest.raises(BadInput, match=message):
        config(tmp_path, num_hidden_layers=2, **keys)


MAMBA = {"model_type": "mamba2", "num_hidden_layers": 1, "ssm_state_size": 8}


@pytest.mark.parametrize(("keys", "conv", "matrix", "inputs"), [
    ({"mamba_n_heads": 3, "mamba_d_head": 5}, 3 * (15 + 16), 15 * 8, 3), ({"mamba_d_ssm": 7}, 3 * (7 + 16), 7 * 8, 3),
    ({"mamba_num_heads": 3, "mamba_head_dim": 4}, 3 * (12 + 16), 12 * 8, 3),
    ({"num_heads": 3, "head_dim": 6}, 3 * (18 + 16), 18 * 8, 3),
    ({}, 3 * (2 * 64 + 16), 2 * 64 * 8, 3), ({"num_attention_heads": None}, 3 * (2 * 64 + 16), 2 * 64 * 8, 3),
    ({"expand": 3}, 3 * (3 * 64 + 16), 3 * 64 * 8, 3),
    ({"mamba_expand": 1, "expand": 3}, 3 * (64 + 16), 64 * 8, 3),
    *(({name: 3, "head_dim": None}, 3 * (2 * 64 + 16), 2 * 64 * 8, 3)                # half of a size counts as none
      for name in ("mamba_n_heads", "mamba_d_head", "mamba_num_heads", "mamba_head_dim", "num_heads")),
    ({"mamba_d_ssm": 7, "conv_kernel": 3}, 2 * (7 + 16), 7 * 8, 2),
    ({"mamba_d_ssm": 7, "mamba_d_conv": 2, "conv_kernel": 3}, 7 + 16, 7 * 8, 1),
    ({"mamba_d_ssm": 7, "n_groups": 2}, 3 * (7 + 32), 7 * 8, 3),
    ({"mamba_d_ssm": 7, "mamba_n_groups": 3, "n_groups": 2}, 3 * (7 + 48), 7 * 8, 3),
    ({"mamba_d_ssm": 7, "mamba_d_state": 5}, 3 * (7 + 10), 7 * 5, 3),
])  # fmt: skip
def test_a_mamba_layer_has_the_sizes_of_whichever_keys_are_there(tmp_path, keys, conv, matrix, inputs):
    [layer] = config(tmp_path, **MAMBA, **keys).layers
    assert (layer.kind, layer.conv, layer.matrix, layer.inputs) == ("S", conv, matrix, inputs)


@pytest.mark.parametrize(("keys", "sizes"), [
    ({"layer_types": ["linear_attention"], "linear_conv_kernel_dim": 4, "linear_num_key_heads": 2,
      "linear_num_value_heads": 3, "linear_key_head_dim": 5, "linear_value_head_dim": 7},
     (3 * (20 + 21), 3 * 5 * 7, 3)),
    ({"layer_types": ["linear_attention"], "linear_attn_config": {"num_heads": 3, "head_dim": 5}}, (9 * 15, 75, 3)),
    ({"layer_types": ["linear_attention"],
      "linear_attn_config": {"num_heads": 3, "head_dim": 5, "short_conv_kernel_size": 2}}, (3 * 15, 75, 1)),
    ({"layer_types": ["conv"], "conv_L_cache": 3}, (2 * 64, 0, 2)),
])  # fmt: skip
def test_a_recurrent_layer_keeps_inputs_and_a_matrix(tmp_path, keys, sizes):
    [layer] = config(tmp_path, num_hidden_layers=1, **keys).layers
    assert (layer.conv, layer.matrix, layer.inputs) == sizes and layer.key == 0


@pytest.mark.parametrize(("keys", "key", "value", "heads"), [
    ({}, 2 * 16, 2 * 16, 2), ({"v_head_dim": 24}, 2 * 16, 2 * 24, 2), ({"num_key_value_heads": None}, 64, 64, 4),
    ({"head_dim": None}, 2 * 16, 2 * 16, 2), ({"global_head_dim": 32}, 2 * 32, 2 * 32, 2),
    ({"global_head_dim": 32, "num_global_key_value_heads": 1}, 32, 32, 1),
    ({"kv_lora_rank": 40, "qk_rope_head_dim": 8}, 48, 0, 1),
])  # fmt: skip
def test_the_rows_of_attention_are_as_wide_as_the_heads(tmp_path, keys, key, value, heads):
    found = config(tmp_path, num_hidden_layers=2, **keys)
    assert [(layer.kind, layer.key, layer.value, layer.kv_heads) for layer in found.layers] == [
        ("A", key, value, heads)] * 2


def test_a_layer_with_rows_and_a_state_has_both(tmp_path):
    [layer] = config(tmp_path, num_hidden_layers=1, model_type="falcon_h1", mamba_d_ssm=7, mamba_d_state=8).layers
    assert (layer.kind, layer.key, layer.kv_heads, layer.matrix) == ("H", 32, 2, 56)


@pytest.mark.parametrize(("quantisation", "row_type"), [
    ({"quant_method": "modelopt", "quantization": {"kv_cache_quant_algo": "FP8"}}, "fp8"),
    ({"quant_method": "modelopt_fp4", "kv_cache_quant_algo": "fp8"}, "fp8"),
    ({"quant_method": "modelopt", "kv_cache_quant_algo": "NVFP4"}, ""), ({"quant_method": "modelopt"}, ""),
    ({"quant_method": "awq", "kv_cache_quant_algo": "FP8"}, ""), ("none", ""),
    ({"quant_method": "modelopt", "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False}}, "fp8"),
    ({"quant_method": "modelopt", "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": True}}, ""),
    ({"quant_method": "modelopt", "kv_cache_scheme": {"num_bits": 4, "type": "float", "dynamic": False}}, ""),
    ({"quant_method": "modelopt", "quantization": {}, "kv_cache_quant_algo": "FP8"}, "fp8"),
])  # fmt: skip
def test_a_checkpoint_may_ask_for_rows_of_eight_bits(tmp_path, quantisation, row_type):
    assert config(tmp_path, num_hidden_layers=1, quantization_config=quantisation).row_type == row_type


@pytest.mark.parametrize(("keys", "state_type"), [
    ({}, ""), ({"model_type": "nemotron_h"}, "float32"), ({"mamba_ssm_dtype": "bfloat16"}, "bfloat16"),
    ({"mamba_ssm_cache_dtype": "float16"}, "float16"), ({"model_type": "nemotron_h", "mamba_ssm_dtype": "a"}, "a"),
])  # fmt: skip
def test_a_checkpoint_names_the_type_of_its_states(tmp_path, keys, state_type):
    assert config(tmp_path, num_hidden_layers=1, **keys).state_type == state_type


def test_context_window_and_draft_layers_are_those_of_the_configuration(tmp_path):
    found = config(tmp_path, num_hidden_layers=3, sliding_window=32, sliding_window_pattern=3, mtp_num_hidden_layers=2,
                   max_position_embeddings=4096, mamba_chunk_size=128, rope_scaling={"mrope_section": [1]})  # fmt: skip
    assert ([layer.kind for layer in found.layers], found.window, found.context) == (["W", "W", "A"], 32, 4096)
    assert (len(found.heads), found.mrope, found.kernel) == (2, True, 128)
    plain = config(tmp_path, num_hidden_layers=1, sliding_window=32, num_nextn_predict_layers=1)
    assert (plain.window, len(plain.heads), plain.mrope, plain.context, plain.kernel) == (0, 1, False, 0, 0)


def test_an_unknown_order_of_layers_without_a_model_type_is_refused(tmp_path):
    with pytest.raises(BadInput, match="unknown order of layers: model type '' with key mamba_d_state"):
        config(tmp_path, num_hidden_layers=2, mamba_d_state=16, model_type=None)


def test_an_unknown_order_of_layers_is_refused(tmp_path):
    with pytest.raises(BadInput, match="unknown order of layers: model type 'other' with key mamba_d_state"):
        config(tmp_path, num_hidden_layers=2, model_type="other", mamba_d_state=4)
    with pytest.raises(BadInput, match="unknown kind in layer_types: 'other'"):
        config(tmp_path, num_hidden_layers=2, layer_types=["full_attention", "other"])
    with pytest.raises(BadInput, match="unknown kind in hybrid_override_pattern"):
        config(tmp_path, num_hidden_layers=2, hybrid_override_pattern="M?")
    kinds = config(tmp_path, num_hidden_layers=4, hybrid_override_pattern="M*-E", mamba_d_ssm=4, mamba_d_state=4).layers
    assert [layer.kind for layer in kinds] == ["S", "A", "", ""]
