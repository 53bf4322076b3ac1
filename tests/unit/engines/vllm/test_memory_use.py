"""Blocks of the pool in a given memory, as the source computes them."""

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES, rules_of
from cachesim.engines.shared.agent_settings import context_needed
from cachesim.engines.shared.memory_use import MemoryQuestion
from cachesim.engines.shared.model_sizes import real_model
from cachesim.engines.vllm.layer_groups import groups_of
from cachesim.engines.vllm.memory_use import BLOCK_SIZES, DENSE, FORMS, agent_settings, use

GIB = 1 << 30


def ask(model, room, **options):
    sizes = {flag.name: flag.default for flag in FORMS.flags}
    found = {**ENGINES["vllm"].manual.defaults, **sizes, **options}
    return MemoryQuestion(real_model(model), found, rules_of("vllm@0.33.0"), room)


def test_a_block_has_the_rows_of_all_layers_of_a_group():
    assert dict(use(ask("llama-3", 20 * GIB)).pool) == {"blocks": 10240, "tokens": 163840}
    assert groups_of(real_model("gpt-oss-20b")) == (1, 1, 0, 12)
    assert use(ask("gpt-oss-20b", 20 * GIB)).parts[0].each == 12 * 2048 * 16


def test_windows_hold_at_most_a_window_and_a_step():
    """A request of 131,072 tokens takes 8,192 blocks of attention, and of windows those of 4,223 tokens, as two steps
    overlap, and one."""
    found = use(ask("gpt-oss-20b", 20 * GIB))
    assert found.pool["tokens"] == int(found.pool["blocks"] / (8192 + 265) * 131072)


def test_chunks_of_cpu_memory_lie_in_the_host():
    _, chunks = use(ask("llama-3", 20 * GIB, num_cpu_chunks=1000, blocks_per_chunk=2)).parts
    assert (chunks.number, chunks.each, chunks.host) == (1000, 2 * use(ask("llama-3", 20 * GIB)).parts[0].each, True)


def test_a_block_of_a_hybrid_holds_a_state_of_each_layer_of_a_group():
    """Pages of 544 tokens of 2,048 bytes in 6 layers. A request of 262,144 tokens takes 482 blocks of attention, and
    two in each of three groups of states."""
    assert groups_of(real_model("qwen3.5-0.8b")) == (1, 0, 3, 6)
    found = use(ask("qwen3.5-0.8b", 10775 * 6 * 544 * 2048))
    assert found.parts[0].each == 6 * 544 * 2048
    assert dict(found.pool) == {"blocks": 10775, "tokens": int(10775 / 488 * 262144)}


@pytest.mark.parametrize(("options", "blocks"), [
    ({"mamba_prefill_checkpoint_alignment": 1}, 491), ({"enable_prefix_caching": False}, 485),
    ({"mamba_prefill_checkpoint_alignment": 1, "enable_prefix_caching": False}, 485),
    ({"speculative_method": "ngram", "num_speculative_tokens": 2}, 494),
])  # fmt: skip
def test_a_request_holds_a_state_for_each_group_and_those_that_its_options_need(options, blocks):
    """Of the blocks 482 are those of attention."""
    found = use(ask("qwen3.5-0.8b", 10775 * 6 * 544 * 2048, **options))
    assert dict(found.pool) == {"blocks": 10775, "tokens": int(10775 / blocks * 262144)}


def test_devices_and_types_divide_the_pages():
    one = use(ask("qwen3.5-27b", 20 * GIB)).parts[0].each
    assert use(ask("qwen3.5-27b", 20 * GIB, tensor_parallel_size=2)).parts[0].each * 2 == one
    assert use(ask("qwen3.5-27b", 20 * GIB, kv_cache_dtype="fp8")).parts[0].each < 2 * one


def test_a_pool_of_states_alone_has_pages_of_a_state():
    found = use(ask("mamba-2", 20 * GIB, max_model_len=10000))
    assert found.parts[0].each == found.state


def test_rows_of_full_attention_and_of_windows_may_differ():
    """Pages of 16 tokens of windows or 32 of full attention, in the 5 layers of a group."""
    found = use(ask("gemma-4-26b-a4b", 20 * GIB))
    assert found.parts[0].each == 5 * 16 * 2 * 8 * 256 * 2


def test_a_pool_of_windows_alone_has_pages_of_their_rows():
    asked = ask("gpt-oss-20b", 20 * GIB)
    windows = use(asked._replace(model=asked.model._replace(layers=tuple(asked.model.windows))))
    assert (windows.parts[0].each, windows.token, windows.window) == (12 * 16 * 2048, 0, 12 * 2048)
    assert windows.pool["tokens"] == int(windows.pool["blocks"] / 265 * 131072)


def test_layers_of_a_kind_with_different_sizes_are_refused():
    asked = ask("gemma-3", GIB)
    other = asked.model.layers[0]._replace(key=1)
    with pytest.raises(BadInput, match="layers of a kind have different sizes"):
        use(asked._replace(model=asked.model._replace(layers=(*asked.model.layers, other))))


def test_settings_for_agents_are_not_compared_where_blocks_have_other_sizes():
    for model in ("qwen3-next", "gemma-4-26b-a4b"):
        with pytest.raises(BadInput, match="are not compared"):
            next(FORMS.agents.settings(ask(model, GIB), 1))


@pytest.mark.parametrize(("model", "distances"), [("llama-3", (0,)), ("gpt-oss-20b", (0, DENSE))])
def test_settings_for_agents_have_as_many_blocks_as_fit_and_a_request_within_them(model, distances):
    question = ask(model, 2 * GIB)._replace(tokens=100_000)
    found = [*agent_settings(question, 3)]
    assert [(one["block_size"], one["prefix_cache_retention_interval"]) for one in found] == [
        (size, distance) for size in BLOCK_SIZES for distance in distances]  # fmt: skip
    for one in found:
        size = one["block_size"]
        pool = use(question._replace(options={**question.options, "block_size": size})).pool
        assert one["num_gpu_blocks"] == pool["blocks"]
        assert one["max_model_len"] == min(context_needed(question), pool["tokens"] // size * size)
