"""Layers in the header of a GGUF, and the numbers that are refused; each size was counted by hand."""

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.shared.model_layers import RealModel, layers_in
from cachesim.engines.shared.model_sizes import real_model
from cachesim.engines.shared.size_formulas import LayerSize
from tests.unit.engines.shared.test_model_layers import BASE, KEYS, config, gguf

ONE = {"block_count": 1, "embedding_length": 64}
ROWS = {**ONE, "attention.head_count": 4, "attention.head_count_kv": 2}
SSM = {"ssm.conv_kernel": 4, "ssm.inner_size": 6, "ssm.state_size": 5}
DELTA = {"ssm.conv_kernel": 4, "ssm.group_count": 2, "ssm.time_step_rank": 3, "ssm.state_size": 5, "ssm.inner_size": 21}


@pytest.mark.parametrize(("arch", "keys", "fields"), [
    ("llama", ROWS, {"kind": "A", "key": 32, "value": 32, "kv_heads": 2}),
    ("llama", {**ROWS, "attention.key_length": 24}, {"kind": "A", "key": 48, "value": 48, "kv_heads": 2}),
    ("llama", {**ROWS, "attention.value_length": 8}, {"kind": "A", "key": 32, "value": 16, "kv_heads": 2}),
    ("llama", {**ONE, "attention.head_count": 4}, {"kind": "A", "key": 64, "value": 64, "kv_heads": 4}),
    ("deepseek2", {**ROWS, "attention.key_length_mla": 8}, {"kind": "A", "key": 32, "kv_heads": 2}),
    ("mamba2", {**ONE, **SSM}, {"kind": "S", "conv": 3 * (6 + 10), "matrix": 30, "inputs": 3, "groups": 1, "width": 5}),
    ("mamba2", {**ONE, **SSM, "ssm.group_count": 2},
     {"kind": "S", "conv": 3 * (6 + 20), "matrix": 30, "inputs": 3, "groups": 2, "width": 5}),
    ("falcon-h1", {**ROWS, **SSM}, {"kind": "H", "key": 32, "value": 32, "kv_heads": 2, "conv": 48, "matrix": 30,
                                    "inputs": 3, "groups": 1, "width": 5}),
    ("qwen3next", {**ROWS, **DELTA, "full_attention_interval": 2},
     {"kind": "G", "conv": 3 * (20 + 21), "matrix": 105, "inputs": 3}),
    ("qwen35", {**ROWS, **DELTA}, {"kind": "G", "conv": 3 * (20 + 21), "matrix": 105, "inputs": 3}),
    ("any", {**ROWS, **DELTA, "attention.recurrent_layers": [1, 0]},
     {"kind": "G", "conv": 3 * (20 + 21), "matrix": 105, "inputs": 3}),
    ("any", {**ROWS, **DELTA, "attention.recurrent_layers": [0, 1]},
     {"kind": "A", "key": 32, "value": 32, "kv_heads": 2}),
    ("lfm2", {**ROWS, "attention.head_count_kv": [0], "shortconv.l_cache": 3},
     {"kind": "C", "conv": 128, "inputs": 2}),
    ("glm5-next", {**ROWS, "attention.head_count_kv": [0], "kda.head_dim": 5, "ssm.conv_kernel": 4,
                   "attention.indexer.key_length": 1, "attention.indexer.top_k": 4},
     {"kind": "G", "conv": 3 * 3 * 4 * 5, "matrix": 4 * 25, "inputs": 3}),
    ("nemotron_h", {**ROWS, "block_count": 2, "attention.head_count_kv": [0, 2], "feed_forward_length": [9, 0]},
     {"kind": ""}),
])  # fmt: skip
def test_the_first_layer_of_a_header(tmp_path, arch, keys, fields):
    assert gguf(tmp_path, arch, keys).layers[0] == LayerSize(**fields)


