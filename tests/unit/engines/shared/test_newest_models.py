"""The newest architectures of llama.cpp by name, in files and in logs; other engines refuse them in one line."""

import json
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.shared.model_layers import layers_in
from cachesim.engines.shared.model_sizes import real_model, short_notation
from cachesim.engines.shared.newest_models import MEMORIES
from cachesim.model.spec import parse
from tests.shared import MODELS, needs
from tests.unit.engines.shared.test_model_sizes import gguf

START = """srv    load_model: initializing slots, n_slots = 1
slot launch_slot_: id  0 | task 0 | processing task, is_child = 0
slot update_slots: id  0 | task 0 | new prompt, n_ctx_slot = 8192, n_keep = 0, task.n_tokens = 500
slot print_timing: id  0 | task 0 | prompt eval time =     100.00 ms /   500 tokens
slot      release: id  0 | task 0 | stop processing: n_tokens = 510, truncated = 0
"""
LINES = {
    "llama_kv_cache_dsv4: creating DSV4 raw KV cache": "W128 D4.128 D128.128",
    "llama_kv_cache_dsa: creating main KV cache, size = 4096 cells": "I2048",
    "llama_kv_cache_dsa_iswa: creating DSA KV cache, size = 4096 cells": "W128 I2048",
    "llama_kv_cache_msa: creating indexer KV cache, size = 4096 cells": "A B128",
    "llama_memory_hybrid_idx: creating indexer KV cache, size = 4096 cells": "G P2048",
}
NAMES = {
    "deepseek-v4": "W128 D4.128.512 D128.128", "deepseek-ai/DeepSeek-V3.2-Exp": "I2048", "glm-5": "I2048",
    "hunyuan-v4": "I2048 A A A", "zai-org/GLM-5.3-Flash": "G G G P2048", "deepseek-v4-pro": "D128.128 D4.128.1024",
    "qwen3.8-flash-next": "G G G P2048", "dots-3": "I2048 W513 W513 W513",
}  # fmt: skip
FILES = {
    "deepseek4": "W32 D4.32.12 D128.32 D4.32.12", "deepseek32": "I48", "dots3note": "W32 I48",
    "minimax-m3": "A B4 B4 B4", "qwen4exp": "G P48",
}  # fmt: skip
IK_FILES = ("deepseek4", "minimax-m3")
"""Those whose caches ik_llama.cpp has in known sizes."""


@pytest.mark.parametrize(("name", "told"), NAMES.items())
def test_a_name_is_simulated(capsys, name, told):
    assert main(["run", "S40.A20/S.A.B9", "--model", name]) == exits.HOLDS
    out = capsys.readouterr()
    assert told in out.out + out.err


BYTES = {
    "deepseek-v3.2": {"attention rows": 61 * 576 * 2, "index rows": 61 * 128 * 2},
    "glm-5.2": {"attention rows": 78 * 576 * 2, "index rows": 21 * 128 * 2},
    "glm-5.3-flash": {"attention rows": 11 * 512 * 2, "index rows": 11 * 3 * 128 * 2,
                      "states": 34 * 64 * 128 * (3 * 3 + 128) * 4},
    "hunyuan-v4": {"attention rows": 34 * 576 * 2, "index rows": 10 * 128 * 2},
    "dots-3": {"attention rows": 13 * 576 * 2, "index rows": 13 * 128 * 2, "window rows": 33 * 1088 * 2},
    "minimax-m3": {"attention rows": 60 * 2 * 512 * 2, "index rows": 57 * 2 * 128 * 2},
    "qwen3.8-flash-next": {
        "attention rows": 12 * 2 * 512 * 2, "index rows": 12 * 2 * 128 * 2,
        "states": (36 * (3 * (2 * 2048 + 6144) + 48 * 128 * 128) + 3 * 3 * 4 * 2560) * 4},
    "deepseek-v4-flash": {
        "window rows": 43 * 512 * 2,
        "compressed rows": (21 * 32768 * 512 + 20 * 1024 * 512 + 21 * 32768 * 128) * 2,
        "rings": (21 * 2 * 8 * 1024 + 20 * 2 * 128 * 512 + 21 * 2 * 8 * 256) * 4},
}  # fmt: skip
"""Model -> bytes of a cell, a slot or a state, from the numbers of its config.json."""


@pytest.mark.parametrize(("name", "each"), BYTES.items())
def test_the_memory_of_a_released_model_follows_from_its_numbers(capsys, name, each):
    assert main(["memory", name, "-np", "1", "-c", "131072", "-cram", "0", "-ctxcp", "0", "--json"]) == exits.HOLDS
    [found] = json.loads(capsys.readouterr().out)["memory"]
    assert {part["name"]: part["each"] for part in found["parts"]} == each


