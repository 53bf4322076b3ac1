"""Slots of the pools in a given memory, as the source computes them."""

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES, rules_of
from cachesim.engines.sglang.flags import options
from cachesim.engines.sglang.memory_use import FORMS, RATIOS, STRATEGIES, WINDOW_RATIOS, agent_settings, use
from cachesim.engines.sglang.pool_sizes import resolved
from cachesim.engines.sglang.profiles import V0_5_23
from cachesim.engines.shared.memory_use import MemoryPart, MemoryQuestion, MemoryUse
from cachesim.engines.shared.model_sizes import real_model
from cachesim.model import parse

GIB = 1 << 30


def ask(model, room, **options):
    sizes = {flag.name: flag.default for flag in FORMS.flags}
    defaults = ENGINES["sglang"].manual.defaults
    return MemoryQuestion(real_model(model), {**defaults, **sizes, **options}, rules_of("sglang@0.5.23"), room)


def slots(model, room, **options):
    return {part.name: part.number for part in use(ask(model, room, **options)).parts}


def test_attention_fills_the_room_in_whole_pages():
    assert slots("llama-3", GIB + 131072 * 5) == {"slots of rows": 8197}
    assert slots("llama-3", GIB + 131072 * 5, page_size=16) == {"slots of rows": 8192}


def test_windows_have_their_share_of_the_slots():
    found = slots("gpt-oss", 20 * GIB)
    assert found == {"slots of rows": int(20 * GIB / (36864 * 1.8)), "slots of windows": int(323634 * 0.8)}


def test_states_get_their_share_with_the_slot_that_pads_the_pool():
    state = 36 * (24576 * 2 + 524288 * 4)
    found = slots("qwen3-next", 40 * GIB, mamba_full_memory_ratio=1.0)
    assert found["slots of states"] == (20 * GIB - state) // state
    assert found["slots of rows"] == (40 * GIB - (found["slots of states"] + 1) * state) // 24576


def test_without_a_room_the_options_count():
    assert slots("gpt-oss", 0, max_total_tokens=1000) == {"slots of rows": 1000, "slots of windows": 800}


def test_copies_are_counted_beside_a_pool_of_the_options():
    found = slots("llama-3", 0, max_total_tokens=1000, enable_hierarchical_cache=True, page_size=4)
    assert found == {"slots of rows": 1000, "copies of slots": 2004}
    assert "copies of slots" not in slots("llama-3", GIB, enable_hierarchical_cache=True)


def test_settings_for_agents_divide_the_memory_between_rows_windows_and_states():
    assert [*agent_settings(ask("llama-3", GIB), 1)] == [{"max_total_tokens": slots("llama-3", GIB)["slots of rows"]}]
    windows = [*agent_settings(ask("gpt-oss", GIB), 1)]
    assert windows == [{"swa_full_tokens_ratio": ratio, "max_total_tokens": slots(
        "gpt-oss", GIB, swa_full_tokens_ratio=ratio)["slots of rows"]} for ratio in WINDOW_RATIOS]  # fmt: skip
    states = [*agent_settings(ask("qwen3-next", 40 * GIB), 1)]
    assert [(one["mamba_full_memory_ratio"], one["mamba_radix_cache_strategy"]) for one in states] == [
        (ratio, name) for ratio in RATIOS for name in STRATEGIES]  # fmt: skip
    for one in states:
        given = {name: one[name] for name in ("mamba_full_memory_ratio", "mamba_radix_cache_strategy",
                                              "disable_overlap_schedule")}  # fmt: skip
        found = slots("qwen3-next", 40 * GIB, **given)
        sizes = one["max_total_tokens"], one["max_mamba_cache_size"]
        assert sizes == (found["slots of rows"], found["slots of states"])
        assert given["disable_overlap_schedule"] is (given["mamba_radix_cache_strategy"] == "no_buffer")


@pytest.mark.parametrize("settings", [{}, {"max_mamba_cache_size": 60}, {"kv_cache_dtype": "fp8_e5m2"}])
def test_a_memory_holds_the_pools_that_the_server_derives_from_it(settings):
    """The numbers of --set pool_gib; rows of one byte leave room for twice as many."""
    given = {name: value for name, value in settings.items() if name != "kv_cache_dtype"}
    made = resolved(V0_5_23, options({"real_model": "qwen3.6-27b", "pool_gib": 12.0, **given}), parse("GGGA"))
    found = slots("qwen3.6-27b", 12 * GIB, **settings)
    assert found["slots of states"] == made.max_mamba_cache_size
    assert found["slots of rows"] // (2 if "kv_cache_dtype" in settings else 1) == made.max_total_tokens


def test_states_need_a_share_of_the_memory():
    with pytest.raises(BadInput, match="mamba-full-memory-ratio must be above 0"):
        slots("qwen3-next", GIB, mamba_full_memory_ratio=0.0)


def test_copies_lie_in_the_memory_of_the_host_and_the_pools_fill_the_others():
    found = use(ask("gpt-oss", 0, max_total_tokens=1000, enable_hierarchical_cache=True, hicache_ratio=1.5))
    assert found == MemoryUse(36864, 36864, 0, checkpoint=0, parts=(
        MemoryPart("slots of rows", 36864, 1000, "slots"), MemoryPart("slots of windows", 36864, 800, "slots"),
        MemoryPart("copies of slots", 36864, 1501, "slots", host=True),
    ), pool={"slots of rows": 1000, "slots of windows": 800}, takes_all=True)  # fmt: skip
    assert [part.host for part in found.parts] == [False, False, True]


@pytest.mark.parametrize(("kinds", "room", "settings"), [
    ("W", GIB, [{"max_total_tokens": GIB // 36864}]), ("", GIB, [{"max_total_tokens": 0}]),
])  # fmt: skip
def test_an_agent_counts_slots_of_rows_else_those_of_windows(kinds, room, settings):
    question = ask("gpt-oss", room)
    model = question.model._replace(layers=tuple(one for one in question.model.layers if one.kind in kinds))
    assert [*agent_settings(question._replace(model=model), 1)] == settings