@pytest.mark.parametrize(("arch", "more", "kinds"), [
    ("gemma2", {"attention.sliding_window": 8}, "WAWAWA"), ("llama", {"attention.sliding_window": 8}, "AAAAAA"),
    ("gemma2", {}, "AAAAAA"), ("gemma4", {"attention.sliding_window": 8}, "WWWWWW"),
    ("gemma3n", {"attention.sliding_window": 8}, "WWWWAW"), ("cohere2moe", {"attention.sliding_window": 8}, "AWWWAW"),
    ("plamo3", {"attention.sliding_window": 8}, "WWWWWW"), ("laguna", {"attention.sliding_window": 8}, "AWWWAW"),
    ("gemma2", {"attention.sliding_window": 8, "attention.sliding_window_pattern": 3}, "WWAWWA"),
    ("gemma2", {"attention.sliding_window": 8, "attention.sliding_window_pattern": [0, 1, 1]}, "AWWAWW"),
    ("laguna", {"attention.sliding_window": 8, "attention.sliding_window_pattern": 2}, "AWAWAW"),
    ("qwen35", {**DELTA}, "GGGAGG"), ("qwen35moe", {**DELTA, "full_attention_interval": 2}, "GAGAGA"),
    ("qwen2vl", {}, "AAAAAA"), ("lfm2", {"attention.head_count_kv": [2, 0], "attention.sliding_window": 8,
                                         "shortconv.l_cache": 3}, "WCWCWC"),
    ("any", {"attention.head_count_kv": [2, 0], **SSM}, "ASASAS"),
    ("any", {"attention.head_count_kv": [2, 3], **SSM}, "HHHHHH"), ("any", {**SSM}, "HHHHHH"),
    ("any", {"attention.head_count_kv": 0, **SSM}, "SSSSSS"),
    ("any", {"attention.head_count_kv": [2, 0, 0], "feed_forward_length": [0, 9, 0], **SSM}, "A-SA-S"),
    ("any", {"attention.head_count_kv": [2, 0, 0], "feed_forward_length": [9, 9, 9], **SSM}, "ASSASS"),
    ("gemma2", {"attention.sliding_window": 8, "attention.shared_kv_layers": 2}, "WAWA--"),
    ("gemma2", {"attention.shared_kv_layers": 99}, "------"), ("gemma2", {"nextn_predict_layers": 9}, "A"),
])  # fmt: skip
def test_the_order_of_layers_is_that_of_the_architecture(tmp_path, arch, more, kinds):
    found = gguf(tmp_path, arch, {**KEYS, **more})
    assert "".join(layer.kind or "-" for layer in found.layers) == kinds


@pytest.mark.parametrize(("arch", "more", "rest"), [
    ("llama", {}, (0, 0, False, 16)), ("llama", {"attention.sliding_window": 8}, (0, 0, False, 16)),
    ("gemma2", {"attention.sliding_window": 8, "context_length": 99}, (8, 99, False, 16)),
    ("qwen2vl", {"attention.key_length": 40}, (0, 0, True, 40)), ("qwen35", DELTA, (0, 0, True, 16)),
    ("any", {"attention.head_count_kv": 0, **SSM, "attention.key_length": 40}, (0, 0, False, 16)),
    ("llama", {"embedding_length": 80, "attention.head_count": [2, 4]}, (0, 0, False, 40)),
])  # fmt: skip
def test_window_context_and_width_are_those_of_the_header(tmp_path, arch, more, rest):
    found = gguf(tmp_path, arch, {**KEYS, **more})
    assert (found.window, found.context, found.mrope, found.head) == rest
    assert (found.arch, found.source) == (arch, str(tmp_path / "model.gguf"))


def test_each_layer_has_its_entry_of_a_list(tmp_path):
    found = gguf(tmp_path, "llama", {**KEYS, "attention.head_count_kv": [1, 2, 3, 4]})
    assert [layer.kv_heads for layer in found.layers] == [1, 2, 3, 4, 1, 2]
    head = gguf(tmp_path, "llama", {**KEYS, "attention.head_count_kv": [1, 2, 3, 4, 5, 6], "nextn_predict_layers": 2})
    assert [layer.kv_heads for layer in head.layers] == [1, 2, 3, 4]
    assert [layer.kv_heads for layer in head.heads] == [5, 6]


