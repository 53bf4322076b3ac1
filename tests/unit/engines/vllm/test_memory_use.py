"""Blocks of the pool in a given memory, as the source computes them."""

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES, rules_of
from cachesim.engines.shared.memory_use import MemoryQuestion
from cachesim.engines.shared.model_sizes import real_model
from cachesim.engines.vllm.memory_use import FORMS, groups_of, use

GIB = 1 << 30


def ask(model, room, **options):
    sizes = {flag.name: flag.default for flag in FORMS.flags}
    found = {**ENGINES["vllm"].manual.defaults, **sizes, **options}
    return MemoryQuestion(real_model(model), found, rules_of("vllm@0.33.0"), room)


def test_a_block_has_the_rows_of_all_layers_of_a_group():
    assert dict(use(ask("llama-3", 20 * GIB)).pool) == {"blocks": 10240, "tokens": 163840}
    assert groups_of(real_model("gpt-oss-20b")) == (1, 1, 12)
    assert use(ask("gpt-oss-20b", 20 * GIB)).parts[0].each == 12 * 2048 * 16


def test_groups_have_the_layers_of_the_rarest_kind_unless_the_kinds_are_nearly_as_large():
    assert groups_of(real_model("gemma-3")) == (1, 6, 4)
    nearly = real_model("gpt-oss-20b")
    assert groups_of(nearly._replace(layers=(*nearly.layers, nearly.layers[1]))) == (1, 1, 13)


def test_windows_hold_at_most_a_window_and_a_step():
    """A request of 131,072 tokens takes 8,192 blocks of attention, and of windows those of 2,175 tokens and one."""
    found = use(ask("gpt-oss-20b", 20 * GIB))
    assert found.pool["tokens"] == int(found.pool["blocks"] / (8192 + 137) * 131072)


def test_chunks_of_cpu_memory_lie_in_the_host():
    _, chunks = use(ask("llama-3", 20 * GIB, num_cpu_chunks=1000, blocks_per_chunk=2)).parts
    assert (chunks.number, chunks.each, chunks.host) == (1000, 2 * use(ask("llama-3", 20 * GIB)).parts[0].each, True)


def test_other_layouts_are_refused():
    for model in ("qwen3-next", "gemma-4-26b-a4b"):
        with pytest.raises(BadInput):
            use(ask(model, GIB))
