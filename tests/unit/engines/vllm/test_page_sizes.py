"""Blocks of real models: as servers logged them, and as the released function returns them."""

import tomllib
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES
from cachesim.engines.shared.model_sizes import known_sizes, real_model, sized_name
from cachesim.engines.shared.newest_sizes import CONFIGURATIONS
from cachesim.engines.vllm.flags import options
from cachesim.engines.vllm.page_sizes import (
    LayerBlocks,
    attention_block,
    derived_blocks,
    layer_blocks,
    model_blocks,
    row_bytes,
    state_bytes,
)
from cachesim.engines.vllm.profiles import V0_31_0, V0_33_0

HERE = Path(__file__).parent
LOGGED = tomllib.loads((HERE / "logged_blocks.toml").read_text())["log"]


def blocks(model, rules=V0_33_0, **given):
    """The blocks of a real model under these options."""
    return layer_blocks(rules, options({"real_model": sized_name(model), **given}))


def logged_options(log):
    """The options of a server with this log."""
    flags = log.get("flags", {})
    drafts = {"speculative_method": "mtp"} if flags.get("num_speculative_tokens") else {}
    return options({"real_model": log.get("sizes") or sized_name(log["model"]), **flags, **drafts})


@pytest.mark.parametrize("log", LOGGED, ids=lambda log: f"{log['model']}-{log['block']}")
def test_a_block_has_the_tokens_that_the_server_logs(log):
    assert log["source"].startswith("https://")
    assert layer_blocks(V0_33_0, logged_options(log)).full == log["block"]


@pytest.mark.parametrize("log", [log for log in LOGGED if "padding" in log], ids=lambda log: str(log["block"]))
def test_a_page_is_padded_as_the_server_logs(log):
    opts = logged_options(log)
    model = real_model(opts.real_model)
    state = state_bytes(model.states[0], model, opts)
    page = row_bytes(model.full[0], opts) * log["block"]
    assert f"{100 * (page - state) / state:.2f}" == log["padding"]


def test_at_least_seven_models_were_logged():
    assert len({log.get("sizes") or sized_name(log["model"]) for log in LOGGED}) >= 7


def test_a_block_has_the_tokens_that_the_released_function_returns():
    """The table comes from `python -m tests.peers.vllm_blocks --write`."""
    head, *lines = (HERE / "released_blocks.txt").read_text().splitlines()
    names = head.split()[2:-1]
    for line in lines:
        model, *values, block = line.split()
        given = {name: value if value.isalpha() or "float" in value or value == "fp8" else int(value)
                 for name, value in zip(names, values, strict=True)}  # fmt: skip
        if given["num_speculative_tokens"]:
            given["speculative_method"] = "mtp"
        opts = options({**given, "real_model": model})
        try:
            found = str(attention_block(V0_33_0, opts, real_model(model)))
        except BadInput:
            found = "None"
        assert found == block, line


@pytest.mark.parametrize(("given", "full"), [
    ({"block_size": 16}, 528), ({"block_size": 1056}, 1056), ({"block_size": 300}, 608),
    ({"attention_block_size": 272}, 272), ({"attention_block_size": 784, "block_size": 2112}, 784),
    ({"kv_cache_dtype": "fp8"}, 1056), ({"mamba_ssm_cache_dtype": "float16"}, 272),
])  # fmt: skip
def test_the_servers_flag_raises_a_block_and_the_logs_number_replaces_it(given, full):
    assert blocks("qwen3.5-4b", **given) == LayerBlocks(full, full, full)


@pytest.mark.parametrize(("model", "given", "full", "window"), [
    ("gemma-4-31b", {}, 32, 16), ("gemma-4-26b-a4b", {}, 32, 16), ("gemma-4-31b", {"tensor_parallel_size": 8}, 16, 16),
    ("gpt-oss-20b", {}, 16, 16), ("llama-3", {}, 16, 16), ("lfm2-1.2b", {}, 16, 16), ("mamba-2", {}, 16, 16),
])  # fmt: skip
def test_layers_with_smaller_rows_have_longer_blocks(model, given, full, window):
    found = blocks(model, **given)
    assert (found.full, found.window) == (full, window)


@pytest.mark.parametrize(("name", "kinds", "found"), [
    ("gemma-4-31b", ("full", "windows"), LayerBlocks(32, 16, 16)), ("gemma-4-31b", ("full",), LayerBlocks(16, 16, 16)),
    ("gemma-4-31b", ("windows",), LayerBlocks(16, 16, 16)),
    ("gpt-oss-20b", ("full", "windows"), LayerBlocks(16, 16, 16)),
    ("qwen3.5-4b", ("full", "states"), LayerBlocks(528, 528, 528)),
    ("qwen3.5-4b", ("states",), LayerBlocks(16, 16, 16)),
])  # fmt: skip
def test_a_layer_of_each_kind_determines_the_blocks(name, kinds, found):
    model = real_model(name)
    one = model._replace(layers=tuple(getattr(model, kind)[0] for kind in kinds))
    assert model_blocks(V0_33_0, options({}), one) == found


