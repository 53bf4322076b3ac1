"""Models from a config.json or a GGUF: layers, sizes, and broken files."""

import json

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import BUILTIN, ENGINES
from cachesim.engines.shared.model_sizes import real_model
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.option_checks import model_named
from cachesim.tools.playground.case import read_case
from tests.shared import MODELS

QWEN = {
    "model_type": "qwen3_5_text", "num_hidden_layers": 32, "hidden_size": 2560, "num_attention_heads": 16,
    "num_key_value_heads": 4, "head_dim": 256, "full_attention_interval": 4, "linear_conv_kernel_dim": 4,
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3_5", "text_config": QWEN}))
    return tmp_path


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_configuration_gives_every_engine_the_layers_of_its_model(folder, engine):
    for path in (folder, folder / "config.json"):
        found = model_named(str(path), engine, files=True)
        assert found.model.partition("@")[0] == ("qwen35-GGGA" if engine == "llama_cpp" else "GGGA")
        assert "32 layers, 8 with attention, 24 with states" in found.note


def test_the_blocks_and_groups_of_vllm_follow_from_the_file_as_from_the_name(folder):
    file = str(folder / "config.json")
    scenario = from_line("A9", model=file, profiles=("vllm@0.33.0",), files=True)
    assert (scenario.model, scenario.server["real_model"]) == ("GGGA", file)
    engine, rules = ENGINES["vllm"], ENGINES["vllm"].profiles["vllm@0.33.0"]
    named, read = (engine.derived(rules, {"real_model": model})[:2] for model in ("qwen3.5-4b", file))
    assert [line.partition(": ")[2] for line in named] == [line.partition(": ")[2] for line in read]
    assert len(read) == 2


def test_a_changed_file_is_read_again(folder):
    file = folder / "config.json"
    assert len(real_model(str(file)).layers) == 32
    file.write_text(json.dumps({**QWEN, "num_hidden_layers": 8}))
    assert len(real_model(str(file)).layers) == 8


@pytest.mark.parametrize(("text", "cause"), [
    ('{"a": [', "broken or truncated JSON"), ("[]", "expected an object"), ("{}", "key num_hidden_layers is missing"),
    ('{"num_hidden_layers": 3}', "key num_attention_heads is missing"),
    ('{"num_hidden_layers": 3, "num_attention_heads": 4}', "key head_dim is missing"),
    ('{"num_hidden_layers": 3, "num_attention_heads": 4, "head_dim": 8, "num_key_value_heads": 0}',
     "key num_key_value_heads is 0"),
    ('{"model_type": "new", "num_hidden_layers": 3, "attn_layer_period": 2}',
     "unknown order of layers: model type 'new' with key attn_layer_period"),
    ('{"layer_types": ["full_attention", "chunked_attention"]}', "unknown kind in layer_types: 'chunked_attention'"),
    ('{"layer_types": ["mlp"]}', "no layer has K/V rows or a state"),
    ('{"model_type": "deepseek_v32", "num_hidden_layers": 3}', "key num_attention_heads is missing"),
])  # fmt: skip
def test_a_file_that_names_no_known_layers_is_refused_with_its_place(tmp_path, text, cause):
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(BadInput, match=cause) as error:
        model_named(str(file), "vllm", files=True)
    assert str(error.value).startswith(str(file))


def test_an_engine_refuses_a_file_with_layers_that_it_lacks(tmp_path):
    keys = {"model_type": "deepseek_v32", "kv_lora_rank": 32, "qk_rope_head_dim": 16, "index_topk": 48,
            "index_head_dim": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "hidden_size": 64, "head_dim": 16}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(keys))
    assert model_named(str(file), "llama_cpp", files=True).model == "I48@896/0"
    with pytest.raises(BadInput, match="model 'I48': mlx_lm has no layers of kind I"):
        model_named(str(file), "mlx_lm", files=True)


@pytest.mark.parametrize("name", ["tiny-gemma3.gguf", "tiny-qwen35.gguf", "tiny-lfm2.gguf", "tiny-llama.gguf"])
def test_a_gguf_starts_a_server_of_vllm(name):
    if not (MODELS / name).exists():
        pytest.skip("no models in ../shared")
    scenario = from_line("A40/A", model=str(MODELS / name), profiles=("vllm@0.33.0",), files=True)
    ENGINES["vllm"].start("vllm@0.33.0", scenario.model, scenario.server, "none")


def test_neither_a_scenario_nor_a_page_names_a_file(folder):
    file = str(folder / "config.json")
    with pytest.raises(BadInput):
        from_line("A9", model=file, profiles=("vllm@0.33.0",))
    for fields in ({"model": file}, {"flags": f"real_model={file}"}):
        with pytest.raises(BadInput, match="unknown model"):
            read_case({"line": "A9", "profiles": ["vllm@0.33.0"], **fields})
