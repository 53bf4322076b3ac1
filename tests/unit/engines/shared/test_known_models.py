"""Order and proportion of the layers of real models by name."""

from __future__ import annotations

import json

import pytest

import cachesim
from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.registry import ENGINES
from cachesim.engines.shared.known_models import MODELS, find, is_unverified, known_names, model_file, plain
from cachesim.engines.shared.model_sizes import sized_name
from cachesim.engines.shared.size_formulas import split_sizes
from cachesim.model.spec import parse
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.scenarios.option_checks import known_models, model_named
from tests.unit.scenarios.samples import GOOD


@pytest.mark.parametrize(("text", "name"), [
    ("qwen3-next", "qwen3-next"), ("Qwen3_Next", "qwen3-next"), ("QWEN3NEXT", "qwen3-next"),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "qwen3-next"), ("qwen3.5", "qwen3.5"), ("qwen3-5-27b", "qwen3.5"),
    ("qwen3-8b", "qwen3"), ("gemma-2-9b-it", "gemma-2"), ("google/gemma-3-4b-it", "gemma-3-4b"),
    ("gemma3", "gemma-3"), ("gemma-3-27b-it", "gemma-3-4b"), ("gemma-3-1b", "gemma-3"), ("gemma-3-8b", None),
    ("gpt-oss-9b", None), ("gemma-4-E4B-it", "gemma-4-e4b"), ("google/gemma-4-12B-it", "gemma-4"),
    ("gpt-oss-120b", "gpt-oss"), ("Falcon-H1", "falcon-h1"), ("granite-4.0-h-350m", "granite-4"),
    ("LFM2-1.2B", "lfm2-1.2b"), ("llama-3.1-8b", "llama-3"), ("lfm2", "lfm2-1.2b"), ("Jamba", "jamba"),
    ("nemotron_h", "nemotron-h"), ("Meta-Llama", None),
    ("mistral-7b-v0.3", "mistral"), ("mixtral-8x7b", "mistral"), ("phi3", "phi-3"), ("mamba2-2.7b", "mamba-2"),
    ("gemma-3n-E4B-it", "gemma-3n"), ("qwen3-vl", "qwen3-vl"), ("llama4", "llama-4"), ("llama", None),
    ("granite-4.0-micro", None),
    ("", None), ("Kimi-K2.5-Instruct", "deepseek-v3"), ("DeepSeek-V3-0324", "deepseek-v3"), ("qwen3-itemised", None),
    ("GGGA", None), ("qwen35-GGGA", None), ("Qwen3.8-27B-UD-Q4_K_XL", "qwen3.8"),
    ("Llama-4-Scout-17B-16E-Instruct", "llama-4"), ("Qwen3.9-27B", None), ("Llama-3.5-8B", None),
    ("Qwen3.6-27B-UD-Q4_K_XL", "qwen3.5"), ("phi-3-3.8b", "phi-3"), ("Meta-Llama-3.1-8B-Instruct", "llama-3"),
    ("Llama-2-7b-chat-hf", "llama-3"), ("QwQ-32B", "qwen2.5"), ("Qwen3-Coder-Next-FP8", "qwen3-next"),
    ("Qwen3-Coder-480B-A35B-Instruct", "qwen3"), ("Qwen3-Coder-Next-fp8er", None),
    ("Qwen3-Coder-Next-UD-Q8_K_XL-00001-of-00003", "qwen3-next"), ("Qwen3-Coder-Next-4bit", "qwen3-next"),
    ("google_gemma-4-26B-A4B-it-Q4_K_M", "gemma-4"), ("Qwen_Qwen3.6-35B-A3B-Q4_K_L", "qwen3.5"),
    ("unsloth_qwen3-8b", None), ("GLM-5.1-UD-IQ2_M", "glm-5"), ("GLM-4.7-Flash-UD-Q4_K_XL", "glm-4.7-flash"),
    ("MiniMax-M3-IQ3_XXS", "minimax-m3"), ("Kimi-K2.5-TQ1_0", "deepseek-v3"), ("gpt-oss-120b-F16", "gpt-oss"),
    ("Devstral-Small-2-24B", "mistral-small"), ("Kimi-Linear-48B-A3B", "kimi-linear"), ("phi-4-Q4_K_M", "phi-3"),
    ("DeepSeek-V3.2.gguf", "deepseek-v3.2"), ("MiniMax-M3.GGUF", "minimax-m3"), ("GLM-5.1.gguf", "glm-5"),
    ("models/GLM-5-00001-of-00004.gguf", "glm-5"), ("gpt-oss-20b.gguf", "gpt-oss"), ("GLM-5-00001-of-4.gguf", None),
    ("Qwen3-quantum", None), ("gemma-3-quality", None), ("gemma-3-q9", None),
    ("DeepSeek-R1-Distill-Qwen-32B", "deepseek-r1-distill-qwen"),
])  # fmt: skip
def test_a_name_in_any_spelling(text, name):
    assert find(text) == name


