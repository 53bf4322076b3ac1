"""Tests of servers for workloads: numbers that count tokens are scaled and listed."""

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES, rules_of
from cachesim.engines.shared.model_sizes import sizes_of
from cachesim.tools.workload.simulated_servers import scaled, scaled_windows, served, unlimited

QWEN = sizes_of("qwen3-next")


def test_a_number_of_tokens_becomes_no_zero():
    assert [scaled(n, 64) for n in (-1, 0, 1, 95, 96, 640)] == [-1, 0, 1, 1, 2, 10]


@pytest.mark.parametrize("profile", ["llama_cpp@b11549", "ik_llama@main", "mlx_lm@0.32.2"])
def test_every_option_that_counts_tokens_is_scaled(profile):
    found = served(profile, QWEN, {}, 1000, 64)
    counted = {flag.name for flag in found.engine.manual.flags if flag.tokens}
    assert found.shown and set(found.shown) <= counted | set(found.engine.manual.token_numbers)
    assert all(pair.scaled == max(1, (pair.real + 32) // 64) for pair in found.shown.values())
    assert all(found.flags.get(name, pair.scaled) == pair.scaled for name, pair in found.shown.items())


def test_an_option_of_one_token_stays_one_and_is_told():
    found = served("llama_cpp@b11549", QWEN, {"cache_reuse": 1, "ctx_checkpoints": 1}, 1000, 64)
    assert (found.shown["cache_reuse"], found.flags["cache_reuse"]) == ((1, 1), 1)
    assert "ctx_checkpoints" not in found.shown                  # does not count tokens


def test_a_context_that_is_not_given_has_room_for_the_longest_request():
    flags = served("llama_cpp@b11549", QWEN, {"parallel": 2}, 300_000).flags
    assert flags["ctx_size"] == 2 * 524_288
    assert served("llama_cpp@b11549", QWEN, {"parallel": 2, "kv_unified": True}, 9).flags["ctx_size"] == 262_144
    assert served("llama_cpp@b11549", QWEN, {"ctx_size": 4096}, 9).flags["ctx_size"] == 4096


def test_a_scaled_token_weighs_as_much_as_those_that_it_stands_for():
    assert served("llama_cpp@b11549", QWEN, {}, 9, 64).model == f"GGGA@{64 * 24576}/26345472"


def test_a_window_is_scaled_with_the_tokens():
    assert scaled_windows("W128 A W128 A", 64) == "W2 A W2 A"
    with pytest.raises(BadInput, match="a window of 100 tokens is not a multiple of the scale 64"):
        scaled_windows("W100 A", 64)


def test_every_engine_says_how_its_limits_are_lifted():
    assert all(set(one.manual.unlimited) <= set(one.manual.defaults) for one in ENGINES.values())
    assert all(ENGINES[name].manual.unlimited for name in ("llama_cpp", "ik_llama", "mlx_lm"))


def test_without_a_scale_a_server_has_its_own_rules_and_the_given_options():
    found = served("llama_cpp@b11549", "GA", {"ctx_size": 4096, "parallel": 2}, 9)
    assert (found.flags, found.shown, found.model) == ({"ctx_size": 4096, "parallel": 2}, {}, "GA")
    assert found.rules is rules_of("llama_cpp@b11549") and (found.engine.name, found.profile) == (
        "llama_cpp", "llama_cpp@b11549")  # fmt: skip
    assert served("vllm@0.33.0", "A", {}, 9).flags == {}
    fewer = served("llama_cpp@b11549", "W128 A", {"ctx_size": 4096}, 9, 64)
    assert (fewer.flags["ctx_size"], fewer.model, fewer.shown["ctx_size"]) == (64, "W2 A", (4096, 64))
    assert fewer.rules is not found.rules


@pytest.mark.parametrize(("room", "size"), [(0, 262_144), (262_144, 262_144), (262_145, 524_288)])
def test_a_context_is_a_power_of_two_and_at_least_so_large(room, size):
    assert served("llama_cpp@b11549", "GA", {"parallel": 1}, room).flags["ctx_size"] == size


def test_a_server_without_limits_has_room_for_twice_all_tokens_in_each_slot():
    engine, given = ENGINES["llama_cpp"], {"parallel": 2, "ctx_checkpoints": 3}
    assert unlimited(engine, given, 1000) == {**given, **engine.manual.unlimited, "ctx_size": 4000}
    vllm = ENGINES["vllm"]
    assert unlimited(vllm, {"max_num_seqs": 2}, 1000) == {"max_num_seqs": 2, **vllm.manual.unlimited}
