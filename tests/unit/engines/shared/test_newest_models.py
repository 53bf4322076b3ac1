"""The newest architectures of llama.cpp by name, in files and in logs; other engines refuse them in one line."""

import json

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.shared.model_layers import layers_in
from cachesim.engines.shared.model_sizes import real_model, short_notation
from cachesim.engines.shared.newest_models import MEMORIES
from cachesim.model.spec import parse
from tests.shared import MODELS, needs

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
    "deepseek-v4": "W32 D4.32.12", "deepseek-ai/DeepSeek-V3.2-Exp": "I2048", "glm-5": "I2048", "hunyuan-v4": "I2048",
    "minimax-m3": "", "qwen3.8-flash-next": "G P48", "dots-3": "W32 I48",
}  # fmt: skip
FILES = {
    "deepseek4": "W32 D4.32.12 D128.32 D4.32.12", "deepseek32": "I48", "dots3note": "W32 I48",
    "minimax-m3": "A B4 B4 B4", "qwen4exp": "G P48",
}  # fmt: skip


@pytest.mark.parametrize(("name", "told"), NAMES.items())
def test_a_name_is_simulated(capsys, name, told):
    assert main(["run", "S40.A20/S.A.B9", "--model", name]) == exits.HOLDS
    out = capsys.readouterr()
    assert told in out.out + out.err


@pytest.mark.parametrize("profile", ["mlx_lm@d78bf58e", "ik_llama@1889-base", "vllm@latest", "sglang@latest"])
@pytest.mark.parametrize("model", ["deepseek-v4", "glm-5", "I48"])
def test_another_engine_refuses_it_in_one_line(capsys, profile, model):
    assert main(["run", "S4/S", "--model", model, "-p", profile]) == exits.BAD_INPUT
    error = capsys.readouterr().err
    assert ("has no layers of kind" in error or "is not simulated" in error) and error.count("\n") == 1


@needs(MODELS / "tiny-deepseek4.gguf")
@pytest.mark.parametrize(("file", "layers"), FILES.items())
def test_a_file_has_its_layers(file, layers):
    assert short_notation(layers_in(MODELS / f"tiny-{file}.gguf")) == layers


@needs(MODELS / "tiny-deepseek4.gguf")
@pytest.mark.parametrize("file", FILES)
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


CONFIG = {"num_hidden_layers": 4, "num_attention_heads": 4, "hidden_size": 64, "head_dim": 16}
V32 = {"model_type": "deepseek_v32", "kv_lora_rank": 32, "qk_rope_head_dim": 16, "index_topk": 48, "index_head_dim": 64}
V4 = {"model_type": "deepseek_v4", "compress_ratios": [0, 4, 128, 4], "sliding_window": 32, "index_topk": 12,
      "index_head_dim": 64}  # fmt: skip


@pytest.mark.parametrize(("keys", "layers"), [
    (V32, "I48"), (V4, "W32 D4.32.12 D128.32 D4.32.12"),
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
