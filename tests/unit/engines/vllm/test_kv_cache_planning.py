"""Groups of layers with their block sizes, and the sizes that follow from them."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput, NotInBuild
from cachesim.engines.vllm.flags import options
from cachesim.engines.vllm.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec
from cachesim.engines.vllm.kv_cache_planning import (
    attention_groups,
    get_kv_cache_config,
    layers_by_kind,
    made_groups,
    stated_groups,
)
from cachesim.engines.vllm.layer_groups import LayerGroups
from cachesim.engines.vllm.page_sizes import LayerBlocks
from cachesim.engines.vllm.profiles import PROFILES, V0_31_0, V0_33_0
from cachesim.engines.vllm.rules.lookup import SpecGroup
from cachesim.engines.vllm.rules.schedule import Speculation
from cachesim.engines.vllm.start_options import resolved
from cachesim.model import parse

F, T = False, True
PLAIN = Speculation(0, 0, 0, F)
UNKNOWN = 1 << 30           # length of the longest request, unless it is given


def config(model, rules=V0_33_0, **flags):
    spec = parse(model)
    return get_kv_cache_config(rules, options(resolved(rules, spec, flags)), spec)


def group(number, kind, block, *layers, window=0, eagle=F, drop=F, align=F, cap=0):
    return KVCacheGroupSpec(number, kind, block, window, eagle, layers, drop, align, cap)


def looked_up(*members, kind="full", block=16, size=0, drop=F):
    return SpecGroup(
        group_ids=[*members],
        is_full_attention=kind == "full",
        is_mamba=kind == "mamba",
        block_size=block,
        window=size,
        use_eagle=drop,
    )


def sizes(step, unit, align, partial, block, longest, speculation=PLAIN, again=0, shared=F, split=F):
    """Return a configuration without groups."""
    return KVCacheConfig((), (), step, unit, align, partial, block, longest, speculation, again, shared, split)


EAGLE = {"speculative_method": "eagle", "num_speculative_tokens": 2}


@pytest.mark.parametrize(("model", "flags", "groups", "kinds", "wanted"), [
    ("A", {}, [group(0, "full", 16, 0)], [looked_up(0)], sizes(16, 16, 16, F, 16, UNKNOWN)),
    ("W8 A", {"block_size": 4}, [group(0, "full", 4, 1), group(1, "swa", 4, 0, window=8, cap=1027)],
     [looked_up(0, block=4), looked_up(1, kind="swa", block=4, size=8)], sizes(4, 4, 4, F, 4, UNKNOWN)),
    ("GA", {"mamba_block_size": 32}, [group(0, "full", 16, 1), group(1, "mamba", 32, 0, align=T)],
     [looked_up(0), looked_up(1, kind="mamba", block=32)], sizes(32, 16, 16, T, 16, UNKNOWN, split=T)),
    ("GA", {"enable_prefix_caching": False, "max_model_len": 100},      # a block of states holds a whole request
     [group(0, "full", 16, 1), group(1, "mamba", 100, 0)], [], sizes(400, 400, 400, F, 16, 100)),
    ("GGGA W8", {"block_size": 8, "async_scheduling": False, "max_num_batched_tokens": 16},
     [group(0, "full", 8, 3), *(group(1 + at, "mamba", 8, at, align=T) for at in range(3)),
      group(4, "swa", 8, 4, window=8, cap=4)],
     [looked_up(0, block=8), looked_up(1, 2, 3, kind="mamba", block=8), looked_up(4, kind="swa", block=8, size=8)],
     sizes(8, 8, 8, F, 8, UNKNOWN, split=T)),
    ("A", EAGLE, [group(0, "full", 16, 0, eagle=T)], [looked_up(0)],
     sizes(16, 16, 16, F, 16, UNKNOWN, Speculation(2, 1, 1, F))),
    ("W8 A", {**EAGLE, "disable_lookahead_block_hashes": True},
     [group(0, "full", 16, 1, eagle=T, drop=T), group(1, "swa", 16, 0, window=8, cap=258)],
     [looked_up(0, drop=T), looked_up(1, kind="swa", size=8)],
     sizes(16, 16, 16, F, 16, UNKNOWN, Speculation(2, 1, 0, T))),
    ("GA", {"speculative_method": "mtp", "num_speculative_tokens": 3, "multi_module_mtp": True,
            "prefix_match_unit": 8},
     [group(0, "full", 16, 1, eagle=T), group(1, "mamba", 16, 0, align=T)], [looked_up(0), looked_up(1, kind="mamba")],
     sizes(16, 8, 8, T, 16, UNKNOWN, Speculation(3, 3, 3, F), again=2, split=T)),
    ("GA", {"kv_groups": "A/8 S/16e", "prefix_match_unit": 4, "enable_mamba_shared_prefix_checkpoint": True,
            "speculative_method": "eagle", "num_speculative_tokens": 1},
     [group(0, "full", 8, 1), group(1, "mamba", 16, 0, eagle=T, align=T)],
     [looked_up(0, block=8), looked_up(1, kind="mamba")],
     sizes(16, 4, 4, T, 8, UNKNOWN, Speculation(1, 1, 1, F), shared=T, split=T)),
    ("W8 A", {"kv_groups": "R5/8 W8/8", "decode_context_parallel_size": 2},       # two devices share a block
     [group(0, "rswa", 16, 1, window=5), group(1, "swa", 16, 0, window=8, cap=258)],
     [looked_up(0, size=5), looked_up(1, kind="swa", size=8)], sizes(16, 16, 16, F, 8, UNKNOWN)),
    ("K8 A", {"block_size": 4, **EAGLE, "disable_lookahead_block_hashes": True},
     [group(0, "full", 4, 1, eagle=T, drop=T), group(1, "chunked", 4, 0, window=8, cap=1026)],
     [looked_up(0, block=4, drop=T), looked_up(1, kind="chunked", block=4, size=8)],
     sizes(4, 4, 4, F, 4, UNKNOWN, Speculation(2, 1, 0, T))),
])  # fmt: skip
def test_a_model_has_these_groups_and_sizes(model, flags, groups, kinds, wanted):
    found = config(model, **flags)
    assert [*found.kv_cache_groups] == groups and [*found.attention_groups] == kinds
    assert found._replace(kv_cache_groups=(), attention_groups=()) == wanted


SHORT = {"block_size": 4, "max_num_batched_tokens": 16, "async_scheduling": False}


@pytest.mark.parametrize(("release", "method", "known", "dropping"), [
    ("0.33.0", "eagle", [T, F], [T, F]), ("0.32.0", "mtp", [T, F], [T, F]), ("0.32.0", "eagle", [F, F], [T, T]),
    ("0.30.0", "mtp", [F, F], [T, T]), ("0.24.0", "eagle3", [F, F], [T, T]),
])  # fmt: skip
def test_all_groups_evaluate_their_last_block_again_where_that_of_the_drafter_is_not_known(
    release, method, known, dropping,
):
    flags = {"speculative_method": method, "num_speculative_tokens": 1}
    flags |= {"disable_lookahead_block_hashes": True} if release == "0.33.0" else {"enable_prefix_caching": True}
    groups = config("GA", PROFILES[f"vllm@{release}"], **flags).kv_cache_groups
    assert [group.is_eagle_group for group in groups] == known
    assert [group.use_eagle for group in groups] == dropping


@pytest.mark.parametrize(("model", "blocks", "drafts", "tokens"), [
    ("A", 9, 0, 32), ("A", 2, 0, 4), ("W8 A", 4, 0, 4), ("W8 A", 20, 0, 48), ("W8 A", 40, 0, 128), ("GA", 9, 0, 24),
    ("GA", 9, 2, 16), ("S", 5, 0, UNKNOWN - 1),
])  # fmt: skip
def test_a_length_that_the_server_chooses_fills_the_pool(model, blocks, drafts, tokens):
    """A window of 8 holds at most 7 blocks of 4: 7 tokens before a step of 16, and one block more."""
    drafter = {"speculative_method": "ngram", "num_speculative_tokens": drafts} if drafts else {}
    flags = {**SHORT, **drafter, "num_gpu_blocks": blocks}
    assert config(model, max_model_len=-1, **flags).max_model_len == tokens
    assert config(model, **flags).max_model_len == UNKNOWN


@pytest.mark.parametrize(("model", "blocks"), [("W8 A", 3), ("GA", 3)])
def test_a_pool_that_holds_no_request_of_any_length_is_refused(model, blocks):
    with pytest.raises(BadInput, match=f"{blocks} blocks do not hold one request"):
        config(model, **SHORT, num_gpu_blocks=blocks)


def test_states_of_every_block_or_without_a_mode_do_not_end_with_chunks():
    every = config("SA", V0_31_0, mamba_cache_mode="all")
    assert [one.align for one in every.kv_cache_groups] == [F, F] and not every.need_mamba_block_aligned_split
    plain = get_kv_cache_config(V0_33_0, options({}), parse("GA"))        # before the server chose a mode
    assert [one.align for one in plain.kv_cache_groups] == [F, F] and not plain.need_mamba_block_aligned_split
    with pytest.raises(NotInBuild, match=r"mamba_cache_mode all does not exist in vllm@0\.33\.0"):
        config("A", mamba_cache_mode="all")


CPU = {"num_cpu_chunks": 4}
INTERVAL = "prefix_cache_retention_interval"


@pytest.mark.parametrize(("model", "flags", "told"), [
    ("A", {**CPU, "decode_context_parallel_size": 2}, "blocks that several devices share"),
    ("GA", {**CPU, "prefix_match_unit": 4}, "last part of a block of states"),
    ("GA", {**CPU, "prefix_match_unit": 4, "blocks_per_chunk": 2}, ""), ("GA", CPU, ""),
    ("GA", {**CPU, "prefix_match_unit": 4, "mamba_block_size": 32}, ""),
    ("GA", {**CPU, INTERVAL: -1}, "windows or states that are all kept"), ("A", {**CPU, INTERVAL: -1}, ""),
    ("W8", {**CPU, INTERVAL: -1}, "windows or states that are all kept"), ("K16 A", {**CPU, INTERVAL: -1}, ""),
    ("GA", {**CPU, INTERVAL: 16, "blocks_per_chunk": 2}, f"{INTERVAL} 16 is not a multiple of the chunks"),
    ("GA", {**CPU, INTERVAL: 32, "blocks_per_chunk": 2}, ""), ("GA", {INTERVAL: 16}, ""),
    ("GGA", {**CPU, "kv_groups": "A/8 S/16 S/8"}, "states in blocks of different sizes"),
    ("A", {"block_size": 2, **EAGLE, "num_speculative_tokens": 3, "multi_module_mtp": True},
     "num_speculative_tokens 3 exceeds the common block of 2 tokens"),
    ("A", {"block_size": 3, **EAGLE, "num_speculative_tokens": 3, "multi_module_mtp": True}, ""),
    ("K8 A", {"kv_groups": "A/8 K8/4"}, "chunked attention with the block drop or unequal blocks"),
    ("K8", {**EAGLE, "disable_lookahead_block_hashes": True}, "chunked attention with the block drop"),
    ("GA", {INTERVAL: 24}, "24 is not a multiple of 16"),
    ("A", {INTERVAL: 16}, "needs a layer with a window or a state"),
    ("GA", {"prefix_match_unit": 5}, "prefix_match_unit 5 does not divide the blocks of"),
    ("GA", {"prefix_match_unit": 5, "enable_prefix_caching": False}, ""),
    ("GA", {"kv_groups": "A/8 S/12", "prefix_match_unit": 8}, "prefix_match_unit 8 does not divide the blocks of"),
    ("W8 GA", {**CPU, "kv_groups": "A/8 W8/8 S/16", INTERVAL: 16, "blocks_per_chunk": 2},
     f"{INTERVAL} 16 is not a multiple of the chunks"),
    ("W8 GA", {**CPU, "kv_groups": "A/8 W8/8 S/16", INTERVAL: 32, "blocks_per_chunk": 2}, ""),
    ("AA W8 K8 S", {**CPU, "kv_groups": "A/8 R6/8 W8/8 K8/8 S/8"}, ""),
])  # fmt: skip
def test_options_with_which_a_server_starts_or_does_not(model, flags, told):
    if not told:
        config(model, **flags)
        return
    with pytest.raises(BadInput, match=told):
        config(model, **flags)


@pytest.mark.parametrize(("text", "model", "groups"), [
    ("A/16", "AA", [group(0, "full", 16, 0, 1)]),
    ("A/16 A/8", "AAAA", [group(0, "full", 16, 0, 1), group(1, "full", 8, 2, 3)]),
    ("S/8 R6/4 S/8 A/4 S/8", "GGAGAGGA", [
        group(0, "mamba", 8, 0, 1), group(1, "rswa", 4, 2, 4, window=6), group(2, "mamba", 8, 3, 5),
        group(3, "full", 4, 7), group(4, "mamba", 8, 6)]),
    ("S/64e A/16 S/32", "GAGG", [group(0, "mamba", 64, 0, 2, eagle=T), group(1, "full", 16, 1),
                                 group(2, "mamba", 32, 3)]),
    ("W8/4 A/8 W16/4", "W8 W16 A W8", [group(0, "swa", 4, 0, 3, window=8), group(1, "full", 8, 2),
                                        group(2, "swa", 4, 1, window=16)]),
    ("R6/4 A/8", "AAA", [group(0, "rswa", 4, 0, 1, window=6), group(1, "full", 8, 2)]),
    ("K8/4 A/4 S/4", "K8 H", [group(0, "chunked", 4, 0, window=8), group(1, "full", 4, 1), group(2, "mamba", 4, 1)]),
])  # fmt: skip
def test_stated_groups_share_the_layers_of_their_kind(text, model, groups):
    assert stated_groups(text, parse(model)) == groups


@pytest.mark.parametrize(("text", "told"), [
    ("", "does not fit"), ("A/16 S/16", "does not fit"), ("W8/16", "does not fit"), ("A/16 A/16", "does not fit"),
    ("A/0", "'A/0' is not a group"), ("A16", "'A16' is not a group"), ("A/16f", "'A/16f' is not a group"),
    ("A/16 B/4", "'B/4' is not a group"),
])  # fmt: skip
def test_groups_that_do_not_fit_are_refused(text, told):
    with pytest.raises(BadInput, match=told):
        stated_groups(text, parse("A"))


def test_groups_of_a_real_model_may_be_without_a_layer():
    assert stated_groups("A/16 A/16", parse("A"), empty=True) == [group(0, "full", 16, 0), group(1, "full", 16)]


def test_layers_are_sorted_by_kind_and_made_into_groups():
    spec = parse("W8 A H W16 K4 W8")
    assert layers_by_kind(spec) == {("W", 8): [0, 5], ("A", 0): [1, 2], ("S", 0): [2], ("W", 16): [3], ("K", 4): [4]}
    blocks = LayerBlocks(full=16, window=8, state=64)
    assert made_groups(blocks, spec, eagle=True, groups=None) == "A/16e A/16 W8/8 W8/8 S/64 W16/8 K4/16"
    assert made_groups(blocks, parse("W8 W8 A A"), eagle=False, groups=None) == "A/16 W8/8"
    groups = LayerGroups(full=1, window=3, state=2, layers=4)
    assert made_groups(blocks, parse("W8 A G"), eagle=False, groups=groups) == "A/16 W8/8 W8/8 W8/8 S/64 S/64"


def test_equal_groups_are_looked_up_together_those_of_full_attention_first():
    groups = [group(0, "swa", 16, window=8), group(1, "full", 16), group(2, "mamba", 16), group(3, "swa", 16, window=8),
              group(4, "full", 8), group(5, "rswa", 16, window=4)]  # fmt: skip
    assert attention_groups(groups, {3, 5}) == (
        looked_up(1), looked_up(4, block=8), looked_up(5, size=4, drop=T), looked_up(0, 3, kind="swa", size=8, drop=T),
        looked_up(2, kind="mamba"))


@pytest.mark.parametrize(("model", "partial"), [("GA", T), ("S", F), ("A", F), ("W8 A", F)])
def test_hits_end_inside_a_block_that_devices_share_only_beside_another_group(model, partial):
    found = config(model, enable_prefix_caching=True, decode_context_parallel_size=2)
    assert found.enable_partial_hash_hits is partial
