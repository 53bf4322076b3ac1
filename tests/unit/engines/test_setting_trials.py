"""Settings that are worth a trial, and the smallest sufficient size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.engines.capabilities import ServerLoad
from cachesim.engines.registry import ENGINES
from cachesim.engines.setting_trials import ServerSettings, SettingRole, setting_trials, sufficient_size

LOAD = ServerLoad(2000, 5000, 3)


def trials(engine, assumed=(), **now):
    """Trials on a server with these options."""
    manual = ENGINES[engine].manual
    return list(setting_trials(manual, ServerSettings({**manual.defaults, **now}, manual.defaults, {*assumed}), LOAD))


@given(st.integers(0, 300), st.integers(1, 700), st.integers(1, 64), st.integers(0, 400))
def test_of_sizes_of_which_more_is_never_worse_the_smallest_is_found(low, more, step, least):
    high = low + more
    enough = min(max(low + 1, least), high)
    found = sufficient_size(low, high, step, lambda size: size >= enough)
    sizes = [low, *(size for size in range(low + 1, high) if size % step == 0), high]
    assert found.value == min(size for size in sizes if size >= enough)
    assert found.below == max(size for size in sizes if size < found.value)


@given(st.sets(st.integers(1, 99)))
def test_of_other_sizes_the_result_suffices_and_the_next_smaller_one_does_not(enough):
    found = sufficient_size(0, 100, 1, lambda size: size in enough)
    assert found.value in enough | {100} and found.below == found.value - 1 and found.below not in enough


def test_a_sufficient_size_below_others_that_fail_is_found_where_sizes_are_probed():
    found = sufficient_size(0, 100, 1, lambda size: 45 <= size <= 55)
    assert (found.value, found.below) == (45, 44)


@pytest.mark.parametrize(("engine", "options", "first"), [
    ("llama_cpp", {"ctx_checkpoints": 0}, {"ctx_checkpoints": 256}),
    ("ik_llama", {"cache_ram_similarity": 0.1}, {"cache_ram_similarity": 0.5}),
    ("mlx_lm", {"prompt_cache_size": 1}, {"prompt_cache_size": 100}),
    ("vllm", {"enable_prefix_caching": False}, {"enable_prefix_caching": True}),
    ("sglang", {"page_size": 64}, {"page_size": 1}),
])  # fmt: skip
def test_a_value_that_was_given_is_exchanged_first(engine, options, first):
    found = trials(engine, **options)
    assert found[0].options == first and found[0].is_reset
    assert not any(one.options == first for one in found[1:])


def test_what_describes_the_model_and_what_is_assumed_has_no_other_value():
    assert not any("real_model" in one.options for one in trials("vllm", real_model="qwen3-8b"))
    assert any("num_gpu_blocks" in one.options for one in trials("vllm"))
    assert not any("num_gpu_blocks" in one.options for one in trials("vllm", assumed=["num_gpu_blocks"]))


def test_a_group_with_longer_blocks_gets_those_of_the_others():
    found = [one for one in trials("vllm", kv_groups="A/16 W32/128") if one.role is SettingRole.GROUP]
    assert [one.options["kv_groups"] for one in found] == ["", "A/16 W32/16"]
