"""Options that a release resolves at its start agree with the released configuration classes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.vllm import ENGINE
from cachesim.engines.vllm.profiles import LINE, PROFILES
from cachesim.engines.vllm.start_options import derived_defaults, resolved
from cachesim.model import parse
from cachesim.scenarios.option_checks import spoken
from tests.unit.engines.vllm.released_defaults import answer

NGRAM = {"speculative_method": "ngram", "num_speculative_tokens": 1}
RELEASED = [line for line in (Path(__file__).parent / "released_defaults.txt").read_text("utf-8").splitlines()
            if not line.startswith("#")]  # fmt: skip


def test_defaults_are_those_of_the_released_configuration():
    assert [line for line in RELEASED if answer(line) != line] == []
    assert {line.partition(" ")[0] for line in RELEASED} == {name.partition("@")[2] for name in LINE}


@pytest.mark.parametrize("release, caches", [("0.27.1", False), ("0.28.0", True)])
def test_prefixes_of_hybrids_are_cached_by_default_from_0_28(release, caches):
    assert resolved(PROFILES[f"vllm@{release}"], parse("GA"), {})["enable_prefix_caching"] == caches


def test_the_server_has_the_resolved_options():
    server = ENGINE.start("vllm@0.33.0", "S", {"device_memory": 80}, "none")
    assert (server.opts.async_scheduling, server.opts.enable_prefix_caching) == (True, False)
    assert (server.opts.max_num_batched_tokens, server.opts.max_num_seqs) == (8192, 1024)


def test_a_given_value_is_kept():
    found = resolved(PROFILES["vllm@0.33.0"], parse("S"), {"enable_prefix_caching": True, "max_num_seqs": 300})
    assert found["enable_prefix_caching"] and found["mamba_cache_mode"] == "align" and found["max_num_seqs"] == 300


def test_a_release_refuses_a_combination_that_it_does_not_start_with():
    with pytest.raises(BadInput, match=r"vllm@0\.31\.0 does not start with async_scheduling and drafts of ngram"):
        ENGINE.start("vllm@0.31.0", "A", {"async_scheduling": True, **NGRAM}, "none")
    ENGINE.start("vllm@0.33.0", "A", {"async_scheduling": True, **NGRAM}, "none")


def test_a_changed_default_is_named():
    assert derived_defaults(PROFILES["vllm@0.33.0"], NGRAM) == []
    assert derived_defaults(PROFILES["vllm@0.32.0"], NGRAM) == [
        "async_scheduling off: chosen at the start of vllm@0.32.0"]
    assert derived_defaults(PROFILES["vllm@0.33.0"], {"device_memory": 160}) == [
        "max_num_batched_tokens 16384: chosen at the start of vllm@0.33.0",
        "max_num_seqs 1024: chosen at the start of vllm@0.33.0"]  # fmt: skip
    assert derived_defaults(PROFILES["vllm@0.33.0"], {"max_num_batched_tokens": 8}) == []


def test_a_given_value_that_equals_a_resolved_default_is_written():
    assert spoken({"enable_prefix_caching": True, "block_size": 16}, "vllm") == {"enable_prefix_caching": True}


def started(*settings):
    """Return the options with which a server of these settings starts."""
    rules = PROFILES["vllm@0.33.0"]
    given = dict(settings)
    ENGINE.check_start(rules, "AAAA", given)
    return resolved(rules, parse("AAAA"), given)


def test_the_length_is_that_of_the_model_unless_it_is_given():
    model = ("real_model", "qwen3")
    assert started(model)["max_model_len"] == 40960
    assert started(model, ("max_model_len", 0))["max_model_len"] == 0
    assert started(model, ("max_model_len", -1), ("num_gpu_blocks", 2561))["max_model_len"] == 40960
    assert started(model, ("max_model_len", -1), ("num_gpu_blocks", 2560))["max_model_len"] == -1
    assert started(model, ("max_model_len", 512), ("max_num_seqs", 1))["max_num_batched_tokens"] == 512
    with pytest.raises(BadInput, match="max_model_len 50000 exceeds the length of the model, 40960 tokens"):
        started(model, ("max_model_len", 50000))
    assert started(model, ("max_model_len", 50000), ("allow_long_max_model_len", True))["max_model_len"] == 50000


@pytest.mark.parametrize(("release", "length"), [("0.30.0", 40960), ("0.29.0", 131072), ("0.24.0", 131072)])
def test_releases_up_to_0_29_extend_the_length_by_yarn(tmp_path, release, length):
    """The numbers of the released functions (tests/peers/vllm_start)."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps({
        "model_type": "qwen3", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2,
        "head_dim": 64, "hidden_size": 512, "max_position_embeddings": 40960,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}))
    found = resolved(PROFILES[f"vllm@{release}"], parse("AAAA"), {"real_model": str(file)})
    assert found["max_model_len"] == length


def test_the_memory_of_the_pool_and_the_log_determine_its_blocks():
    """A block of Qwen3-8B has 2,359,296 bytes; so many hold 72,816 tokens, as the log would state."""
    model = ("real_model", "qwen3")
    assert started(model, ("kv_cache_memory_bytes", 10 << 30))["num_gpu_blocks"] == 4551
    assert started(model, ("kv_cache_size_tokens", 72816))["num_gpu_blocks"] == 4551
    with pytest.raises(BadInput, match="needs 2560 blocks, and 454 are usable"):
        started(model, ("kv_cache_memory_bytes", 1 << 30))
    with pytest.raises(BadInput, match="4,718,591 bytes do not hold two blocks of 2,359,296"):
        started(model, ("kv_cache_memory_bytes", 4718591))
    assert derived_defaults(PROFILES["vllm@0.33.0"], {"real_model": "qwen3"}) == [
        "max_model_len 40960: chosen at the start of vllm@0.33.0"]


def test_numbers_of_four_bytes_double_the_rows_and_the_blocks_of_states():
    wide, usual = (ENGINE.derived(PROFILES["vllm@0.33.0"], {"real_model": "qwen3", "kv_cache_memory_bytes": 9 << 30,
                                                          "model_dtype": name})[0] for name in ("float32", "auto"))
    assert ("4,718,592" in wide, "2,359,296" in usual) == (True, True)
