"""Models whose memory is not simulated are refused in one line with the reason."""

import json

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.shared.model_sizes import real_model
from cachesim.engines.shared.unsimulated_models import CLASSES, unsimulated, unsimulated_in

START = """srv    load_model: initializing slots, n_slots = 1
slot launch_slot_: id  0 | task 0 | processing task, is_child = 0
slot update_slots: id  0 | task 0 | new prompt, n_ctx_slot = 8192, n_keep = 0, task.n_tokens = 500
slot print_timing: id  0 | task 0 | prompt eval time =     100.00 ms /   500 tokens
slot      release: id  0 | task 0 | stop processing: n_tokens = 510, truncated = 0
"""
LINES = {
    "print_info: arch                  = deepseek4": "llama_kv_cache_dsv4",
    "llama_kv_cache_dsv4: creating DSV4 raw KV cache": "llama_kv_cache_dsv4",
    "llama_kv_cache_dsa: creating main KV cache, size = 4096 cells": "llama_kv_cache_dsa",
    "llama_kv_cache_dsa_iswa: creating DSA KV cache, size = 4096 cells": "llama_kv_cache_dsa_iswa",
    "llama_kv_cache_msa: creating indexer KV cache, size = 4096 cells": "llama_kv_cache_msa",
    "llama_memory_hybrid_idx: creating indexer KV cache, size = 4096 cells": "llama_memory_hybrid_idx",
}
COMMANDS = ("memory {}", "run S4/S --model {}", "advise S4/S --model {}", "advise S4/S --sizes {}")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("model", ["deepseek-v4", "deepseek-ai/DeepSeek-V3.2-Exp", "glm-5", "minimax-m3", "qwen4exp"])
def test_a_name_is_refused_in_one_line(capsys, command, model):
    assert main(command.format(model).split()) == exits.BAD_INPUT
    error = capsys.readouterr().err
    assert f"model '{model}' is not simulated: its memory has " in error and error.count("\n") == 1


@pytest.mark.parametrize("name", ["jamba", "mamba-2", "qwen3-next", "deepseek-v3", "glm-4.5", "llama-3", "GGGA", ""])
def test_other_names_are_not_refused(name):
    assert unsimulated(name) == ""


@pytest.mark.parametrize(("line", "told"), LINES.items())
def test_a_log_that_shows_the_memory_is_read_but_not_simulated(tmp_path, capsys, line, told):
    log = tmp_path / "server.log"
    log.write_text(f"{line}\n{START}")
    assert main(["import", str(log), "--json"]) == exits.UNDECIDED
    found = json.loads(capsys.readouterr().out)["logs"][0]
    assert found["toml"] == "" and any(told in one and "not simulated" in one for one in found["missing"])
    assert main(["advise", str(log)]) == exits.BAD_INPUT
    assert told in capsys.readouterr().err


def test_other_logs_are_simulated(tmp_path, capsys):
    log = tmp_path / "server.log"
    windows = "llama_kv_cache_iswa: creating non-SWA KV cache, size = 4096 cells"
    log.write_text(f"print_info: arch = qwen3\n{windows}\n{START}")
    main(["import", str(log), "--json"])
    assert json.loads(capsys.readouterr().out)["logs"][0]["toml"]
    assert unsimulated_in({"arch": "qwen3"}) == "" and set(CLASSES) == {"dsv4", "dsa", "dsa_iswa", "msa", "hybrid_idx"}


@pytest.mark.parametrize(("keys", "told"), [
    ({"model_type": "deepseek_v4"}, "is not simulated"), ({"model_type": "new", "index_topk": 2048}, "sparse index"),
    ({"model_type": "rwkv7"}, r"size of its states \(RWKV\) is not known"),
])  # fmt: skip
def test_a_configuration_is_recognised_by_its_type_or_its_keys(tmp_path, keys, told):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"num_hidden_layers": 4, "num_attention_heads": 4, "hidden_size": 64, **keys}))
    with pytest.raises(BadInput, match=told):
        real_model(str(file))