POOLED = "qwen3.8-flash-next"


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_an_engine_with_sizes_of_real_models_refuses_the_newest(capsys, engine):
    assert main(["run", "S4/S", "--model", "A", "-p", engine, "--set", f"real_model={POOLED}"]) == exits.BAD_INPUT
    assert "its layers have attention to the best pools" in capsys.readouterr().err


def test_the_draft_context_of_compressed_rows_has_a_window_of_k_and_v(capsys):
    words = ["deepseek-v4", "--spec-type", "draft-mtp", "-np", "1", "-c", "4096", "-cram", "0", "-ctxcp", "0", "--json"]
    assert main(["memory", *words]) == exits.HOLDS
    [found] = json.loads(capsys.readouterr().out)["memory"]
    parts = {part["name"]: (part["each"], part["number"]) for part in found["parts"]}
    assert parts["draft: window rows"] == (2 * 512 * 2, parts["window rows"][1])


def test_a_draft_context_has_the_layer_of_its_head():
    heads = {name: [(one.kind, one.key, one.value, one.index_key) for one in real_model(name).heads]
             for name in ("deepseek-v4", "deepseek-v3.2", "qwen3.8-flash-next", "glm-5-next", "minimax-m3")}
    assert heads == {
        "deepseek-v4": [("W", 512, 512, 0)], "deepseek-v3.2": [("A", 576, 0, 0)],
        "qwen3.8-flash-next": [("P", 512, 512, 256)], "glm-5-next": [("P", 512, 0, 384)], "minimax-m3": [],
    }  # fmt: skip


@pytest.mark.parametrize("profile", ["mlx_lm@d78bf58e", "ik_llama@1889-base", "vllm@latest", "sglang@latest"])
@pytest.mark.parametrize("model", ["dots-3", "hunyuan-v4", "I48"])
def test_another_engine_refuses_it_in_one_line(capsys, profile, model):
    assert main(["run", "S4/S", "--model", model, "-p", profile]) == exits.BAD_INPUT
    error = capsys.readouterr().err
    assert ("has no layers of kind" in error or "is not simulated" in error) and error.count("\n") == 1


@needs(MODELS / "tiny-deepseek4.gguf")
@pytest.mark.parametrize(("file", "layers"), FILES.items())
def test_a_file_has_its_layers(file, layers):
    assert short_notation(layers_in(MODELS / f"tiny-{file}.gguf")) == layers


@needs(MODELS / "tiny-deepseek4.gguf")
@pytest.mark.parametrize("file", IK_FILES)
def test_ik_llama_knows_the_memory_of_some(capsys, file):
    assert main(["memory", str(MODELS / f"tiny-{file}.gguf"), "-p", "ik_llama@1889-base"]) == exits.HOLDS
    assert "not recorded" in " ".join("".join(capsys.readouterr()).split())


@needs(MODELS / "tiny-deepseek4.gguf")
@pytest.mark.parametrize("file", [file for file in FILES if file not in IK_FILES])
def test_another_engine_does_not_know_the_memory_of_a_file(capsys, file):
    name = str(MODELS / f"tiny-{file}.gguf")
    assert main(["memory", name]) == exits.HOLDS
    capsys.readouterr()
    assert main(["memory", name, "-p", "ik_llama@1889-base"]) == exits.BAD_INPUT
    error = capsys.readouterr().err
    assert "the memory of" in error and "is not known" in error and error.count("\n") == 1


NOTES = {
    "deepseek32 --cache-reuse 256": "index keys of moved tokens are spoilt; answers change beyond 48 tokens",
    "deepseek4 --context-shift": "switches --context-shift off: positions of this memory cannot be moved",
    "deepseek4 -np 4 -kvu": "gives each of 4 slots the whole context",
    "minimax-m3": "all rows are read instead of the chosen blocks",
    "qwen4exp -np 1": "", "deepseek32 -np 1": "", "minimax-m3 -np 1": "",
}


@needs(MODELS / "tiny-deepseek4.gguf")
@pytest.mark.parametrize(("words", "told"), NOTES.items())
def test_flags_that_change_answers_are_noted_with_the_memory(capsys, words, told):
    name, *flags = words.split()
    assert main(["memory", str(MODELS / f"tiny-{name}.gguf"), "-c", "4096", *flags]) == exits.HOLDS
    out = " ".join(capsys.readouterr().out.split())
    assert (told in out) and ("note:" in out) is bool(told)


