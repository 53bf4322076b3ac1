"""Numbers of the layers of the newest architectures, from few keys; each was counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.shared.newest_models import (
    config_architecture,
    config_keys,
    config_kinds,
    newest_heads,
    newest_layers,
)
from cachesim.engines.shared.size_formulas import LayerSize


class Keys:
    """Keys of a file without its architecture in front."""

    file = "model.gguf"

    def __init__(self, keys: dict[str, Any]) -> None:
        self.keys = keys

    def get(self, name: str, default: int | None = None) -> int:
        found = self.keys.get(name, default)
        assert found is not None, f"missing: {name}"
        return found

    def words(self, name: str) -> list[Any]:
        return self.keys.get(name, []) if isinstance(self.keys.get(name), list) else []


ROWS = LayerSize("A", key=32, value=24, kv_heads=2)
STATE = LayerSize("G", conv=6, matrix=9)
INDEX = {"attention.indexer.top_k": 48, "attention.indexer.key_length": 64}


def layers(arch: str, keys: dict[str, Any], *given: LayerSize) -> list[LayerSize]:
    return newest_layers(Keys(keys), arch, given)


@pytest.mark.parametrize(("config", "arch"), [
    ({"model_type": "deepseek_v4"}, "deepseek4"), ({"model_type": "llama"}, ""), ({}, ""), ({"model_type": 3}, ""),
    ({"model_type": "llama", "sparse_attention_config": {"a": 1}}, "minimax-m3"),
    ({"model_type": "hy_v4", "sparse_attention_config": {}}, "hy_v4"),
])  # fmt: skip
def test_an_architecture_is_named_or_shown_by_a_key(config, arch):
    assert config_architecture(config) == arch


@pytest.mark.parametrize(("config", "arch", "kinds"), [
    ({}, "qwen4exp", "GGGAGGGAG"), ({"full_attention_interval": 3}, "qwen4exp", "GGAGGAGGA"),
    ({"full_attention_interval": 1}, "qwen4exp", "AAAAAAAAA"),
    ({"full_attention_interval": 0}, "qwen4exp", "GGGAGGGAG"),
    ({"full_attention_interval": -2}, "qwen4exp", "GGGAGGGAG"),
    ({"full_attention_interval": True}, "qwen4exp", "GGGAGGGAG"),
    ({"full_attention_interval": "2"}, "qwen4exp", "GGGAGGGAG"), ({}, "dots3note", "AAWWWAWWW"),
    ({"layer_types": ["sliding_attention", "full_attention"] * 5}, "dots3note", "WAWAWAWAW"),
    ({"layer_types": ["full_attention", "linear_attention"] * 5}, "glm5-next", "AGAGAGAGA"),
    ({"layer_types": "linear_attention"}, "glm5-next", "GGGAGGGAG"), ({}, "deepseek32", "AAAAAAAAA"),
])  # fmt: skip
def test_the_kinds_of_layers_are_listed_or_those_of_the_architecture(config, arch, kinds):
    assert "".join(config_kinds(config, arch, 9)) == kinds


def test_layers_with_an_index_of_their_own_have_index_rows():
    own = ROWS._replace(kind="I", index_key=64, numbers="48")
    window = ROWS._replace(kind="W")
    assert layers("deepseek32", INDEX, ROWS, window, ROWS) == [own, window, own]
    assert layers("deepseek32", {**INDEX, "attention.indexer.types": [0, 1]}, ROWS, ROWS, ROWS) == [ROWS, own, ROWS]
    assert layers("hy_v4", {"attention.indexer.key_length": 64}, ROWS) == [ROWS], "nothing is chosen"
    assert layers("hy_v4", {"attention.indexer.top_k": 1}, ROWS) == [own._replace(index_key=0, numbers="1")]


@pytest.mark.parametrize(("arch", "context", "kinds"), [
    ("glm-dsa", 1048575, "IIIIIIIIII"), ("glm-dsa", 1048576, "IIIAAAIAAA"), ("glm-dsa", 0, "IIIIIIIIII"),
    ("deepseek32", 1048576, "IIIIIIIIII"),
])  # fmt: skip
def test_a_long_glm_without_a_list_shares_the_indexes_of_its_version(arch, context, kinds):
    keys = {**INDEX, **({"context_length": context} if context else {})}
    assert "".join(one.kind for one in layers(arch, keys, *[ROWS] * 10)) == kinds


@pytest.mark.parametrize(("more", "dense", "blocks", "value"), [
    ({}, 0, "48", 12), ({"leading_dense_block_count": 2}, 2, "48", 12), ({"attention.value_length": 5}, 0, "48", 5),
    ({"attention.indexer.block_size": 8}, 0, "24", 12), ({"attention.indexer.block_size": 40}, 0, "120", 12),
    ({"attention.indexer.block_size": 15, "attention.indexer.top_k": 1}, 0, "1", 12),
    ({"attention.indexer.block_size": 1, "attention.indexer.top_k": 1}, 0, "1", 12),
])  # fmt: skip
def test_layers_behind_the_dense_ones_choose_as_many_rows_in_blocks_of_16(more, dense, blocks, value):
    own = ROWS._replace(kind="B", index_key=64, index_value=value, numbers=blocks)
    assert layers("minimax-m3", {**INDEX, **more}, ROWS, ROWS, ROWS) == [ROWS] * dense + [own] * (3 - dense)


def test_the_value_of_an_index_row_is_that_of_a_head_of_the_first_layer():
    single = LayerSize("A", key=8, value=7)
    assert [one.index_value for one in layers("minimax-m3", INDEX, single, ROWS)] == [7, 7]


@pytest.mark.parametrize(("arch", "parts"), [("qwen4exp", 2), ("glm5-next", 3)])
@pytest.mark.parametrize(("top_k", "chosen"), [(48, "48"), (51, "48"), (7, "4"), (3, "4"), (0, "4")])
def test_attention_layers_of_a_hybrid_have_the_keys_of_their_pools(arch, parts, top_k, chosen):
    keys = {**INDEX, "attention.indexer.top_k": top_k, "attention.indexer.kpool": 4}
    pooled = ROWS._replace(kind="P", index_key=parts * 64, numbers=chosen)
    assert layers(arch, keys, STATE, ROWS, STATE, ROWS) == [STATE, pooled, STATE, pooled]
    assert newest_heads(Keys(keys), arch, [ROWS]) == [pooled]


@pytest.mark.parametrize(("more", "kinds"), [
    ({}, "AAAA"), ({"attention.indexer.kpool": 0}, "AAAA"), ({"attention.indexer.kpool": 4}, "PPPP"),
    ({"attention.indexer.types": [1, 0, 0]}, "PAAP"), ({"attention.compress_ratios": [0, 4]}, "APAP"),
    ({"attention.indexer.types": [1, 0], "attention.compress_ratios": [0, 4], "attention.indexer.kpool": 4}, "PAPA"),
])  # fmt: skip
def test_a_list_of_indexes_comes_before_ratios_and_the_number_of_all_layers(more, kinds):
    assert "".join(one.kind for one in layers("qwen4exp", {**INDEX, **more}, *[ROWS] * 4)) == kinds


@pytest.mark.parametrize(("more", "history"), [
    ({}, 0), ({"ple.conv_kernel": 4, "ple.ngram_size": 3}, 0),
    ({"ple.conv_kernel": 4, "ple.ngram_size": 3, "embedding_length": 10}, 90),
    ({"ple.conv_kernel": 4, "ple.ngram_size": 3, "embedding_length": 10, "hyper_connection.count": 2}, 180),
    ({"ple.ngram_size": 3, "embedding_length": 10}, 0), ({"ple.conv_kernel": 4, "embedding_length": 10}, 0),
])  # fmt: skip
def test_the_first_listed_layer_keeps_the_history_of_its_embeddings(more, history):
    """One token less than the convolution reads, of each n-gram and of each connection."""
    found = layers("qwen4exp", {**INDEX, **more, "ple.layers": [1, 2]}, STATE, STATE, STATE)
    assert [one.history for one in found] == [0, history, 0]
    assert [one.history for one in layers("qwen4exp", {**INDEX, **more}, STATE, STATE)] == [0, 0]


def test_compressed_rows_have_the_ratio_of_their_layer():
    keys = {**INDEX, "attention.compress_ratios": [0, 4, 128, 9], "attention.sliding_window": 32}
    window = LayerSize("W", key=32, kv_heads=1)
    assert layers("deepseek4", keys, ROWS, ROWS, ROWS) == [
        window, window._replace(kind="D", numbers="4.32.48", index_key=64, ratio=4),
        window._replace(kind="D", numbers="128.32", ratio=128)]  # fmt: skip
    plain = {"attention.compress_ratios": [4], "attention.sliding_window": 32}
    assert layers("deepseek4", plain, ROWS) == [window._replace(kind="D", numbers="4.32", ratio=4)]
    with pytest.raises(BadInput, match="compress_ratios is shorter than the layers"):
        layers("deepseek4", plain, ROWS, ROWS)


def test_the_head_of_compressed_rows_has_a_window_and_others_keep_theirs():
    assert newest_heads(Keys({}), "deepseek4", [ROWS]) == [ROWS._replace(kind="W", value=32)]
    assert newest_heads(Keys({}), "hy_v4", (ROWS,)) == [ROWS]


@pytest.mark.parametrize(("config", "keys"), [
    ({"index_topk": 4, "hidden_size": None, "other": 1}, {"attention.indexer.top_k": 4}),
    ({"indexer_types": ["full", "shared", 1, 0, True]},
     {"attention.indexer.types": [True, False, True, False, True]}),
    ({"ple_layer_ids": [3, "a", 5]}, {"ple.layers": [2, 4]}), ({"ple_layer_ids": 3, "indexer_types": []}, {}),
    ({"sparse_attention_freq": [0, 0, 1, 0]}, {"leading_dense_block_count": 2}),
    ({"sparse_attention_freq": [0, 0]}, {"leading_dense_block_count": 2}),
    ({"sparse_topk_blocks": 1, "sparse_attention_config": {"sparse_topk_blocks": 7, "sparse_attention_freq": [1]}},
     {"attention.indexer.top_k": 7, "leading_dense_block_count": 0}),
    ({"sparse_topk_blocks": 1, "sparse_attention_config": True}, {"attention.indexer.top_k": 1}),
])  # fmt: skip
def test_keys_of_a_configuration_are_those_of_a_header(config, keys):
    assert config_keys(config) == keys