def test_layers_in_letters_have_the_blocks_of_the_options():
    assert layer_blocks(V0_33_0, options({})) == LayerBlocks(16, 16, 16)
    assert layer_blocks(V0_33_0, options({"block_size": 32, "mamba_block_size": 64})) == LayerBlocks(32, 32, 64)
    assert layer_blocks(V0_33_0, options({"attention_block_size": 528})) == LayerBlocks(528, 528, 528)


@pytest.mark.parametrize(("given", "message"), [
    ({"tensor_parallel_size": 3}, "tensor_parallel_size 3 does not divide the states of 'qwen3.5-4b'"),
    ({"real_model": "nosuch"}, "unknown sizes"),
])  # fmt: skip
def test_what_the_server_cannot_share_is_refused(given, message):
    with pytest.raises(BadInput, match=message):
        blocks("qwen3.5-4b", **given)


def test_blocks_with_a_state_for_every_block_are_not_guessed():
    with pytest.raises(BadInput, match="mamba_cache_mode all are not known"):
        blocks("qwen3.5-4b", V0_31_0, mamba_cache_mode="all")
    assert blocks("qwen3.5-4b", V0_31_0, mamba_cache_mode="all", attention_block_size=4224).full == 4224


def test_a_line_names_the_blocks_of_a_real_model_and_nothing_else():
    said, _ = derived_blocks(V0_33_0, options({"real_model": "qwen3.5-4b"}))
    assert said == "qwen3.5-4b: blocks of 528 tokens: a common prefix below 528 is not reused"
    assert "in window layers 16" in derived_blocks(V0_33_0, options({"real_model": "gemma-4-31b"}))[0]
    for given in ({}, {"real_model": "llama-3"}, {"real_model": "qwen3.5-4b", "kv_groups": "A/16 S/16"}):
        assert derived_blocks(V0_33_0, options(given)) == []


def test_every_model_with_known_sizes_starts():
    engine = ENGINES["vllm"]
    for name in {*known_sizes()} - {*CONFIGURATIONS}:
        model = real_model(name)
        layers = "".join(dict.fromkeys(layer.kind for layer in model.layers))
        notation = " ".join(f"W{model.window}" if letter == "W" else letter for letter in layers)
        engine.start(engine.newest, notation, {"real_model": name}, "none")


@pytest.mark.parametrize(("given", "block"), [
    ({}, 1920), ({"block_size": 64}, 1920), ({"block_size": 256}, 2048), ({"tensor_parallel_size": 2}, 1024),
    ({"mamba_prefill_checkpoint_alignment": 192}, 1920), ({"kv_cache_dtype": "fp8"}, 3840),
])  # fmt: skip
def test_a_block_of_latent_rows_beside_states_is_a_multiple_of_128(given, block):
    """A state has 3 * 3 * 4096 inputs of 2 bytes and 32 matrices of 128 * 128 numbers of 4 bytes: 2,170,880 bytes; a
    row has 576 numbers. A server logged 1920 for layers of these sizes (vllm-project/vllm#53749)."""
    assert blocks("kimi-linear", **given) == LayerBlocks(block, block, block)


@pytest.mark.parametrize(("given", "own", "width"), [
    ({}, "float32", 4), ({}, "bfloat16", 2), ({}, "", 2), ({"mamba_cache_dtype": "float32"}, "", 4),
    ({"mamba_ssm_cache_dtype": "bfloat16"}, "float32", 2), ({"mamba_ssm_cache_dtype": "float32"}, "bfloat16", 4),
])  # fmt: skip
def test_a_matrix_has_the_type_of_the_flag_or_that_of_the_model(given, own, width):
    model = real_model("qwen3.5-4b")._replace(state_type=own)
    layer = model.states[0]
    windows = layer.conv * (4 if "mamba_cache_dtype" in given else 2)
    assert state_bytes(layer, model, options(given)) == windows + layer.matrix * width


def test_a_state_without_a_convolution_has_the_bytes_of_its_matrix():
    model = real_model("qwen3.5-4b")
    layer = model.states[0]._replace(conv=0, inputs=0)
    assert state_bytes(layer, model, options({})) == layer.matrix * 4


def test_an_unknown_type_of_states_in_a_configuration_is_refused():
    model = real_model("qwen3.5-4b")._replace(state_type="int3")
    with pytest.raises(BadInput, match=r"unknown type of states 'int3' \(bfloat16, float16, float32\)"):
        state_bytes(model.states[0], model, options({}))


@pytest.mark.parametrize(("given", "own", "numbers"), [
    ({}, "", 2), ({}, "fp8", 1), ({}, "bfloat16", 2), ({"kv_cache_dtype": "fp8"}, "bfloat16", 1),
    ({"kv_cache_dtype": "bfloat16"}, "fp8", 2), ({"tensor_parallel_size": 2}, "fp8", 0.5),
])  # fmt: skip
def test_a_row_has_the_type_of_the_flag_or_that_of_the_model(given, own, numbers):
    layer = real_model("llama-3").full[0]
    assert row_bytes(layer, options(given), own) == (layer.key + layer.value) * numbers
    assert row_bytes(layer._replace(kv_heads=0), options(given), own) == (layer.key + layer.value) * max(1, numbers)