@pytest.mark.parametrize(("line", "layers"), LINES.items())
def test_a_log_that_shows_the_memory_is_simulated_with_it(tmp_path, capsys, line, layers):
    log = tmp_path / "server.log"
    log.write_text(f"{line}\n{START}")
    main(["import", str(log), "--json"])
    assert f'model = "{layers}"' in json.loads(capsys.readouterr().out)["logs"][0]["toml"]


def test_every_class_of_memory_has_layers():
    assert set(MEMORIES) == {"dsv4", "dsa", "dsa_iswa", "msa", "hybrid_idx"}
    for layers in MEMORIES.values():
        parse(layers.format(128))


KDA = {"block_count": 5, "nextn_predict_layers": 1, "attention.head_count": 4,
       "attention.head_count_kv": [0, 0, 0, 1, 1], "attention.key_length": 32, "attention.key_length_mla": 16,
       "attention.indexer.top_k": 48,
       "attention.indexer.key_length": 64, "attention.indexer.kpool": 4, "kda.head_dim": 16, "ssm.conv_kernel": 4,
       "context_length": 4096, "embedding_length": 64}  # fmt: skip
GLM = {"block_count": 6, "attention.head_count": 4, "attention.head_count_kv": 1, "attention.key_length": 48,
       "attention.key_length_mla": 16, "attention.indexer.top_k": 48, "attention.indexer.key_length": 64,
       "embedding_length": 64}  # fmt: skip


@pytest.mark.parametrize(("arch", "keys", "layers"), [
    ("glm5-next", KDA, "G G G P48"), ("glm-dsa", {**GLM, "context_length": 202752}, "I48"),
    ("glm-dsa", {**GLM, "context_length": 1048576}, "I48 I48 I48 A A A"),
    ("glm-dsa", {**GLM, "context_length": 1048576, "attention.indexer.types": [1, 0, 0]}, "I48 A A"),
])  # fmt: skip
def test_a_gguf_has_the_layers_of_its_architecture(tmp_path, arch, keys, layers):
    found = layers_in(Path(gguf(tmp_path, arch, keys)))
    assert short_notation(found) == layers
    if arch == "glm5-next":
        assert [(one.state // 4, one.index_key) for one in found.layers] == [(16 * 4 * (9 + 16), 0)] * 3 + [(0, 192)]
        assert [(one.kind, one.key, one.value, one.index_key) for one in found.heads] == [("P", 32, 0, 192)]


CONFIG = {"num_hidden_layers": 4, "num_attention_heads": 4, "hidden_size": 64, "head_dim": 16}
V32 = {"model_type": "deepseek_v32", "kv_lora_rank": 32, "qk_rope_head_dim": 16, "index_topk": 48, "index_head_dim": 64}
V4 = {"model_type": "deepseek_v4", "compress_ratios": [0, 4, 128, 4], "sliding_window": 32, "index_topk": 12,
      "index_head_dim": 64}  # fmt: skip


@pytest.mark.parametrize(("keys", "layers"), [
    (V32, "I48"), (V4, "W32 D4.32.12 D128.32 D4.32.12"),
    ({**V32, "model_type": "dots3_note", "sliding_window_size": 32, "swa_kv_lora_rank": 16,
      "swa_qk_rope_head_dim": 8}, "I48 I48 W32 W32"),
    ({"model_type": "minimax_m2", "num_key_value_heads": 1, "sparse_attention_config": {
        "sparse_index_dim": 8, "sparse_topk_blocks": 4, "sparse_block_size": 16,
        "sparse_attention_freq": [0, 1, 1, 1]}}, "A B4 B4 B4"),
    ({**V32, "model_type": "glm_moe_dsa", "indexer_types": ["full", "full", "shared", "full"]}, "I48 I48 A I48"),
])  # fmt: skip
def test_a_configuration_has_the_layers_of_its_type(tmp_path, keys, layers):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**CONFIG, **keys}))
    assert short_notation(real_model(str(file))) == layers


@pytest.mark.parametrize(("keys", "told"), [
    ({"model_type": "new", "index_topk": 2048}, "unknown kind of layers"),
    ({**V4, "compress_ratios": [0, 4]}, "compress_ratios is shorter"),
    ({"model_type": "rwkv7"}, r"size of its states \(RWKV\) is not known"),
])  # fmt: skip
def test_a_configuration_with_unknown_layers_is_refused(tmp_path, keys, told):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**CONFIG, **keys}))
    with pytest.raises(BadInput, match=told):
        real_model(str(file))
