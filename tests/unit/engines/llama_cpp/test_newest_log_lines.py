"""Lines that b11549 prints about the newest memories, and what ``explain`` says about them."""

import json

import pytest

from cachesim.base import exits
from cachesim.cli.main import main

LINES = (
    "llama_dsv4_comp_state:        CPU DSV4 csa state buffer size =     0.06 MiB",
    "llama_dsv4_comp_state: csa ratio = 4, state = 8 x 64, streams = 1, rs_seq = 0, layers = 2, size =    0.06 MiB",
    "graph: flash attention disabled; MSA requires it -> running DENSE attention (output may be "
    "degraded). Enable flash attention for MSA.",
    "graph: unified KV cache with n_seq_max > 1; MSA needs per-sequence streams -> running DENSE "
    "attention. Output may be degraded. Drop --kv-unified to enable MSA.",
    "common_init_: KV cache shifting is not supported for this context, disabling KV cache shifting",
    "load_model: swa_full is not supported by this model, it will be disabled",
    "llama_init_from_model: model does not support different K (q8_0) and V (f16) cache types",
    "state_read: n_stream mismatch",
    "llama_kv_cache_dsa: creating indexer KV cache, size = 4096 cells",
    "llama_kv_cache_dsv4: creating DSV4 CSA compressed KV cache, size = 1024 cells",
)


@pytest.mark.parametrize("line", LINES)
def test_a_line_about_the_memory_is_explained(capsys, line):
    assert main(["explain", line, "--json"]) == exits.HOLDS
    assert json.loads(capsys.readouterr().out)["found"] == "line"


@pytest.mark.parametrize("model", ["deepseek4", "deepseek32", "dots3note", "deepseek-v4"])
def test_a_server_with_two_types_of_rows_does_not_start(capsys, model):
    assert main(["run", "A9/A", "--model", model, "-ctk", "q8_0"]) == exits.BAD_INPUT
    error = capsys.readouterr().err
    assert "need one type of K and V rows, not q8_0 and f16 (-ctv q8_0)" in error
    assert main(["run", "A9/A", "--model", model, "-ctk", "q8_0", "-ctv", "q8_0"]) == exits.HOLDS


@pytest.mark.parametrize("model", ["deepseek-v4", "glm-5.2", "glm-5.3-flash"])
def test_memory_refuses_two_types_where_v_is_part_of_k(capsys, model):
    words = ["memory", model, "-c", "4096", "-np", "1"]
    assert main([*words, "-ctk", "q8_0"]) == exits.BAD_INPUT
    error = capsys.readouterr().err
    assert "the server does not start: " in error and "not q8_0 and f16" in error
    assert main(words) == exits.HOLDS
    assert "--cache-type" not in capsys.readouterr().out
    assert main([*words, "-ctk", "q8_0", "-ctv", "q8_0"]) == exits.HOLDS