@pytest.mark.parametrize(("arch", "keys", "message"), [
    ("llama", {}, "key llama.block_count is missing"),
    ("llama", {"block_count": 0}, "number of layers out of range: 0"),
    ("llama", {"block_count": 1025}, "number of layers out of range: 1025"),
    ("llama", {"block_count": 1}, "key llama.attention.head_count is missing"),
    ("llama", {"block_count": 1, "attention.head_count": 2}, "key llama.embedding_length is missing"),
    ("llama", {**ROWS, "attention.key_length": 16777217},
     "key llama.attention.key_length is not an integer from 0 to 16777216"),
    ("llama", {**ROWS, "attention.head_count_kv": [16777217]},
     "key llama.attention.head_count_kv has an invalid entry"),
    ("rwkv7", ROWS, "model 'rwkv7': the size of its states (RWKV) is not known"),
    ("jamba", ROWS, "model 'jamba': the size of its states (Mamba-1) is not known"),
    ("kimi-linear", ROWS, "model 'kimi-linear': the size of its states (Kimi's delta attention) is not known"),
    ("minimax-01", ROWS, "model 'minimax-01': the size of its states (linear attention) is not known"),
])  # fmt: skip
def test_a_header_without_sizes_is_refused(tmp_path, arch, keys, message):
    with pytest.raises(BadInput) as bad:
        gguf(tmp_path, arch, keys)
    assert message in str(bad.value) and str(tmp_path / "model.gguf") in str(bad.value)


def test_the_largest_number_and_the_most_layers_are_accepted(tmp_path):
    assert gguf(tmp_path, "llama", {**ROWS, "attention.key_length": 16777216}).layers[0].key == 2 * 16777216
    assert len(gguf(tmp_path, "llama", {**ROWS, "block_count": 1024}).layers) == 1024


def test_a_configuration_of_text_and_images_keeps_its_quantisation(tmp_path):
    quantised = {"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}
    found = config(tmp_path, text_config={**BASE, "num_hidden_layers": 2}, quantization_config=quantised)
    assert (len(found.layers), found.row_type) == (2, "fp8")


@pytest.mark.parametrize(("keys", "message"), [
    ({"layer_types": ["mlp", "moe"]}, "no layer has K/V rows or a state"), ({}, "key num_hidden_layers is missing"),
    ({"num_hidden_layers": True}, "key num_hidden_layers is not an integer"),
    ({"num_hidden_layers": 1, "index_topk": 4, "model_type": "new"},
     "unknown kind of layers: model type 'new' with key index_topk"),
    ({"num_hidden_layers": 1, "linear_num_key_heads": 4, "model_type": "new"},
     "unknown order of layers: model type 'new' with key linear_num_key_heads"),
])  # fmt: skip
def test_a_configuration_without_layers_is_refused(tmp_path, keys, message):
    with pytest.raises(BadInput) as bad:
        config(tmp_path, **keys)
    assert message in str(bad.value)


def test_a_list_of_another_kind_of_content_is_no_configuration(tmp_path):
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(BadInput, match="not a model configuration: expected an object"):
        layers_in(tmp_path / "config.json")


@pytest.mark.parametrize(("keys", "kinds"), [
    ({"num_hidden_layers": 12, "model_type": "gemma3_text", "sliding_window": 8}, "WWWWWAWWWWWA"),
    ({"num_hidden_layers": 8, "model_type": "cohere2", "sliding_window": 8}, "WWWAWWWA"),
    ({"num_hidden_layers": 4, "sliding_window": 8, "sliding_window_pattern": 3}, "WWAW"),
    ({"num_hidden_layers": 4, "sliding_window_pattern": 3}, "AAAA"),
    ({"layers_block_type": ["attention", "mlp", "full_attention", "moe", "sliding_attention"]}, "A-A-W"),
])  # fmt: skip
def test_the_order_of_layers_of_a_configuration(tmp_path, keys, kinds):
    found = config(tmp_path, **keys)
    assert "".join(layer.kind or "-" for layer in found.layers) == kinds


def test_layers_are_found_by_what_they_keep():
    layers = (*map(LayerSize, "AHIPBWDGSC"), LayerSize(""))
    model = RealModel(layers, "")
    parts = (model.full, model.windows, model.indexed, model.compressed, model.states)
    assert ["".join(layer.kind for layer in part) for part in parts] == ["AHIPB", "WD", "IPB", "D", "HGSC"]
    assert (model.window, model.context, model.mrope, model.heads, model.head) == (0, 0, False, (), 16)
    assert (model.state_type, model.row_type, model.kernel, model.arch) == ("", "", 0, "")


def test_a_model_that_is_unknown_is_answered_with_near_names():
    with pytest.raises(BadInput) as bad:
        real_model("qwen3-nxt")
    assert "unknown sizes of K/V rows and states: model 'qwen3-nxt'" in str(bad.value)
    assert bad.value.hint == "did you mean 'qwen3-next'? or give the path of its config.json or GGUF"