def test_every_name_is_found_and_every_model_is_layers_with_a_source():
    assert len({plain(name) for name in known_names()}) <= len(list(known_names()))
    for name in known_names():
        assert find(name) in MODELS
    for name, model in MODELS.items():
        assert find(name) == name
        assert parse(model.layers).layers and "/" in model.source and model.real
        assert len(parse(model.layers).layers) <= 8


@pytest.mark.parametrize(("name", "kinds"), [
    ("lfm2-1.2b", "CCACCACCACACACAC"),
    ("nemotron-h", "SSSSASSSSSASSSSSASSSSSASSSSS"),
    ("granite-4", "SSSSSSSSSSASSASSSASSSSSSSSSASSSS"),
    ("jamba", "SSSSASSS" * 4), ("qwen3-next", "GGGA" * 12), ("gemma-2", "WA" * 13),
])  # fmt: skip
def test_the_proportion_is_that_of_all_real_layers(name, kinds):
    ours = "".join(layer.kind for layer in parse(MODELS[name].layers).layers)
    assert all(ours.count(kind) * len(kinds) == kinds.count(kind) * len(ours) for kind in ours + kinds)


@pytest.mark.parametrize("engine", ["llama_cpp", "ik_llama", "mlx_lm"])
def test_every_engine_starts_with_every_one_of_them(engine):
    for name in known_models(ENGINES[engine].manual):
        model, note, _ = model_named(name, engine)
        assert name in note and split_sizes(model)[0] in note
        ENGINES[engine].start(ENGINES[engine].line[-1], model, {}, "none")


def test_a_real_model_that_an_engine_does_not_have_is_no_model_of_it():
    with pytest.raises(BadInput, match="ik_llama has no model 'mamba-2'"):
        model_named("mamba2", "ik_llama")


def test_names_of_ours_keep_their_meaning():
    for engine in ENGINES.values():
        for name in engine.manual.models:
            assert model_named(name, engine.name).model == name
    assert "gemma-3 has those of the real one" in model_named("gemma3").note
    assert model_named("gemma-3").model == "W512 W512 W512 W512 W512 A@4096/0/256/4505"
    assert model_named("qwen3.5").model == "qwen35-GGGA@32768/17563648"
    assert model_named("qwen3.5", "mlx_lm").model == "GGGA@32768/17563648"
    family = model_named("qwen3.6")
    assert family.model == "qwen35-GGGA" and "limits in bytes count the sizes of a tiny model" in family.note
    assert model_named("gemma-2", "mlx_lm").model == "AAAA"


def test_what_is_no_model():
    with pytest.raises(BadInput, match="unknown model 'qwen4-next'"):
        model_named("qwen4-next")
    with pytest.raises(BadInput, match=r"at column 1 is not a layer|unknown kind"):
        model_named("XYZ")


def test_a_line_says_what_it_stands_for(capsys):
    assert main(["run", "S8/S", "--model", "Qwen3-Next", "--json"]) == exits.HOLDS
    out, err = capsys.readouterr()
    assert json.loads(out)["runs"][0]["model"] == "GGGA@24576/26345472"
    assert err == ("cachesim: qwen3-next is GGGA: 48 layers, 12 with attention, 36 with states; a token: 24,576 bytes, "
                   "its states: 79,036,416 bytes\n")
    assert from_line("S8", model="gpt-oss").model == "W128 A@36864/0/64"


@pytest.mark.parametrize(("model", "reused"), [("qwen3.5-397b-a17b", 0), ("qwen3.5-0.8b", 96), ("GGGA", 96)])
def test_the_prompt_cache_holds_as_many_bytes_as_under_the_real_model(model, reused):
    """The states of the largest one take 187 MiB, and an entry holds them twice: at its end, and in a checkpoint."""
    case = from_line("A100/B100/A", model=model, server={"cache_ram": 256, "parallel": 1})
    assert cachesim.run(case, "llama_cpp@b11549").requests[-1][1].cache_n == reused


def test_a_file_may_name_one(tmp_path, capsys):
    file = tmp_path / "good.toml"
    file.write_text(GOOD.replace('model = "GGGA"', 'model = "qwen3-next"'))
    assert (load(file).model, load(file).model_note[:10]) == ("GGGA@24576/26345472", "qwen3-next")
    file.write_text(GOOD.replace('model = "GGGA"', 'model = "gemma3"'))
    assert (load(file).model, load(file).model_note) == ("gemma3", "")


