"""Groups of layers of real models."""

import json

import pytest

from cachesim.engines.registry import ENGINES
from cachesim.engines.shared.model_sizes import real_model
from cachesim.engines.vllm.flags import options
from cachesim.engines.vllm.layer_groups import group_size, groups_of
from cachesim.engines.vllm.page_sizes import derived_blocks, model_groups
from cachesim.engines.vllm.profiles import V0_33_0


@pytest.mark.parametrize(("counts", "size"), [
    ((32,), 32), ((8, 24), 8), ((0, 12, 13), 13), ((10, 14), 14), ((10, 15), 10), ((20, 30), 20), ((1, 1), 1),
])  # fmt: skip
def test_groups_have_the_layers_of_the_rarest_kind_unless_the_kinds_are_nearly_as_large(counts, size):
    assert group_size(counts) == size


@pytest.mark.parametrize(("name", "groups"), [
    ("qwen3.5-4b", (1, 0, 3, 8)), ("qwen3-next", (1, 0, 3, 12)), ("gemma-3", (1, 6, 0, 4)), ("gpt-oss", (1, 1, 0, 18)),
    ("gemma-4-31b", (1, 5, 0, 10)), ("nemotron-3-nano", (1, 0, 4, 6)), ("nemotron-nano-9b-v2", (1, 0, 7, 4)),
    ("granite-4.0-h-small", (1, 0, 9, 4)), ("lfm2-1.2b", (1, 0, 2, 6)), ("llama-3", (1, 0, 0, 32)),
    ("mamba-2", (0, 0, 1, 64)),
])  # fmt: skip
def test_a_real_model_has_several_groups_of_its_frequent_kind(name, groups):
    assert groups_of(real_model(name)) == groups


def test_layers_of_a_kind_with_other_sizes_have_groups_of_their_own_beside_another_kind():
    model = real_model("gpt-oss-20b")
    other = model.full[0]._replace(key=1)
    assert groups_of(model._replace(layers=(*model.layers, other))) == (13, 12, 0, 1)
    alike = model.full[0]._replace(kind="I")
    assert groups_of(model._replace(layers=(*model.layers, alike))) == (1, 1, 0, 13)
    dense = real_model("llama-3")
    assert groups_of(dense._replace(layers=(*dense.layers, other))) == (1, 0, 0, 33)


def test_the_layers_of_a_drafter_join_those_of_attention():
    """Qwen3.5 has an MTP layer: 9 layers of attention and 24 of states; gpt-oss and an EAGLE layer 13 and 12."""
    drafts = {"speculative_method": "mtp", "num_speculative_tokens": 1}
    assert model_groups(real_model("qwen3.5-4b"), options(drafts)) == (1, 0, 3, 9)
    eagle = {**drafts, "speculative_method": "eagle"}
    assert model_groups(real_model("gpt-oss-20b"), options(eagle)) == (1, 1, 0, 13)
    ngram = {**drafts, "speculative_method": "ngram"}
    assert model_groups(real_model("gpt-oss-20b"), options(ngram)) == (1, 1, 0, 12)


@pytest.mark.parametrize(("name", "notation", "number"), [
    ("gemma-3", "W512 W512 W512 W512 W512 A", 7), ("qwen3.5-4b", "GGGA", 4), ("nemotron-nano-9b-v2", "SSSSSSSA", 8),
])  # fmt: skip
def test_the_server_has_the_groups_of_the_real_model_and_takes_a_block_for_each(name, notation, number):
    engine = ENGINES["vllm"]
    server = engine.start(engine.newest, notation, {"real_model": name, "num_gpu_blocks": 512}, "none")
    assert len(server.vllm_config.kv_cache_config.kv_cache_groups) == number


def test_a_line_names_the_groups():
    (said,) = derived_blocks(V0_33_0, options({"real_model": "gemma-3"}))
    assert said == "gemma-3: groups: 1 of attention, 6 of windows, each with its own blocks for up to 4 layers"


def test_the_layers_of_a_drafter_are_as_large_as_the_last_layer_of_attention():
    """Twelve layers of attention, one of another size, and twelve with windows."""
    model = real_model("gpt-oss-20b")
    model = model._replace(layers=(*model.layers, model.full[0]._replace(key=1)))
    assert groups_of(model, drafted=1) == (7, 6, 0, 2)
    assert groups_of(real_model("mamba-2"), drafted=1) == (1, 0, 64, 1)
    assert groups_of(real_model("llama-3"), drafted=2) == (1, 0, 0, 34)


def test_a_model_without_layers_has_no_group():
    assert groups_of(real_model("llama-3")._replace(layers=())) == (0, 0, 0, 0)


def test_a_line_names_the_file_of_a_model_and_its_folder(tmp_path):
    file = tmp_path / "name" / "config.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"layer_types": ["sliding_attention", "full_attention"] * 3, "num_attention_heads": 4,
                                "num_key_value_heads": 2, "hidden_size": 64, "sliding_window": 32}))  # fmt: skip
    assert derived_blocks(V0_33_0, options({"real_model": str(file)})) == [
        "name/config.json: groups: 1 of attention, 1 of windows, each with its own blocks for up to 3 layers"]