def test_the_list_has_them_with_their_sources(capsys):
    main(["options", "llama_cpp", "--json"])
    known = {one["name"]: one for one in json.loads(capsys.readouterr().out)["known"]}
    assert known["qwen3-next"]["layers"] == "GGGA" and "qwen3_next" in known["qwen3-next"]["source"]
    main(["options", "llama_cpp"])
    assert "W4096 W4096 W4096 A" in capsys.readouterr().out


@pytest.mark.parametrize(("text", "name"), [
    ("Qwen/Qwen3.5-4B", "qwen3.5-4b"), ("qwen3.5", "qwen3.5"), ("Qwen/Qwen3.5-9B-Instruct", "qwen3.5"),
    ("Qwen/Qwen3.5-122B-A10B-FP8", "qwen3.5-122b-a10b"), ("Qwen3.5-8B", ""), ("Qwen3-32B", "qwen3-32b"),
    ("qwen2.5-vl-7b", ""),
    ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-FP8", "nemotron-3-nano"), ("mixtral-8x7b", "mixtral-8x7b"),
    ("llama-3.3-70b", ""), ("llama-3.3", ""), ("qwen3-coder", ""), ("qwq", ""), ("GLM-5.3", ""), ("Qwen3.6-9B", ""),
    ("Meta-Llama-3-8B-Instruct", ""), ("Meta-Llama-3.1-8B-Instruct", "llama-3"), ("gemma-3-27b-it", "gemma-3-27b"),
    ("Qwen3-4B-Instruct-2507", "qwen3-4b-2507"), ("Qwen3-8B-2507", ""), ("Qwen2.5-7B-Instruct", "qwen2.5-7b-instruct"),
    ("ibm-granite/granite-4.0-h-350m", "granite-4.0-h-350m"), ("gpt-oss-20b", "gpt-oss-20b"), ("gpt-oss-9b", ""),
    ("google/gemma-4-31B-it", "gemma-4-31b"), ("gemma-4-12b", ""), ("mamba2-2.7b", "mamba-2"), ("GGGA", ""),
])  # fmt: skip
def test_the_sizes_of_a_name_are_those_of_this_very_model(text, name):
    assert sized_name(text) == name


@pytest.mark.parametrize(("text", "unverified"), [
    ("zai-org/GLM-5.1", False), ("zai-org/GLM-5", False), ("GLM-5.3-FP8", True), ("Qwen3-Coder-Next", True),
    ("qwen3-next", False), ("nothing", False),
])  # fmt: skip
def test_a_name_whose_configuration_was_not_found_is_said_to_be_unverified(text, unverified):
    assert is_unverified(text) == unverified
    if find(text):
        assert ("was not found in public" in model_named(text).note) == unverified


def test_the_first_mistral_has_a_window_under_vllm():
    assert model_named("mistralai/Mistral-7B-Instruct-v0.1", "vllm").model == "W4096"
    assert model_named("mistralai/Mistral-7B-Instruct-v0.1", "llama_cpp").model == "AAAA"
    assert model_named("mistralai/Mistral-7B-Instruct-v0.3", "vllm").model == "AAAA"


def test_the_name_of_a_real_model_sets_the_option_for_its_sizes():
    for text in ("qwen3.5-27b", "Qwen/Qwen3.5-27B-Instruct"):
        assert model_named(text, "vllm").options == {"real_model": "qwen3.5-27b"}
    assert from_line("A40/A", model="qwen3.5-27b", profiles=("vllm@0.33.0",)).server == {"real_model": "qwen3.5-27b"}
    assert model_named("qwen3.5-27b", "llama_cpp").options == {"n_ctx_train": 262144}
    assert model_named("unsloth/Qwen3-8B-128K-GGUF", "llama_cpp").options == {}
    assert model_named("qwen3.5-27b", "mlx_lm").options == {} == model_named("GGGA", "vllm").options


def test_a_hybrid_whose_sizes_are_not_known_is_named_in_the_note():
    assert "the sizes of its layers are not known" in model_named("jamba", "vllm").note
    assert "not known" not in model_named("qwen3-32b", "vllm").note + model_named("qwen3.5-4b", "vllm").note


def test_a_path_of_a_file_or_of_its_folder_names_a_model_file(tmp_path):
    assert (model_file("some.gguf"), model_file("a/some.json"), model_file("qwen3")) == ("some.gguf", "a/some.json", "")
    assert model_file(str(tmp_path)) == ""
    (tmp_path / "config.json").write_text("{}")
    assert model_file(str(tmp_path)) == str(tmp_path / "config.json")


def test_a_folder_in_the_working_directory_is_no_model_without_a_separator(tmp_path, monkeypatch):
    (tmp_path / "qwen").mkdir()
    (tmp_path / "qwen" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert (model_file("qwen"), model_file("./qwen")) == ("", "qwen/config.json")
